"""Fair Share's admission queue in front of an engine, on the simulator's clock."""

from collections.abc import Mapping
from datetime import UTC, datetime
from math import inf

from custom_components.fair_share.admission.model import (
    Limits,
    NodeSpec,
    Outcome,
    PreemptionRules,
    Rejected,
    Request,
    RequestClass,
    RequestRecord,
    ServerCapacity,
    Settings,
    TokenCount,
    Workload,
    WorkloadProfile,
)
from custom_components.fair_share.admission.placement import Placement
from custom_components.fair_share.admission.scheduler import Scheduler

from .engine import Step
from .front import FrontTotals, Orders
from .job import Job, Sequence
from .scenario import Client

WALL = datetime(2026, 1, 1, tzinfo=UTC)
MAX_OUTPUT_TOKENS = 1024
"""What every client asks for; how long an answer really gets nobody knows before."""

POLICY_ALONE = WorkloadProfile(
    band=1,
    ttft_target_s=5.0,
    age_step_s=inf,
    max_wait_s=inf,
    patience_s=inf,
    completion_target_s=60.0,
    max_pause_s=5.0,
    consumed_tokens_per_s=6.0,
)
"""All requests equally urgent for ever, so that the policy decides every start."""


class HouseholdFront:
    """The queue with a household's members and one server behind it.

    An answer that is interrupted keeps its slot for ``abort_s`` more, as a server
    needs a moment to notice that the connection is closed. Running answers are looked
    at with every token, but not more often than every ``look_every_s``. ``records``
    are the accounts of all requests that ended, ``places`` where each started last.
    """

    def __init__(
        self,
        clients: Mapping[int, Client],
        capacity: ServerCapacity,
        settings: Settings,
        *,
        abort_s: float = 0.0,
        look_every_s: float = 0.0,
        placement: Placement | None = None,
    ) -> None:
        """Set the household up: a source of its member for each client."""
        self._scheduler = Scheduler(WALL, settings=settings, placement=placement)
        self._preempts = settings.preemption is not None
        self._abort_s = abort_s
        self._look_every_s = look_every_s
        self._look_at_s = 0.0
        self._leaving: dict[str, float] = {}
        self._running: set[str] = set()
        self._produced: dict[str, int] = {}
        self._produced_before: dict[str, int] = {}
        self._class_ids: dict[int, str] = {}
        self.records: list[RequestRecord] = []
        self.places: dict[str, str] = {}
        for number, client in clients.items():
            source = self._put_source(client)
            class_id = f"{source}/{client.workload}"
            self._scheduler.put_class(
                RequestClass(class_id, source, client.workload), WALL
            )
            self._class_ids[number] = class_id
        self._scheduler.put_server(capacity, 0.0)
        self._server_id = capacity.server_id
        self._undecided = False

    def put_server(self, capacity: ServerCapacity) -> None:
        """Add one more server."""
        self._scheduler.put_server(capacity, 0.0)

    def arrive(self, job: Job) -> bool:
        """Take a job in; ``False`` when the queue refuses it."""
        request = self._request(job, self._class_ids[job.client])
        try:
            self._scheduler.submit(request, job.arrival_s, WALL)
        except Rejected:
            return False
        self._undecided = True
        return True

    def orders(self, now: float) -> Orders:
        """Let the queue decide, after every arrival and every end as it does live."""
        self._let_go(now)
        if not self._undecided:
            return Orders()
        self._undecided = False
        self._look_at_s = now + self._look_every_s
        decisions = self._scheduler.decide(now, WALL)
        start = [each.request_id for each in decisions.dispatches]
        self.places |= {
            each.request_id: each.server_id for each in decisions.dispatches
        }
        abort = [each.request_id for each in decisions.preemptions]
        for job_id in abort:
            self._produced_before[job_id] = self._produced.get(job_id, 0)
            self._leaving[job_id] = now + self._abort_s
        self._running.update(start)
        self._running.difference_update(abort)
        if abort and self._let_go(now):
            resumed = self._scheduler.decide(now, WALL).dispatches
            start += [each.request_id for each in resumed]
            self._running.update(each.request_id for each in resumed)
            self._undecided = False
        return Orders(start=tuple(start), abort=tuple(abort))

    def progress(self, step: Step, now: float) -> None:
        """Report what an engine's stream and its final count would tell."""
        for sequence in step.prompts:
            job = sequence.job
            read = self._prompt(job, min(sequence.computed, job.prompt_tokens))
            self._scheduler.prompt_progress(
                job.job_id, uncached=read.uncached, cached=read.cached, now=now
            )
        for sequence in step.outputs:
            job_id = sequence.job.job_id
            self._scheduler.output(job_id, 1, now)
            self._produced[job_id] = sequence.produced
            if sequence.ended:
                self._end(sequence, now)
        if step.evicted:
            self._scheduler.note_exhausted(self._server_id, step.evicted)
        if self._preempts and now >= self._look_at_s:
            # Every token is a moment at which somebody may have got ahead.
            self._undecided = True

    def totals(self) -> FrontTotals:
        """Return the queue's own gauge."""
        status = self._scheduler.status(0.0)
        return FrontTotals(status.fairness_gap, status.fairness_bound)

    def _put_source(self, client: Client) -> str:
        """Put what of a member asks into the share tree; return its id."""
        source = f"{client.member}/direct"
        self._scheduler.put_node(NodeSpec(client.member, weight=client.weight), WALL)
        self._scheduler.put_node(NodeSpec(source, client.member), WALL)
        return source

    def _request(self, job: Job, class_id: str) -> Request:
        """Return what the queue is told of a job when it arrives."""
        return Request(
            request_id=job.job_id,
            class_id=class_id,
            prompt_tokens=job.prompt_tokens,
            max_output_tokens=MAX_OUTPUT_TOKENS,
        )

    def _prompt(self, job: Job, read: int) -> TokenCount:  # noqa: ARG002 - a hook
        """Return how much of what was read of a prompt came from a cache."""
        return TokenCount(uncached=read)

    def _let_go(self, now: float) -> bool:
        """Tell the queue which slots interrupted answers have left by now.

        When nothing else runs there is no step that could take the time.
        """
        gone = [
            job_id
            for job_id, at_s in self._leaving.items()
            if at_s <= now or not self._running
        ]
        for job_id in gone:
            del self._leaving[job_id]
            self._scheduler.preempted(job_id, now)
            self._undecided = True
        return bool(gone)

    def _end(self, sequence: Sequence, now: float) -> None:
        job = sequence.job
        output = sequence.produced - self._produced_before.get(job.job_id, 0)
        prompt = self._prompt(job, job.prompt_tokens)
        tokens = TokenCount(prompt.uncached, prompt.cached, output)
        self._scheduler.settle(job.job_id, tokens, estimated=False)
        record = self._scheduler.release(job.job_id, Outcome.FINISHED, now)
        self.records.append(record)
        self._running.discard(job.job_id)
        self._undecided = True


class QueueFront(HouseholdFront):
    """The queue with one member for each client, all of whom chat."""

    def __init__(
        self,
        weights: Mapping[int, float],
        capacity: ServerCapacity,
        *,
        policy: str = "equal_tokens",
        profile: WorkloadProfile = POLICY_ALONE,
        preemption: PreemptionRules | None = None,
    ) -> None:
        """Set the household up: a member for each client in ``weights``."""
        clients = {
            client: Client(f"{client}", Workload.CHAT, weight)
            for client, weight in weights.items()
        }
        settings = Settings(
            policy=policy,
            profiles={Workload.CHAT: profile},
            limits=Limits(queued=10**9, queued_per_class=10**9),
            preemption=preemption,
        )
        super().__init__(clients, capacity, settings)
