"""The asyncio face of the queue: wait for a turn, report progress, leave.

The scheduler decides; this module keeps one future for each waiting request and
makes sure that every way out of ``admit`` gives slot and memory back.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from math import inf
from typing import Protocol

from .model import (
    Dispatch,
    Ending,
    NodeSpec,
    Outcome,
    Rejected,
    RejectReason,
    Request,
    RequestClass,
    RequestRecord,
    ServerCapacity,
    Settings,
    TokenCount,
    Verdict,
    Workload,
)
from .scheduler import Scheduler
from .slicing import Slice
from .state import LedgerState
from .status import NodeStatus, QueueStatus

_LONGEST_SLEEP_S = 60.0
"""The wall clock is looked at so often, since it can be set at any time."""

_HISTORY_LENGTH = 256

_LOOK_EVERY_S = 0.1
"""While somebody waits, running answers are looked at so often: one may have become
old enough, or its owner far enough ahead, to be interrupted."""


class Clock(Protocol):
    """The time: monotonic seconds, and the household's aware local time."""

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        ...

    def wall(self) -> datetime:
        """Return the aware local time."""
        ...


class Grant:
    """The right to run one request now, and the place to report its progress."""

    def __init__(
        self, queue: AdmissionQueue, dispatch: Dispatch, path: tuple[str, ...]
    ) -> None:
        """Hold what the scheduler decided."""
        self._queue = queue
        self._path = path
        self._interrupt: Callable[[], None] | None = None
        self.dispatch = dispatch
        self.finished = False

    def prompt_progress(self, *, uncached: int, cached: int, again: int = 0) -> Verdict:
        """Report how much of the prompt is processed by now, in tokens.

        ``again`` is what had to be read once more since the latest start.
        """
        self._queue.scheduler.prompt_progress(
            self.dispatch.request_id,
            uncached=uncached,
            cached=cached,
            again=again,
            now=self._queue.clock.monotonic(),
        )
        self._queue.on_change(self._path)
        return self._queue.verdict(self.dispatch.request_id, Verdict.CONTINUE)

    def next_slice(self, *, done: int, total: int) -> Slice:
        """Return how much to read next of a prompt, or how long to rest."""
        now = self._queue.clock.monotonic()
        self._queue.look(now)
        return self._queue.scheduler.next_slice(
            self.dispatch.request_id, done=done, total=total, now=now
        )

    def note_slice(self, tokens: int, seconds: float, *, lost: bool) -> Verdict:
        """Report a slice that was read; the answer says whether to go on.

        The server computed so many ``tokens``. ``lost``: it did not find what had been
        read before.
        """
        now = self._queue.clock.monotonic()
        verdict = self._queue.scheduler.note_slice(
            self.dispatch.request_id, tokens, seconds, lost=lost, now=now
        )
        self._queue.look(now)
        return self._queue.verdict(self.dispatch.request_id, verdict)

    def read_in_one_go(self) -> None:
        """Note that this prompt can't be read in slices."""
        self._queue.scheduler.read_in_one_go(self.dispatch.request_id)

    def output(self, tokens: int) -> Verdict:
        """Report further output tokens; the answer says whether to go on."""
        now = self._queue.clock.monotonic()
        verdict = self._queue.scheduler.output(self.dispatch.request_id, tokens, now)
        self._queue.on_change(self._path)
        self._queue.look(now)
        return self._queue.verdict(self.dispatch.request_id, verdict)

    def listen(self, interrupt: Callable[[], None]) -> None:
        """Have ``interrupt`` called whenever somebody else needs the slot.

        It has to return at once; the holder then leaves the server and calls
        ``pause``, or finishes. Without this an answer is never interrupted.
        """
        self._interrupt = interrupt

    def shield(self, *, shielded: bool) -> None:
        """Say whether the answer can't be interrupted as things are.

        Somebody else is interrupted in its place, if it was its turn.
        """
        self._queue.scheduler.shield(self.dispatch.request_id, shielded=shielded)
        self._queue.decide()

    async def pause(
        self, *, lost: bool = False, servers: frozenset[str] | None = None
    ) -> None:
        """Give the slot up and wait at the front of the class for the next turn.

        Only once the server has been left. ``lost`` tells that this server failed, and
        that nobody asked for the slot. It goes on at one of ``servers`` (``None``: at
        any). Raises ``Rejected`` when the request is refused meanwhile.
        """
        queue, request_id = self._queue, self.dispatch.request_id
        if queue.closed:
            raise Rejected(RejectReason.CLOSED)
        if queue.verdict(request_id, Verdict.CONTINUE) is Verdict.STOP_CANCELLED:
            raise Rejected(RejectReason.CANCELLED)
        turn = queue.new_turn(request_id)
        queue.scheduler.preempted(
            request_id, queue.clock.monotonic(), lost=lost, servers=servers
        )
        if not lost:
            queue.on_preempted(self._path)
        queue.on_change(self._path)
        queue.decide()
        self.dispatch = await turn

    def interrupt(self) -> bool:
        """Ask the holder to leave; return whether it listens."""
        if self._interrupt is None:
            return False
        self._interrupt()
        return True

    def settle(self, tokens: TokenCount, *, estimated: bool) -> None:
        """Correct the account to the server's own final count."""
        self._queue.scheduler.settle(
            self.dispatch.request_id, tokens, estimated=estimated
        )

    def finish(self) -> None:
        """Note that the answer is whole; leaving without this is a cancellation."""
        self.finished = True


class AdmissionQueue:
    """One queue for everything that wants a household's servers.

    ``on_change`` is called with the ids of the nodes whose numbers changed, on every
    change, so it has to be cheap; ``on_record`` with the account of each request
    that ended; ``on_ending`` with how each request left, also when it was refused;
    ``on_preempted`` with the accounts of an answer that was interrupted for others.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        *,
        on_change: Callable[[Iterable[str]], None],
        on_record: Callable[[RequestRecord], None],
        on_ending: Callable[[Ending], None] | None = None,
        on_preempted: Callable[[tuple[str, ...]], None] | None = None,
    ) -> None:
        """Put a face on ``scheduler``; nobody else may call it from now on."""
        self.scheduler = scheduler
        self.clock = clock
        self.on_change = on_change
        self._on_record = on_record
        self._on_ending = on_ending or (lambda _: None)
        self.on_preempted = on_preempted or (lambda _: None)
        self._turns: dict[str, asyncio.Future[Dispatch]] = {}
        self._grants: dict[str, Grant] = {}
        self._refused: dict[str, RequestRecord] = {}
        self._cancelled: set[str] = set()
        self._look_at_s = inf
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False
        self.history: deque[RequestRecord] = deque(maxlen=_HISTORY_LENGTH)

    @asynccontextmanager
    async def admit(self, request: Request) -> AsyncIterator[Grant]:
        """Wait for the request's turn and hold its slot inside the ``with`` block.

        Raises ``Rejected`` at once or while waiting. Leaving the block, or being
        cancelled before or in it, gives everything back. A ``Rejected`` raised in
        the block counts as an answer that was stopped.
        """
        if self.closed:
            raise Rejected(RejectReason.CLOSED)
        request_id = request.request_id
        path = self.scheduler.path_ids(request.class_id)
        arrived_s = self.clock.monotonic()
        try:
            self.scheduler.submit(request, arrived_s, self.clock.wall())
        except Rejected as err:
            self.on_change(path)
            self._on_ending(Ending(request, path, 0.0, refusal=err.reason))
            raise
        turn = self.new_turn(request_id)
        self.on_change(path)
        grant: Grant | None = None
        outcome = Outcome.CANCELLED
        refusal: RejectReason | None = None
        try:
            self.decide()
            grant = self._grants[request_id] = Grant(self, await turn, path)
            yield grant
        except asyncio.CancelledError, GeneratorExit:
            raise
        except Rejected as err:
            outcome, refusal = Outcome.STOPPED, err.reason
            raise
        except Exception:
            outcome = Outcome.FAILED
            raise
        finally:
            turn = self._turns.pop(request_id)
            self._grants.pop(request_id, None)
            self._cancelled.discard(request_id)
            if turn.done() and not turn.cancelled():
                turn.exception()  # a refusal that nobody waits for is no news
            record = self._refused.pop(request_id, None)
            if self.scheduler.knows(request_id):
                whole = grant is not None and grant.finished
                record = self._release(
                    request_id, Outcome.FINISHED if whole else outcome
                )
            duration_s = self.clock.monotonic() - arrived_s
            self._on_ending(Ending(request, path, duration_s, record, refusal))
            self.on_change(path)
            self.decide()

    def decide(self) -> None:
        """Let the scheduler decide and pass its decisions on."""
        now = self.clock.monotonic()
        decisions = self.scheduler.decide(now, self.clock.wall())
        self._look_at_s = now + _LOOK_EVERY_S if self.scheduler.may_interrupt() else inf
        for dispatch in decisions.dispatches:
            turn = self._turns[dispatch.request_id]
            if not turn.done():
                turn.set_result(dispatch)
        for rejection in decisions.rejections:
            if rejection.record is not None:
                self._refused[rejection.request_id] = rejection.record
                self._file(rejection.record)
            turn = self._turns[rejection.request_id]
            if not turn.done():
                turn.set_exception(rejection.error)
        if decisions.reset_nodes:
            self.on_change(decisions.reset_nodes)
        self._arm_timer()
        for preemption in decisions.preemptions:
            self._ask_to_leave(preemption.request_id)

    def look(self, now: float) -> None:
        """Decide if it is time to look at the running answers again."""
        if now >= self._look_at_s:
            self.decide()

    def new_turn(self, request_id: str) -> asyncio.Future[Dispatch]:
        """Return what a request waits for, to be set when its turn comes."""
        turn: asyncio.Future[Dispatch] = asyncio.get_running_loop().create_future()
        self._turns[request_id] = turn
        return turn

    def put_node(self, spec: NodeSpec) -> None:
        """Add or change a member or source. Raises ``KeyError``: parent unknown."""
        self.scheduler.put_node(spec, self.clock.wall())
        self.decide()

    def put_class(self, spec: RequestClass) -> None:
        """Add a request class, if it is new. Raises ``KeyError`` as above."""
        if not self.scheduler.has_class(spec.class_id):
            self.scheduler.put_class(spec, self.clock.wall())

    def remove_node(self, node_id: str) -> None:
        """Remove a node with all below it; what waited there is refused."""
        self.scheduler.remove_node(node_id)
        self.decide()

    def configure(self, settings: Settings) -> None:
        """Change the rules; nothing is lost. Raises ``KeyError``: policy unknown."""
        self.scheduler.configure(settings)
        self.decide()

    def grant_tokens(self, node_id: str, tokens: int) -> None:
        """Add tokens to a quota for its current window. Raises ``KeyError``."""
        self.scheduler.grant(node_id, tokens)
        self.on_change((node_id,))
        self.decide()

    def reset_window(self, node_id: str) -> None:
        """Forget what was used in a quota's current window. Raises ``KeyError``."""
        self.scheduler.reset_window(node_id, self.clock.wall())
        self.on_change((node_id,))
        self.decide()

    def interrupt_paused(self) -> None:
        """Interrupt what runs of what is paused; it goes on when that does."""
        for request_id in self.scheduler.ask_paused_to_leave():
            self._ask_to_leave(request_id)

    def cancel(self, request_id: str) -> None:
        """Refuse a request that waits, or stop one that runs as soon as it can be.

        Raises ``KeyError`` when it is not here (any more).
        """
        turn = self._turns[request_id]
        if not turn.done():
            turn.set_exception(Rejected(RejectReason.CANCELLED))
            return
        self._cancelled.add(request_id)
        if grant := self._grants.get(request_id):
            grant.interrupt()

    def verdict(self, request_id: str, verdict: Verdict) -> Verdict:
        """Return what a running request has to do, if the rules say ``verdict``."""
        if self.closed:
            return Verdict.STOP_CLOSED
        cancelled = request_id in self._cancelled
        return Verdict.STOP_CANCELLED if cancelled else verdict

    def expected_wait_s(self, class_id: str) -> float:
        """Return in about how many seconds a new request of a class would start.

        0 if it could start at once. Raises ``KeyError``.
        """
        return self.scheduler.expected_wait_s(class_id, self.clock.monotonic())

    def put_server(self, capacity: ServerCapacity) -> None:
        """Add a server or change its capacity, and open it for starts."""
        self.scheduler.put_server(capacity, self.clock.monotonic())
        self.decide()

    def close_server(self, server_id: str) -> None:
        """Start nothing on a server until it is put again."""
        self.scheduler.close_server(server_id, self.clock.monotonic())
        self.decide()

    def remove_server(self, server_id: str) -> None:
        """Forget a server; what runs there ends in its own way."""
        self.scheduler.remove_server(server_id, self.clock.monotonic())
        self.decide()

    def expect(self, workload: Workload, seconds: float) -> None:
        """Be prepared for one request of this kind within so many seconds.

        Until it comes nothing is begun that could not be left soon.
        """
        self.scheduler.expect(workload, seconds, self.clock.monotonic())

    def hold_slot(self, server_id: str) -> None:
        """Start nothing on a slot that is still busy with a request that left."""
        self.scheduler.hold_slot(server_id)

    def free_slot(self, server_id: str) -> None:
        """Use a held slot again."""
        self.scheduler.free_slot(server_id)
        self.decide()

    def note_exhausted(self, server_id: str, times: int = 1) -> None:
        """Plan with less: a server ran out of memory and made room by itself."""
        self.scheduler.note_exhausted(server_id, times)

    def put_foreign(self, server_id: str, running: int, kv_tokens: int) -> None:
        """Take what runs on a server past the queue off its capacity.

        ``running`` requests that hold ``kv_tokens`` of its pool together.
        """
        self.scheduler.put_foreign(
            server_id, running, kv_tokens, self.clock.monotonic()
        )
        self.decide()

    def close(self) -> None:
        """Refuse all that waits, stop what runs as soon as it can be, and the timer."""
        self.closed = True
        self.scheduler.close()
        self.decide()
        for grant in tuple(self._grants.values()):
            grant.interrupt()

    @property
    def settings(self) -> Settings:
        """The rules in force."""
        return self.scheduler.settings

    def path_ids(self, node_id: str) -> tuple[str, ...]:
        """Return the ids from the household down to a node. Raises ``KeyError``."""
        return self.scheduler.path_ids(node_id)

    def children(self, node_id: str) -> list[NodeStatus]:
        """Return the accounts of who shares a node. Raises ``KeyError``."""
        return self.scheduler.children(node_id)

    def node_status(self, node_id: str) -> NodeStatus:
        """Return a snapshot of one account. Raises ``KeyError``."""
        return self.scheduler.node_status(node_id)

    def status(self, *, ahead: int = 0) -> QueueStatus:
        """Return a snapshot of the queue, with a forecast of the next starts."""
        return self.scheduler.status(self.clock.monotonic(), ahead=ahead)

    def export_state(self) -> LedgerState:
        """Return what outlives a restart."""
        return self.scheduler.export_state()

    def restore_state(self, state: LedgerState) -> None:
        """Take accounts over from before a restart."""
        self.scheduler.restore_state(state)

    def _ask_to_leave(self, request_id: str) -> None:
        grant = self._grants.get(request_id)
        if grant is None or not grant.interrupt():
            self.scheduler.shield(request_id, shielded=True)
            self.decide()

    def _release(self, request_id: str, outcome: Outcome) -> RequestRecord:
        record = self.scheduler.release(request_id, outcome, self.clock.monotonic())
        self._file(record)
        return record

    def _file(self, record: RequestRecord) -> None:
        self.history.append(record)
        self._on_record(record)

    def _arm_timer(self) -> None:
        """Decide again when patience or a quota window ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.closed:
            return
        reset = self.scheduler.next_reset() - self.clock.wall()
        delays = [_LONGEST_SLEEP_S, max(reset.total_seconds(), 0.0)]
        now = self.clock.monotonic()
        deadline = self.scheduler.next_deadline(now)
        if deadline is not None:
            delays.append(max(deadline - now, 0.0))
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(min(delays), self.decide)
