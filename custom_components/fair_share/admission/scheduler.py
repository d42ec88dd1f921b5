"""The decision: who starts next, where, and why.

Synchronous and free of I/O: events go in through methods, decisions come out of
``decide`` as values. The caller passes the time in: ``now`` is monotonic seconds,
``wall`` an aware local time that only quotas use. Cost of a decision: the classes
that have something waiting, times the depth of the tree.
"""

from collections import defaultdict, deque
from datetime import UTC, datetime
from math import inf

from .accounts import Accounts
from .board import Board
from .entry import Entry
from .explain import waiting_rule
from .fairness import FairnessGauge
from .forecast import expected_wait_s, forecast
from .model import (
    Decisions,
    NodeSpec,
    Outcome,
    Rejected,
    Rejection,
    RejectReason,
    Request,
    RequestClass,
    RequestRecord,
    Rule,
    ServerCapacity,
    Settings,
    TokenCount,
    Verdict,
    Workload,
)
from .placement import Placement
from .policies import POLICIES
from .quota import CLOCK_STEP_TOLERANCE
from .refusal import Refuser, queue_full, quota_used_up, too_long, waits_for_refill
from .reserve import BackgroundReserve
from .selection import Selector
from .servers import Server
from .slicing import Slice, Slicing
from .speed import Speeds
from .starts import Starter
from .state import LedgerState
from .status import NodeStatus, QueueStatus

_FIRST_GUESS_DURATION_S = 10.0


class Scheduler:
    """The queue's whole state and all its rules."""

    def __init__(
        self,
        wall: datetime,
        *,
        settings: Settings | None = None,
        placement: Placement | None = None,
    ) -> None:
        """Start with no members and no servers. Raises ``KeyError``: policy unknown."""
        self._settings = settings or Settings()
        self._board = Board(wall)
        self._tree = self._board.tree
        self._gauge = FairnessGauge(self._tree.root)
        self._reserve = BackgroundReserve(
            self._settings.background_share, self._settings.background_debt
        )
        self._accounts = Accounts(
            self._gauge,
            self._reserve,
            self._board.background_waits,
            self._settings.costs,
        )
        self._selector = Selector(self._settings, self._reserve)
        self._speeds = Speeds()
        self._placement = placement or Placement()
        self._starter = Starter(
            self._board,
            self._selector,
            self._accounts,
            self._gauge,
            speeds=self._speeds,
            placement=self._placement,
        )
        self._refuser = Refuser(self._board)
        self._slicing = Slicing()
        self._reset_nodes: list[str] = []
        self._durations: deque[float] = deque(maxlen=20)
        self._sequence = 0
        self._windows_checked_at = wall.astimezone(UTC)
        self._next_reset = self._first_reset()
        self.configure(self._settings)

    # What the household is made of

    def put_node(self, spec: NodeSpec, wall: datetime) -> None:
        """Add or change a member or source. Raises ``KeyError``: parent unknown."""
        self._tree.put_node(spec, wall)
        self._next_reset = self._first_reset()

    def put_class(self, spec: RequestClass, wall: datetime) -> None:
        """Add a request class. Raises ``KeyError`` when its parent is unknown."""
        self._tree.put_class(spec, self._settings.profiles[spec.workload], wall)

    def remove_node(self, node_id: str) -> None:
        """Remove a node with all below it; what waited there is refused."""
        for entry in self._tree.stranded(node_id):
            self._refuser.refuse(entry, Rejected(RejectReason.CLASS_REMOVED))
        self._tree.remove(node_id)

    def configure(self, settings: Settings) -> None:
        """Change the rules; nothing that waits or runs is lost.

        Prices hold for what starts from now on. Raises ``KeyError``: policy unknown.
        """
        POLICIES[settings.policy]
        self._settings = settings
        self._selector.settings = settings
        self._accounts.costs = settings.costs
        self._reserve.share = settings.background_share
        self._reserve.most = settings.background_debt
        self._tree.pause(settings.paused_nodes, settings.paused_workloads)
        for leaf in self._tree.root.leaves():
            leaf.profile = settings.profiles[leaf.workload]
        for entry in self._board.waiting.values():
            entry.judged_until_s = -inf
        for server in self._board.servers.values():
            # Who was not to be overtaken may not be so urgent any more.
            server.blocked = None

    def grant(self, node_id: str, tokens: int) -> None:
        """Add tokens to a node's quota for its current window. Raises ``KeyError``."""
        self._tree.nodes[node_id].window.granted_tokens += tokens

    def reset_window(self, node_id: str, wall: datetime) -> None:
        """Forget what a node used in its current window. Raises ``KeyError``."""
        self._tree.nodes[node_id].window.reset(wall)

    # Servers

    def put_server(self, capacity: ServerCapacity, now: float) -> None:
        """Add a server or change its capacity, and open it for starts."""
        server = self._board.servers.setdefault(
            capacity.server_id, Server(capacity, self._speeds)
        )
        server.open(capacity)
        self._board.note_servers(now)
        self._refuser.refuse_hopeless()

    def close_server(self, server_id: str, now: float) -> None:
        """Start nothing on a server until it is put again; unknown ids are ignored."""
        if server := self._board.servers.get(server_id):
            server.usable = False
        self._board.note_servers(now)

    def remove_server(self, server_id: str, now: float) -> None:
        """Forget a server; what runs there ends in its own way."""
        self._board.servers.pop(server_id, None)
        self._slicing.forget_server(server_id)
        self._board.note_servers(now)
        self._refuser.refuse_hopeless()

    def hold_slot(self, server_id: str) -> None:
        """Note that a slot stays busy after its request has left. Unknown: ignored."""
        if server := self._board.servers.get(server_id):
            server.held_slots += 1

    def free_slot(self, server_id: str) -> None:
        """Note that a held slot is free now. Unknown: ignored."""
        server = self._board.servers.get(server_id)
        if server is not None and server.held_slots:
            server.held_slots -= 1

    def put_foreign(
        self, server_id: str, running: int, kv_tokens: int, now: float
    ) -> None:
        """Note what runs on a server past the queue. Unknown: ignored.

        ``running`` requests that hold ``kv_tokens`` of a shared pool together.
        """
        if server := self._board.servers.get(server_id):
            server.put_foreign(running, kv_tokens, now)

    def note_exhausted(self, server_id: str, times: int = 1) -> None:
        """Note that an engine ran out of memory; plan with less. Unknown: ignored."""
        if server := self._board.servers.get(server_id):
            server.note_exhausted(times)

    # The life of a request

    def submit(self, request: Request, now: float, wall: datetime) -> None:
        """Take a request into its class.

        Raises ``Rejected`` when it can never run, a quota above it is used up, or
        too much waits already; ``KeyError`` when the class is unknown and
        ``ValueError`` when the id is in use.
        """
        if self._board.knows(request.request_id):
            msg = f"request id in use: {request.request_id}"
            raise ValueError(msg)
        leaf = self._tree.leaf(request.class_id)
        self._pass_time(wall)
        if not request.continues_turn:
            self._slicing.note_arrival(leaf.workload, now)
        self._sequence += 1
        entry = Entry(request, leaf, now, self._sequence)
        refusal = (
            too_long(entry, self._board.servers.values())
            or quota_used_up(leaf, wall)
            or (
                None
                if request.continues_turn
                else queue_full(leaf, self._settings.limits, self._mean_wait_s())
            )
        )
        if refusal:
            leaf.note_rejected()
            raise refusal
        self._board.enqueue(entry, front=request.continues_turn)
        self._board.note_reach(entry, now)

    def decide(self, now: float, wall: datetime) -> Decisions:
        """Start all that can start now, and refuse what lost its chance."""
        self._pass_time(wall)
        self._refuser.refuse_exhausted(wall)
        self._refuser.refuse_impatient(now)
        dispatches = self._starter.start_all(now)
        preemptions = self._starter.preempt(now)
        reset_nodes, self._reset_nodes = tuple(self._reset_nodes), []
        rejections = tuple(
            self._rejection(entry, error, now) for entry, error in self._refuser.take()
        )
        return Decisions(dispatches, preemptions, rejections, reset_nodes)

    def expect(self, workload: Workload, seconds: float, now: float) -> None:
        """Be prepared for one request of this kind within so many seconds."""
        self._slicing.expect(workload, now + seconds)

    def prompt_progress(
        self,
        request_id: str,
        *,
        uncached: int,
        cached: int,
        again: int = 0,
        now: float | None = None,
    ) -> None:
        """Report how much of the prompt is processed by now, in tokens.

        ``again`` of them were counted before and had to be read once more. With
        ``now`` the server's speed is learnt from it.
        """
        entry = self._board.running[request_id]
        self._accounts.prompt(entry, uncached=uncached, cached=cached, again=again)
        if now is not None:
            entry.at().note_read(entry, now)

    def next_slice(
        self, request_id: str, *, done: int, total: int, now: float
    ) -> Slice:
        """Return how a running request goes on that has read ``done`` of ``total``."""
        return self._slicing.next_slice(
            self._board.running[request_id],
            self._settings.profiles,
            done=done,
            total=total,
            now=now,
        )

    def note_slice(
        self, request_id: str, tokens: int, seconds: float, *, lost: bool, now: float
    ) -> Verdict:
        """Report a slice that was read; the answer says whether to go on.

        The server computed so many ``tokens``. ``lost``: it did not find what had been
        read before.
        """
        entry = self._board.running[request_id]
        self._slicing.note_slice(
            entry, tokens=tokens, seconds=seconds, lost=lost, now=now
        )
        return self._accounts.verdict(entry)

    def read_in_one_go(self, request_id: str) -> None:
        """Note that the prompt of a running request can't be read in slices."""
        self._board.running[request_id].reading.in_one_go = True

    def output(self, request_id: str, tokens: int, now: float) -> Verdict:
        """Report further output tokens; the answer says whether to go on."""
        entry = self._board.running[request_id]
        if not entry.run_output and not entry.resumed:
            spent_s = entry.reading.spent_s(now)
            self._speeds.note_prefill(entry.prompt.uncached, spent_s)
        entry.note_output(tokens, now)
        verdict = self._accounts.output(entry, tokens)
        entry.at().note_written(entry, tokens, now)
        return verdict

    def settle(self, request_id: str, tokens: TokenCount, *, estimated: bool) -> None:
        """Correct a running request's account to the server's own count.

        ``tokens`` are those since its latest start.
        """
        entry = self._board.running[request_id]
        entry.estimated = estimated
        self._accounts.settle(entry, tokens)
        entry.at().pace.note_settled(entry)
        self._board.weigh(entry)

    def shield(self, request_id: str, *, shielded: bool) -> None:
        """Note whether a running request can't be interrupted as things are.

        Raises ``KeyError`` when it does not run.
        """
        entry = self._board.running[request_id]
        entry.shielded = shielded
        if shielded:
            entry.preempting = False
            entry.moves_to = None

    def preempted(
        self,
        request_id: str,
        now: float,
        *,
        lost: bool = False,
        servers: frozenset[str] | None = None,
    ) -> None:
        """Note that a running request has left its server and waits to go on.

        It goes to the front of its class, or is refused if that was removed. ``lost``
        tells that nobody interrupted it: its server failed. From here on it may run
        on ``servers`` only (``None``: on any). Raises ``KeyError`` when it does not
        run.
        """
        entry = self._board.running[request_id]
        self._leave_server(entry, now)
        entry.pause(now, lost=lost, servers=servers)
        for node in entry.path:
            node.preemptions += not lost
        if self._tree.nodes.get(entry.leaf.node_id) is entry.leaf:
            self._board.enqueue(entry, front=True, lift=False)
            self._board.note_reach(entry, now)
        else:
            self._refuser.note_refused(entry, Rejected(RejectReason.CLASS_REMOVED))

    def release(self, request_id: str, outcome: Outcome, now: float) -> RequestRecord:
        """End a request in whatever state it is; its slot and memory are free.

        Raises ``KeyError`` when it is not here (any more).
        """
        if entry := self._board.waiting.get(request_id):
            self._board.dequeue(entry)
            if entry.resumed:
                return self._end(entry, outcome, now)
            return entry.record(outcome, now)
        entry = self._board.running[request_id]
        self._leave_server(entry, now)
        return self._end(entry, outcome, now)

    def close(self) -> None:
        """Refuse all that waits."""
        for entry in list(self._board.waiting.values()):
            self._refuser.refuse(entry, Rejected(RejectReason.CLOSED))

    # Looks

    @property
    def settings(self) -> Settings:
        """The rules in force."""
        return self._settings

    def knows(self, request_id: str) -> bool:
        """Return whether a request waits or runs."""
        return self._board.knows(request_id)

    def may_interrupt(self) -> bool:
        """Return whether an answer may be interrupted for what waits, or may move."""
        may_move = len(self._board.servers) > 1 and bool(self._board.running)
        wanted = may_move or bool(self._board.waiting)
        return self._settings.preemption is not None and wanted

    def ask_paused_to_leave(self) -> tuple[str, ...]:
        """Return what runs of what is paused, and is to be interrupted now.

        Not what can't go on after an interruption: that may end.
        """
        leaving = [
            entry
            for entry in self._board.running.values()
            if self._tree.is_paused(entry.leaf)
            and entry.request.preemptible
            and not entry.preempting
            and not entry.shielded
        ]
        for entry in leaving:
            entry.preempting = True
        return tuple(entry.request.request_id for entry in leaving)

    def next_deadline(self, now: float) -> float | None:
        """Return when time alone changes what waits, in monotonic seconds.

        It runs out of patience; or it is overdue or more urgent and then starts on a
        slot that was free for it before.
        """
        ends = [entry.patience_ends_s() for entry in self._board.out_of_reach()]
        moments = [end for end in ends if end is not None]
        if self._board.free_slots() > 0:
            heads = [leaf.head for leaf in self._board.backlogged.values() if leaf.head]
            moments += [
                moment
                for head in heads
                for moment in (head.overdue_s, head.judged_until_s)
                if now < moment < inf
            ]
        return min(moments, default=None)

    def next_reset(self) -> datetime:
        """Return when the first quota window ends or a quota is refilled, in UTC."""
        refills = [
            refill
            for leaf in self._board.backlogged.values()
            if self._tree.limited
            if (refill := waits_for_refill(leaf)) is not None
        ]
        return min([self._next_reset, *refills])

    def has_class(self, class_id: str) -> bool:
        """Return whether the request class exists."""
        return class_id in self._tree.nodes

    def path_ids(self, class_id: str) -> tuple[str, ...]:
        """Return the ids from the household down to a node. Raises ``KeyError``."""
        return tuple(node.node_id for node in self._tree.nodes[class_id].path)

    def expected_wait_s(self, class_id: str, now: float) -> float:
        """Return in about how many seconds a new request of a class would start.

        0 if it could start at once. Raises ``KeyError``.
        """
        leaf = self._tree.leaf(class_id)
        probe = Entry(Request("", class_id, 1, 1), leaf, now, self._sequence + 1)
        return expected_wait_s(probe, self._board, self._speeds, now)

    def children(self, node_id: str) -> list[NodeStatus]:
        """Return the accounts of who shares a node. Raises ``KeyError``."""
        return [each.status() for each in self._tree.nodes[node_id].children.values()]

    def node_status(self, node_id: str) -> NodeStatus:
        """Return a snapshot of one account. Raises ``KeyError``."""
        return self._tree.nodes[node_id].status()

    def status(self, now: float, *, ahead: int = 0) -> QueueStatus:
        """Return a snapshot of the whole queue.

        With a forecast of so many starts, which costs as much as those starts.
        """
        servers = self._board.servers.values()
        starts = forecast(
            self._board,
            selector=self._selector,
            speeds=self._speeds,
            costs=self._settings.costs,
            now=now,
            most=ahead,
        )
        waiting = [
            entry.status(now, self._waiting_rule(entry, now), starts.get(entry))
            for entry in self._board.waiting.values()
        ]
        running = [
            entry.status(now, entry.dispatch.rule)
            for entry in self._board.running.values()
            if entry.dispatch is not None
        ]
        return QueueStatus(
            waiting=len(waiting),
            running=len(running),
            requests=(*running, *waiting),
            servers=tuple(server.status() for server in servers),
            fairness_gap=self._gauge.gap,
            fairness_bound=self._gauge.bound,
            recomputed=self._accounts.recomputed,
            background_owed=self._reserve.owed,
        )

    def export_state(self) -> LedgerState:
        """Return what outlives a restart: what was delivered, not what is prepaid."""
        prepaid: dict[str, float] = defaultdict(float)
        for entry in self._board.running.values():
            for node in entry.path:
                prepaid[node.node_id] += self._accounts.prepaid(entry)
        return LedgerState(self._tree.states(prepaid))

    def restore_state(self, state: LedgerState) -> None:
        """Take accounts over from before a restart."""
        self._tree.restore(state.nodes)

    # Inside

    def _waiting_rule(self, entry: Entry, now: float) -> Rule:
        if self._tree.is_paused(entry.leaf):
            return Rule.PAUSED
        if entry in self._placement.waits_for_better:
            return Rule.BETTER_SERVER
        return waiting_rule(entry, self._board.candidates(entry), now)

    def _mean_wait_s(self) -> float:
        """Return a rough time after which one more request would get its turn."""
        known = self._durations
        duration = sum(known) / len(known) if known else _FIRST_GUESS_DURATION_S
        return duration * (self._tree.root.waiting + 1) / max(self._board.slots(), 1)

    def _leave_server(self, entry: Entry, now: float) -> None:
        self._gauge.look()
        self._board.leave_server(entry, now)
        self._accounts.close(entry)

    def _rejection(self, entry: Entry, error: Rejected, now: float) -> Rejection:
        record = self._end(entry, Outcome.STOPPED, now) if entry.resumed else None
        return Rejection(entry.request.request_id, error, record)

    def _end(self, entry: Entry, outcome: Outcome, now: float) -> RequestRecord:
        record = entry.record(outcome, now)
        in_time = entry.in_time(outcome, now)
        for node in entry.path:
            node.note_ended(record, in_time=in_time)
        if entry.server is not None:
            entry.server.note_ended()
        if outcome is Outcome.FINISHED:
            entry.leaf.predictor.observe(entry.counted.output)
            self._durations.append(now - entry.started_s)
            if entry.first_output_s is not None and not entry.resumed:
                self._speeds.note_decode(
                    entry.counted.output, now - entry.first_output_s
                )
        return record

    # Time

    def _pass_time(self, wall: datetime) -> None:
        """Refill quotas, and begin windows that are due."""
        moment = wall.astimezone(UTC)
        checked = self._windows_checked_at
        if checked - CLOCK_STEP_TOLERANCE <= moment < self._next_reset:
            self._reset_nodes += self._tree.refill(wall)
            return
        self._windows_checked_at = moment
        self._reset_nodes += [
            node.node_id for node in self._tree.nodes.values() if node.window.roll(wall)
        ]
        self._next_reset = self._first_reset()

    def _first_reset(self) -> datetime:
        return min(node.window.ends_at for node in self._tree.nodes.values())
