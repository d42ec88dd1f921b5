"""The decision: who starts next, where, and why.

Synchronous and free of I/O: events go in through methods, decisions come out of
``decide`` as values. The caller passes the time in: ``now`` is monotonic seconds,
``wall`` an aware local time that only quotas use. Cost of a decision: the classes
that have something waiting, times the depth of the tree.
"""

from collections import deque
from datetime import UTC, datetime

from .accounts import Accounts
from .entry import Entry
from .explain import waiting_rule
from .fairness import FairnessGauge
from .forecast import forecast, service_s
from .model import (
    Decisions,
    Dispatch,
    NodeSpec,
    Outcome,
    Preemption,
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
from .policies import POLICIES
from .preemption import choose_victim
from .quota import CLOCK_STEP_TOLERANCE
from .refusal import queue_full, quota_used_up, too_long, waits_for_refill
from .reserve import BackgroundReserve
from .selection import Choice, Selector, eligible_heads
from .servers import Blocked, Server
from .speed import Speeds
from .state import LedgerState
from .status import NodeStatus, QueueStatus
from .tree import Leaf, ShareTree

_FIRST_GUESS_DURATION_S = 10.0
_FORECAST_LENGTH = 50


class Scheduler:
    """The queue's whole state and all its rules."""

    def __init__(
        self, wall: datetime, *, now: float = 0.0, settings: Settings | None = None
    ) -> None:
        """Start with no members and no servers. Raises ``KeyError``: policy unknown."""
        self._settings = settings or Settings()
        self._tree = ShareTree(wall)
        self._gauge = FairnessGauge(self._tree.root)
        self._reserve = BackgroundReserve(
            self._settings.background_share, self._settings.background_debt
        )
        self._accounts = Accounts(
            self._gauge,
            self._reserve,
            self._background_waits,
            self._settings.costs,
        )
        self._selector = Selector(self._settings, self._reserve)
        self._speeds = Speeds()
        self._servers: dict[str, Server] = {}
        self._waiting: dict[str, Entry] = {}
        self._running: dict[str, Entry] = {}
        self._backlogged: dict[str, Leaf] = {}
        self._rejections: list[Rejection] = []
        self._reset_nodes: list[str] = []
        self._durations: deque[float] = deque(maxlen=20)
        self._sequence = 0
        self._unserved_since: float | None = now
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
            self._refuse(entry, Rejected(RejectReason.CLASS_REMOVED))
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
        for leaf in self._tree.root.leaves():
            leaf.profile = settings.profiles[leaf.workload]

    def grant(self, node_id: str, tokens: int) -> None:
        """Add tokens to a node's quota for its current window. Raises ``KeyError``."""
        self._tree.nodes[node_id].window.granted_tokens += tokens

    # Servers

    def put_server(self, capacity: ServerCapacity, now: float) -> None:
        """Add a server or change its capacity, and open it for starts."""
        server = self._servers.setdefault(capacity.server_id, Server(capacity, now))
        server.capacity = capacity
        server.usable = True
        self._unserved_since = None
        self._refuse_hopeless()

    def close_server(self, server_id: str, now: float) -> None:
        """Start nothing on a server until it is put again; unknown ids are ignored."""
        if server := self._servers.get(server_id):
            server.usable = False
        self._note_service(now)

    def remove_server(self, server_id: str, now: float) -> None:
        """Forget a server; what runs there ends in its own way."""
        self._servers.pop(server_id, None)
        self._note_service(now)
        self._refuse_hopeless()

    def note_exhausted(self, server_id: str, now: float) -> None:
        """Note that an engine ran out of memory; plan with less. Unknown: ignored."""
        if server := self._servers.get(server_id):
            server.note_exhausted(now)

    # The life of a request

    def submit(self, request: Request, now: float, wall: datetime) -> None:
        """Take a request into its class.

        Raises ``Rejected`` when it can never run, a quota above it is used up, or
        too much waits already; ``KeyError`` when the class is unknown and
        ``ValueError`` when the id is in use.
        """
        if request.request_id in self._waiting or request.request_id in self._running:
            msg = f"request id in use: {request.request_id}"
            raise ValueError(msg)
        leaf = self._tree.leaf(request.class_id)
        self._pass_time(now, wall)
        self._sequence += 1
        entry = Entry(request, leaf, now, self._sequence)
        refusal = (
            too_long(entry, self._servers.values())
            or quota_used_up(leaf, wall)
            or queue_full(leaf, self._settings.limits, self._mean_wait_s())
        )
        if refusal:
            leaf.note_rejected()
            raise refusal
        self._enqueue(entry, front=request.continues_turn)

    def decide(self, now: float, wall: datetime) -> Decisions:
        """Start all that can start now, and refuse what lost its chance."""
        self._pass_time(now, wall)
        self._refuse_exhausted(wall)
        self._refuse_impatient(now)
        dispatches = self._start_all(now)
        preemptions = self._preempt(now)
        rejections, self._rejections = tuple(self._rejections), []
        reset_nodes, self._reset_nodes = tuple(self._reset_nodes), []
        return Decisions(dispatches, preemptions, rejections, reset_nodes)

    def prompt_progress(self, request_id: str, *, uncached: int, cached: int) -> None:
        """Report how much of the prompt is processed by now, in tokens."""
        self._accounts.prompt(
            self._running[request_id], uncached=uncached, cached=cached
        )

    def output(self, request_id: str, tokens: int, now: float) -> Verdict:
        """Report further output tokens; the answer says whether to go on."""
        entry = self._running[request_id]
        if not entry.run_output and not entry.resumed:
            self._speeds.note_prefill(entry.prompt.uncached, now - entry.started_s)
        entry.note_output(tokens, now)
        return self._accounts.output(entry, tokens)

    def settle(self, request_id: str, tokens: TokenCount, *, estimated: bool) -> None:
        """Correct a running request's account to the server's own count.

        ``tokens`` are those since its latest start.
        """
        entry = self._running[request_id]
        entry.estimated = estimated
        self._accounts.settle(entry, tokens)

    def preempted(self, request_id: str, now: float) -> None:
        """Note that a running request has left its server and waits to go on.

        It goes to the front of its class. Raises ``KeyError`` when it does not run.
        """
        entry = self._running.pop(request_id)
        self._leave_server(entry)
        self._accounts.close(entry)
        entry.pause(now)
        for node in entry.path:
            node.preemptions += 1
        if self._tree.nodes.get(entry.leaf.node_id) is entry.leaf:
            self._enqueue(entry, front=True, lift=False)
        else:
            self._end(entry, Outcome.STOPPED, now)
            self._note_refused(entry, Rejected(RejectReason.CLASS_REMOVED))

    def release(self, request_id: str, outcome: Outcome, now: float) -> RequestRecord:
        """End a request in whatever state it is; its slot and memory are free.

        Raises ``KeyError`` when it is not here (any more).
        """
        if entry := self._waiting.get(request_id):
            self._dequeue(entry)
            if entry.resumed:
                return self._end(entry, outcome, now)
            return entry.record(outcome, now)
        entry = self._running.pop(request_id)
        self._leave_server(entry)
        self._accounts.close(entry)
        return self._end(entry, outcome, now)

    def close(self) -> None:
        """Refuse all that waits."""
        for entry in list(self._waiting.values()):
            self._refuse(entry, Rejected(RejectReason.CLOSED))

    # Looks

    def next_deadline(self) -> float | None:
        """Return when a waiting request runs out of patience, in monotonic seconds."""
        since = self._unserved_since
        if since is None:
            return None
        ends = (entry.patience_ends_s(since) for entry in self._waiting.values())
        return min(ends, default=None)

    def next_reset(self) -> datetime:
        """Return when the first quota window ends or a quota is refilled, in UTC."""
        refills = [
            refill
            for leaf in self._backlogged.values()
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
        if self._free_slots() > 0 and not self._waiting:
            return 0.0
        band = probe.effective_band(now)
        ahead = sum(
            service_s(entry, self._speeds)
            for entry in self._waiting.values()
            if entry.effective_band(now) <= band
        )
        soonest = min(
            (
                self._speeds.decode_s(entry.expected_left())
                for entry in self._running.values()
            ),
            default=0.0,
        )
        return soonest + ahead / max(self._slots(), 1)

    def node_status(self, node_id: str) -> NodeStatus:
        """Return a snapshot of one account. Raises ``KeyError``."""
        return self._tree.nodes[node_id].status()

    def status(self, now: float) -> QueueStatus:
        """Return a snapshot of the whole queue, with a forecast of the next starts."""
        servers = self._servers.values()
        starts = {
            start.entry: start
            for start in forecast(
                self._backlogged.values(),
                self._running.values(),
                free_slots=self._free_slots(),
                selector=self._selector,
                speeds=self._speeds,
                costs=self._settings.costs,
                now=now,
                most=_FORECAST_LENGTH,
            )
        }
        waiting = [
            entry.status(now, waiting_rule(entry, servers), starts.get(entry))
            for entry in self._waiting.values()
        ]
        running = [
            entry.status(now, entry.dispatch.rule)
            for entry in self._running.values()
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
        """Return what outlives a restart."""
        return LedgerState(self._tree.states())

    def restore_state(self, state: LedgerState) -> None:
        """Take accounts over from before a restart."""
        self._tree.restore(state.nodes)

    # Starts

    def _start_all(self, now: float) -> tuple[Dispatch, ...]:
        dispatches: list[Dispatch] = []
        full: set[Server] = set()
        passed_over: set[Entry] = set()
        while self._free_slots() > 0 and (
            heads := eligible_heads(self._backlogged.values(), self._hosts)
        ):
            choice = self._selector.choose(
                heads,
                now=now,
                speeds=self._speeds,
                is_open=lambda entry: (
                    entry not in passed_over and not full.issuperset(self._hosts(entry))
                ),
            )
            if choice is None:
                break
            server = self._place(choice.entry, full)
            if server is None:
                passed_over.add(choice.entry)
                full.update(self._note_obstacles(choice.entry, now))
                continue
            dispatches.append(self._start(choice, server, now))
        return tuple(dispatches)

    def _place(self, entry: Entry, full: set[Server]) -> Server | None:
        """Return where it starts: where its prefix is, else where most is free."""
        cost = entry.expected_cost(self._settings.costs)
        fitting = [
            server
            for server in self._hosts(entry)
            if server not in full
            and server.obstacle(entry) is None
            and server.may_overtake(entry, cost)
        ]
        preferred = entry.request.preferred_server
        return max(
            fitting,
            key=lambda server: (
                server.capacity.server_id == preferred,
                server.free_slots(),
            ),
            default=None,
        )

    def _note_obstacles(self, entry: Entry, now: float) -> set[Server]:
        """Return the servers on which nothing more can start in this round.

        Where the request waits for memory, others may overtake it while their costs
        add up to no more than its own or the household's setting; then only it may
        start there.
        """
        full: set[Server] = set()
        allowance = max(
            entry.expected_cost(self._settings.costs), self._settings.bypass
        )
        for server in self._hosts(entry):
            obstacle = server.obstacle(entry)
            if obstacle is Rule.NO_SLOT:
                full.add(server)
            elif obstacle is Rule.NO_KV:
                server.block(Blocked(entry, now, allowance))
        return full

    def _start(self, choice: Choice, server: Server, now: float) -> Dispatch:
        entry = choice.entry
        cost = entry.expected_cost(self._settings.costs)
        overtakes = server.overtake(entry, cost)
        self._tree.advance(entry.leaf.path)
        self._dequeue(entry)
        self._running[entry.request.request_id] = entry
        self._selector.started(choice)
        dispatch = entry.start(
            server,
            rule=Rule.BYPASS if overtakes else choice.rule,
            urgent=choice.urgent,
            costs=self._accounts.costs,
            now=now,
        )
        server.running[entry.request.request_id] = entry
        for node in entry.path:
            node.running += 1
            if not entry.resumed:
                node.note_started(dispatch.waited_s)
        in_flight = sum(running.worst_cost() for running in self._running.values())
        self._gauge.started(entry, in_flight)
        self._accounts.open(entry)
        return dispatch

    def _preempt(self, now: float) -> tuple[Preemption, ...]:
        """Interrupt at most one answer on each server, for whoever is next there."""
        rules = self._settings.preemption
        if rules is None or not self._waiting:
            return ()
        preemptions: list[Preemption] = []
        for server in self._servers.values():
            if any(entry.preempting for entry in server.running.values()):
                continue
            head = self._next_on(server, now, rules.freeze_s)
            if head is None:
                continue
            victim = choose_victim(
                head,
                server.running.values(),
                rules=rules,
                among_equals=self._settings.policy == "equal_tokens",
                now=now,
            )
            if victim is not None:
                victim.preempting = True
                preemptions.append(
                    Preemption(victim.request.request_id, head.request.request_id)
                )
        return tuple(preemptions)

    def _next_on(self, server: Server, now: float, freeze_s: float) -> Entry | None:
        """Return who would start on a full or long frozen server if it had room."""
        if not server.usable:
            return None
        blocked = server.blocked
        if blocked is not None and now - blocked.since_s >= freeze_s:
            return blocked.entry
        if server.free_slots() > 0:
            return None
        choice = self._selector.choose(
            eligible_heads(self._backlogged.values(), self._hosts),
            now=now,
            speeds=self._speeds,
            is_open=lambda entry: server in self._hosts(entry),
        )
        return None if choice is None else choice.entry

    # Inside

    def _hosts(self, entry: Entry) -> list[Server]:
        return [
            server
            for server in self._servers.values()
            if server.usable and server.holds(entry.request)
        ]

    def _slots(self) -> int:
        return sum(
            server.capacity.slots for server in self._servers.values() if server.usable
        )

    def _free_slots(self) -> int:
        return sum(
            max(server.free_slots(), 0)
            for server in self._servers.values()
            if server.usable
        )

    def _background_waits(self) -> bool:
        return any(
            leaf.workload is Workload.BACKGROUND for leaf in self._backlogged.values()
        )

    def _mean_wait_s(self) -> float:
        """Return a rough time after which one more request would get its turn."""
        known = self._durations
        duration = sum(known) / len(known) if known else _FIRST_GUESS_DURATION_S
        return duration * (self._tree.root.waiting + 1) / max(self._slots(), 1)

    def _enqueue(self, entry: Entry, *, front: bool, lift: bool = True) -> None:
        self._waiting[entry.request.request_id] = entry
        self._backlogged[entry.leaf.node_id] = entry.leaf
        self._tree.enqueue(entry, front=front, lift=lift)

    def _dequeue(self, entry: Entry) -> None:
        del self._waiting[entry.request.request_id]
        self._tree.dequeue(entry)
        if not entry.leaf.queue:
            del self._backlogged[entry.leaf.node_id]
        for server in self._servers.values():
            server.unblock(entry)

    def _leave_server(self, entry: Entry) -> None:
        assert entry.server is not None  # noqa: S101 - only asked of running requests
        entry.server.running.pop(entry.request.request_id)
        for node in entry.path:
            node.running -= 1

    def _end(self, entry: Entry, outcome: Outcome, now: float) -> RequestRecord:
        record = entry.record(outcome, now)
        in_time = entry.in_time(outcome, now)
        for node in entry.path:
            node.note_ended(record, in_time=in_time)
        if outcome is Outcome.FINISHED:
            entry.leaf.predictor.observe(entry.counted.output)
            self._durations.append(now - entry.started_s)
            if entry.first_output_s is not None and not entry.resumed:
                self._speeds.note_decode(
                    entry.counted.output, now - entry.first_output_s
                )
        return record

    # Refusals

    def _refuse(self, entry: Entry, error: Rejected) -> None:
        self._dequeue(entry)
        self._note_refused(entry, error)

    def _note_refused(self, entry: Entry, error: Rejected) -> None:
        entry.leaf.note_rejected()
        self._rejections.append(Rejection(entry.request.request_id, error))

    def _refuse_hopeless(self) -> None:
        for entry in list(self._waiting.values()):
            if rejected := too_long(entry, self._servers.values()):
                self._refuse(entry, rejected)

    def _refuse_exhausted(self, wall: datetime) -> None:
        for leaf in list(self._backlogged.values()):
            if rejected := quota_used_up(leaf, wall):
                for entry in list(leaf.queue.values()):
                    self._refuse(entry, rejected)

    def _refuse_impatient(self, now: float) -> None:
        since = self._unserved_since
        if since is None:
            return
        for entry in list(self._waiting.values()):
            if entry.patience_ends_s(since) <= now:
                self._refuse(entry, Rejected(RejectReason.NO_SERVER))

    # Time

    def _note_service(self, now: float) -> None:
        if any(server.usable for server in self._servers.values()):
            self._unserved_since = None
        elif self._unserved_since is None:
            self._unserved_since = now

    def _pass_time(self, now: float, wall: datetime) -> None:
        """Plan with more memory after quiet minutes; begin windows that are due."""
        for server in self._servers.values():
            server.note_time(now)
        moment = wall.astimezone(UTC)
        checked = self._windows_checked_at
        if checked - CLOCK_STEP_TOLERANCE <= moment < self._next_reset:
            self._tree.refill(wall)
            return
        self._windows_checked_at = moment
        self._reset_nodes += [
            node.node_id for node in self._tree.nodes.values() if node.window.roll(wall)
        ]
        self._next_reset = self._first_reset()

    def _first_reset(self) -> datetime:
        return min(node.window.ends_at for node in self._tree.nodes.values())
