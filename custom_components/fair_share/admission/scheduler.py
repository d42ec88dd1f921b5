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
from .model import (
    DEFAULT_PROFILES,
    CostWeights,
    Decisions,
    Dispatch,
    Limits,
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
    TokenCount,
    Verdict,
    Workload,
    WorkloadProfile,
)
from .policies import POLICIES, Policy
from .quota import CLOCK_STEP_TOLERANCE
from .refusal import queue_full, quota_used_up, too_long
from .selection import Choice, choose, eligible_heads
from .servers import Server
from .state import LedgerState
from .status import NodeStatus, QueueStatus
from .tree import Leaf, ShareTree

_FIRST_GUESS_DURATION_S = 10.0


class Scheduler:
    """The queue's whole state and all its rules."""

    def __init__(
        self,
        wall: datetime,
        *,
        now: float = 0.0,
        profiles: dict[Workload, WorkloadProfile] | None = None,
        costs: CostWeights | None = None,
        limits: Limits | None = None,
        policy: str = "equal_tokens",
    ) -> None:
        """Start with no members and no servers. Raises ``KeyError``: policy unknown."""
        self._tree = ShareTree(wall)
        self._gauge = FairnessGauge(self._tree.root)
        self._accounts = Accounts(self._gauge, costs or CostWeights())
        self._profiles = profiles or DEFAULT_PROFILES
        self._limits = limits or Limits()
        self._policy: Policy = POLICIES[policy]
        self._servers: dict[str, Server] = {}
        self._waiting: dict[str, Entry] = {}
        self._running: dict[str, Entry] = {}
        self._backlogged: dict[str, Leaf] = {}
        self._rejections: list[Rejection] = []
        self._reset_nodes: list[str] = []
        self._durations: deque[float] = deque(maxlen=20)
        self._sequence = 0
        self._last_was_overdue = False
        self._unserved_since: float | None = now
        self._windows_checked_at = wall.astimezone(UTC)
        self._next_reset = self._first_reset()

    # What the household is made of

    def put_node(self, spec: NodeSpec, wall: datetime) -> None:
        """Add or change a member or source. Raises ``KeyError``: parent unknown."""
        self._tree.put_node(spec, wall)
        self._next_reset = self._first_reset()

    def put_class(self, spec: RequestClass, wall: datetime) -> None:
        """Add a request class. Raises ``KeyError`` when its parent is unknown."""
        self._tree.put_class(spec, self._profiles[spec.workload], wall)

    def remove_node(self, node_id: str) -> None:
        """Remove a node with all below it; what waited there is refused."""
        for entry in self._tree.stranded(node_id):
            self._refuse(entry, Rejected(RejectReason.CLASS_REMOVED))
        self._tree.remove(node_id)

    def configure(self, *, costs: CostWeights, limits: Limits, policy: str) -> None:
        """Change prices, limits and policy; nothing that waits or runs is lost.

        Raises ``KeyError`` on a policy unknown.
        """
        self._policy = POLICIES[policy]
        self._accounts.costs = costs
        self._limits = limits

    def grant(self, node_id: str, tokens: int) -> None:
        """Add tokens to a node's quota for its current window. Raises ``KeyError``."""
        self._tree.nodes[node_id].window.granted_tokens += tokens

    # Servers

    def put_server(self, capacity: ServerCapacity) -> None:
        """Add a server or change its capacity, and open it for starts."""
        server = self._servers.setdefault(capacity.server_id, Server(capacity))
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
        self._roll_windows(wall)
        self._sequence += 1
        entry = Entry(request, leaf, now, self._sequence)
        refusal = (
            too_long(entry, self._servers.values())
            or quota_used_up(leaf, wall)
            or queue_full(leaf, self._limits, self.expected_wait_s())
        )
        if refusal:
            leaf.note_rejected()
            raise refusal
        self._waiting[request.request_id] = entry
        self._backlogged[leaf.node_id] = leaf
        self._tree.enqueue(entry, front=request.continues_turn)

    def decide(self, now: float, wall: datetime) -> Decisions:
        """Start all that can start now, and refuse what lost its chance."""
        self._roll_windows(wall)
        self._refuse_exhausted(wall)
        self._refuse_impatient(now)
        dispatches: list[Dispatch] = []
        full: set[Server] = set()
        while self._has_free_slot() and (
            heads := eligible_heads(self._backlogged.values(), self._hosts)
        ):
            choice = choose(
                heads,
                policy=self._policy,
                now=now,
                overdue_turn=not self._last_was_overdue,
                is_open=lambda entry: not full.issuperset(self._hosts(entry)),
            )
            if choice is None:
                break
            server = self._place(choice.entry, full)
            if server is None:
                # In order: nothing may overtake the chosen request on its servers.
                full.update(self._hosts(choice.entry))
                continue
            dispatches.append(self._start(choice, server, now))
        rejections, self._rejections = tuple(self._rejections), []
        reset_nodes, self._reset_nodes = tuple(self._reset_nodes), []
        return Decisions(tuple(dispatches), rejections, reset_nodes)

    def prompt_progress(self, request_id: str, *, uncached: int, cached: int) -> None:
        """Report how much of the prompt is processed by now, in tokens."""
        self._accounts.prompt(
            self._running[request_id], uncached=uncached, cached=cached
        )

    def output(self, request_id: str, tokens: int, now: float) -> Verdict:
        """Report further output tokens; the answer says whether to go on."""
        entry = self._running[request_id]
        if entry.first_output_s is None:
            entry.first_output_s = now
        return self._accounts.output(entry, tokens)

    def settle(self, request_id: str, tokens: TokenCount, *, estimated: bool) -> None:
        """Correct a running request's account to the server's own final count."""
        entry = self._running[request_id]
        entry.estimated = estimated
        self._accounts.settle(entry, tokens)

    def release(self, request_id: str, outcome: Outcome, now: float) -> RequestRecord:
        """End a request in whatever state it is; its slot and memory are free.

        Raises ``KeyError`` when it is not here (any more).
        """
        entry = self._waiting.get(request_id)
        if entry is not None:
            self._dequeue(entry)
            return entry.record(outcome, now)
        entry = self._running.pop(request_id)
        self._accounts.close(entry)
        for server in self._servers.values():
            server.running.pop(request_id, None)
        record = entry.record(outcome, now)
        for node in entry.path:
            node.note_ended(record)
        if outcome is Outcome.FINISHED:
            entry.leaf.predictor.observe(entry.counted.output)
            self._durations.append(now - entry.started_s)
        return record

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
        """Return when the first quota window ends, in UTC."""
        return self._next_reset

    def has_class(self, class_id: str) -> bool:
        """Return whether the request class exists."""
        return class_id in self._tree.nodes

    def path_ids(self, class_id: str) -> tuple[str, ...]:
        """Return the ids from the household down to a node. Raises ``KeyError``."""
        return tuple(node.node_id for node in self._tree.nodes[class_id].path)

    def expected_wait_s(self) -> float:
        """Return a rough time after which one more request would get its turn."""
        slots = sum(
            server.capacity.slots for server in self._servers.values() if server.usable
        )
        known = self._durations
        duration = sum(known) / len(known) if known else _FIRST_GUESS_DURATION_S
        return duration * (self._tree.root.waiting + 1) / max(slots, 1)

    def node_status(self, node_id: str) -> NodeStatus:
        """Return a snapshot of one account. Raises ``KeyError``."""
        return self._tree.nodes[node_id].status()

    def status(self, now: float) -> QueueStatus:
        """Return a snapshot of the whole queue."""
        servers = self._servers.values()
        waiting = [
            entry.status(now, waiting_rule(entry, servers))
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
        )

    def export_state(self) -> LedgerState:
        """Return what outlives a restart."""
        return LedgerState(self._tree.states())

    def restore_state(self, state: LedgerState) -> None:
        """Take accounts over from before a restart."""
        self._tree.restore(state.nodes)

    # Inside

    def _has_free_slot(self) -> bool:
        return any(
            server.usable and server.free_slots() > 0
            for server in self._servers.values()
        )

    def _hosts(self, entry: Entry) -> list[Server]:
        return [
            server
            for server in self._servers.values()
            if server.usable and server.holds(entry.request)
        ]

    def _place(self, entry: Entry, full: set[Server]) -> Server | None:
        """Return where it starts: where its prefix is, else where most is free."""
        fitting = [
            server
            for server in self._hosts(entry)
            if server not in full and server.obstacle(entry) is None
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

    def _start(self, choice: Choice, server: Server, now: float) -> Dispatch:
        entry = choice.entry
        self._tree.advance(entry.leaf.path)
        self._dequeue(entry)
        self._running[entry.request.request_id] = entry
        self._last_was_overdue = choice.rule is Rule.OVERDUE
        dispatch = entry.start(
            server_id=server.capacity.server_id,
            output_bound=server.output_bound(entry.request),
            rule=choice.rule,
            urgent=choice.urgent,
            costs=self._accounts.costs,
            now=now,
        )
        server.running[entry.request.request_id] = entry
        for node in entry.path:
            node.running += 1
        in_flight = sum(running.worst_cost() for running in self._running.values())
        self._gauge.started(entry, in_flight)
        self._accounts.open(entry)
        return dispatch

    def _dequeue(self, entry: Entry) -> None:
        del self._waiting[entry.request.request_id]
        self._tree.dequeue(entry)
        if not entry.leaf.queue:
            del self._backlogged[entry.leaf.node_id]

    def _refuse(self, entry: Entry, error: Rejected) -> None:
        self._dequeue(entry)
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

    def _note_service(self, now: float) -> None:
        if any(server.usable for server in self._servers.values()):
            self._unserved_since = None
        elif self._unserved_since is None:
            self._unserved_since = now

    def _roll_windows(self, wall: datetime) -> None:
        """Begin the windows that are due."""
        moment = wall.astimezone(UTC)
        checked = self._windows_checked_at
        if checked - CLOCK_STEP_TOLERANCE <= moment < self._next_reset:
            return
        self._windows_checked_at = moment
        self._reset_nodes += [
            node.node_id for node in self._tree.nodes.values() if node.window.roll(wall)
        ]
        self._next_reset = self._first_reset()

    def _first_reset(self) -> datetime:
        return min(node.window.ends_at for node in self._tree.nodes.values())
