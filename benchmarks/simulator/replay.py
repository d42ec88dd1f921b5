"""A logged day through the queue again, under another policy or none."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from custom_components.fair_share.admission.model import (
    ROOT_ID,
    NodeSpec,
    Request,
    ServerCapacity,
    TokenCount,
    Workload,
)

from .activity import ActivityLog, LoggedRequest
from .chunked import ChunkedEngine, ChunkedLimits
from .engine import Step
from .front import Front, FrontTotals, Orders, PassThrough
from .household_run import LOOK_EVERY_S
from .job import Job, Sequence
from .memory import Memory, PagedPool, SlotMemory
from .prefix_cache import PrefixCache
from .profile import StepTimes
from .queue_front import WALL, HouseholdFront
from .run import Run, run
from .scenario import Client

STRAIGHT = "pass_through"
_SERVER = "server"
_ABORT_S = 0.1


class ReplayError(Exception):
    """A log can be read, but there is nothing in it that can be replayed."""


class _Asking(NamedTuple):
    """What of whom asks for which kind of work: one class of the share tree."""

    member: str
    source: str
    workload: Workload


@dataclass(frozen=True, slots=True)
class LoggedJob(Job):
    """A job as it was logged. ``cached_tokens`` of its prompt came from a cache."""

    cached_tokens: int = 0
    max_output_tokens: int = 0
    continues_turn: bool = False


@dataclass(frozen=True)
class Day:
    """What is replayed of a log: all that a server worked on then.

    ``left_out`` counts the others by how they ended: nobody knows how long their
    answers would have been.
    """

    log: ActivityLog
    capacity: ServerCapacity
    jobs: tuple[LoggedJob, ...]
    askings: tuple[_Asking, ...]
    left_out: Mapping[str, int]

    @cached_property
    def by_id(self) -> Mapping[str, LoggedJob]:
        """The jobs by id."""
        return {job.job_id: job for job in self.jobs}


def day_of(log: ActivityLog) -> Day:
    """Return what can be replayed. Raises ``ReplayError``."""
    capacity = _together(log.household.servers)
    askings: dict[_Asking, int] = {}
    jobs: list[LoggedJob] = []
    left_out: dict[str, int] = {}
    start_s = min((each.arrived_s for each in log.requests), default=0.0)
    longest = min(capacity.context_tokens, _memory(capacity).longest_tokens)
    for request in log.requests:
        job = _job(request, start_s, askings)
        if job is None:
            left_out[request.outcome] = left_out.get(request.outcome, 0) + 1
        elif job.prompt_tokens + job.output_tokens > longest:
            left_out["too_long"] = left_out.get("too_long", 0) + 1
        else:
            jobs.append(job)
    if not jobs:
        raise ReplayError("no request in the log was ever worked on")
    return Day(log, capacity, tuple(jobs), tuple(askings), left_out)


def _job(
    request: LoggedRequest, start_s: float, askings: dict[_Asking, int]
) -> LoggedJob | None:
    if request.started_s is None or not request.prompt_tokens:
        return None
    asking = _Asking(request.member, request.source, request.workload)
    return LoggedJob(
        job_id=request.request_id,
        client=askings.setdefault(asking, len(askings)),
        arrival_s=request.arrived_s - start_s,
        prompt_tokens=request.prompt_tokens,
        # An engine that has read a prompt has written a token.
        output_tokens=max(request.output_tokens, 1),
        cached_tokens=min(request.cached_tokens, request.prompt_tokens - 1),
        max_output_tokens=max(request.max_output_tokens, request.output_tokens, 1),
        continues_turn=request.continues_turn,
    )


def _together(servers: tuple[ServerCapacity, ...]) -> ServerCapacity:
    """Return one server with the slots of all. Raises ``ReplayError``."""
    if not servers:
        raise ReplayError("the log tells of no server, since none was ever ready")
    pools = [server.kv_tokens for server in servers]
    known = [pool for pool in pools if pool is not None]
    return replace(
        servers[0],
        server_id=_SERVER,
        slots=sum(server.slots for server in servers),
        context_tokens=max(server.context_tokens for server in servers),
        kv_tokens=sum(known) if len(known) == len(pools) else None,
    )


@dataclass(frozen=True, slots=True)
class Machine:
    """How fast the simulated server is, and how much it remembers of interruptions."""

    times: StepTimes
    batch_tokens: int
    cache_tokens: int = 100_000

    def engine(self, day: Day) -> ChunkedEngine:
        """Return an engine with the memory that the household's servers have."""
        return ChunkedEngine(
            self.times,
            _memory(day.capacity),
            ChunkedLimits(self.batch_tokens, day.capacity.slots),
            _LoggedCache(self.cache_tokens, day),
        )


def _memory(capacity: ServerCapacity) -> Memory:
    if capacity.kv_tokens is None:
        return SlotMemory(capacity.slots, capacity.context_tokens)
    return PagedPool(capacity.kv_tokens, capacity.block_tokens)


class _LoggedCache(PrefixCache):
    """A cache that has of each prompt what the log says, at its first start."""

    def __init__(self, capacity_tokens: int, day: Day) -> None:
        super().__init__(capacity_tokens)
        self._first = {job.job_id: job.cached_tokens for job in day.jobs}

    def peek(self, job_id: str) -> int:
        return super().peek(job_id) or self._first.get(job_id, 0)

    def take(self, job_id: str) -> int:
        first = self._first.pop(job_id, 0)
        return super().take(job_id) or first


class ReplayFront(HouseholdFront):
    """The queue as it was set up when the log was written, under another policy."""

    def __init__(self, day: Day, policy: str) -> None:
        """Set the household up."""
        self._household = day.log.household
        self._askings = day.askings
        self._jobs = day.by_id
        self._sources = iter(day.askings)
        super().__init__(
            {
                number: Client(asking.member, asking.workload)
                for number, asking in enumerate(day.askings)
            },
            day.capacity,
            replace(self._household.settings, policy=policy),
            abort_s=_ABORT_S,
            look_every_s=LOOK_EVERY_S,
        )

    def _put_source(self, client: Client) -> str:
        asking = next(self._sources)
        nodes = self._household.nodes
        member = nodes.get(client.member, NodeSpec(client.member))
        source = nodes.get(asking.source, NodeSpec(asking.source))
        # Names of our own: a device may have been given to somebody else meanwhile.
        member_id = f"member {client.member}"
        source_id = f"{member_id}, source {asking.source}"
        self._scheduler.put_node(
            replace(member, node_id=member_id, parent_id=ROOT_ID), WALL
        )
        self._scheduler.put_node(
            replace(source, node_id=source_id, parent_id=member_id), WALL
        )
        return source_id

    def _request(self, job: Job, class_id: str) -> Request:
        logged = self._jobs[job.job_id]
        return Request(
            request_id=job.job_id,
            class_id=class_id,
            prompt_tokens=job.prompt_tokens,
            max_output_tokens=logged.max_output_tokens,
            cached_tokens=logged.cached_tokens,
            continues_turn=logged.continues_turn,
        )

    def _prompt(self, job: Job, read: int) -> TokenCount:
        cached = min(self._jobs[job.job_id].cached_tokens, read)
        return TokenCount(read - cached, cached)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of a day.

    ``began_s`` by job: when work on it began. ``contended`` by job: the charge that it
    was served while something else was waiting.
    """

    run: Run
    began_s: Mapping[str, float]
    contended: Mapping[str, float]


class _Onlooker:
    """A front that passes everything on and notes what the report needs."""

    def __init__(self, front: Front, day: Day, tell: Callable[[int], None]) -> None:
        self.began_s: dict[str, float] = {}
        self._jobs = day.by_id
        self.contended = dict.fromkeys(self._jobs, 0.0)
        self._costs = day.log.household.settings.costs
        self._front = front
        self._tell = tell
        self._read: dict[str, int] = {}
        self._waiting: set[str] = set()
        self._ended = 0

    def arrive(self, job: Job) -> bool:
        taken = self._front.arrive(job)
        if taken:
            self._waiting.add(job.job_id)
        return taken

    def orders(self, now: float) -> Orders:
        orders = self._front.orders(now)
        self._waiting.update(orders.abort)
        return orders

    def progress(self, step: Step, now: float) -> None:
        for sequence in step.prompts:
            self.began_s.setdefault(sequence.job.job_id, now - step.duration_s)
        for sequence in (*step.prompts, *step.outputs):
            self._waiting.discard(sequence.job.job_id)
        for sequence in step.prompts:
            self._note(sequence, self._costs.charge(self._newly_read(sequence), 0, 0))
        for sequence in step.outputs:
            self._note(sequence, self._costs.charge(0, 0, 1))
        self._ended += sum(sequence.ended for sequence in step.outputs)
        self._tell(self._ended)
        self._front.progress(step, now)

    def totals(self) -> FrontTotals:
        return self._front.totals()

    def _note(self, sequence: Sequence, charge: float) -> None:
        if self._waiting:
            self.contended[sequence.job.job_id] += charge

    def _newly_read(self, sequence: Sequence) -> int:
        job_id = sequence.job.job_id
        read = min(sequence.once_computed, sequence.job.prompt_tokens)
        before = self._read.get(job_id, self._jobs[job_id].cached_tokens)
        self._read[job_id] = read
        return read - before


def replay(
    day: Day, policy: str, machine: Machine, tell: Callable[[int], None]
) -> Replayed:
    """Work a day off under a policy, or straight at the server.

    ``tell`` is called with the number of answers that are ready. Raises
    ``ReplayError`` if a limit of the household lets something wait for ever.
    """
    front = PassThrough() if policy == STRAIGHT else ReplayFront(day, policy)
    onlooker = _Onlooker(front, day, tell)
    try:
        done = run(day.jobs, machine.engine(day), onlooker)
    except RuntimeError:
        raise ReplayError(
            f"under {policy} a limit of a member lets requests wait for ever"
        ) from None
    return Replayed(done, onlooker.began_s, onlooker.contended)
