"""The share tree: who shares with whom, and what each has been served.

Household -> member -> device or other source -> request class. Every node has a
virtual token counter, the charge of its service divided by its weight. Siblings are
compared by it. A node's ``virtual_time`` is the level at which its children
compete; it never goes back, and a child that comes back after it had nothing
waiting is lifted to it, so that nobody saves up a right to service by being away
(Sheng et al., OSDI 2024; the monotone virtual time is that of start-time fair
queueing). It follows what was delivered, not what was paid for in advance: who comes
back has nothing running yet, and may catch up with those whose answers are still
being written. A counter is never lowered by being idle: pausing pays no debt.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from math import inf

from .entry import Entry
from .model import (
    ROOT_ID,
    Caps,
    NodeSpec,
    QuotaEnd,
    RequestClass,
    RequestRecord,
    TokenCount,
    Workload,
    WorkloadProfile,
)
from .predict import OutputPredictor
from .quota import WindowAccount
from .state import NodeState
from .status import NodeStatus

_LATEST = 20
"""So many of the latest requests count for waiting times and answers in time."""


class Node:
    """One node and its account. Counts and charges include everything below it.

    ``path`` are the nodes from the root down to this one. ``urgent_lead`` is the part
    of ``counter`` that the node gained by being more urgent than a sibling, not by the
    policy. ``held_back`` marks a node that waits on a limit of its own and so does not
    compete. ``delivered`` is ``counter`` without what is paid for in advance.
    """

    def __init__(
        self,
        node_id: str,
        parent: Node | None,
        weight: float,
        caps: Caps,
        window: WindowAccount,
    ) -> None:
        """Open an empty account."""
        self.node_id = node_id
        self.weight = weight
        self.caps = caps
        self.window = window
        self.children: dict[str, Node] = {}
        self.path: tuple[Node, ...] = ()
        self.parent: Node | None = None
        self.place_under(parent)
        self.counter: float = 0.0 if parent is None else parent.virtual_time
        self.delivered = self.counter
        self.virtual_time: float = 0.0
        self.urgent_lead = 0.0
        self.held_back = False
        self.charge = 0.0
        self._tokens = [0, 0, 0]
        self.waiting = 0
        self.running = 0
        self.requests = 0
        self.rejected = 0
        self.preemptions = 0
        self.last: RequestRecord | None = None
        self.mean_wait_s = 0.0
        self._in_time: deque[bool] = deque(maxlen=_LATEST)

    @property
    def tokens(self) -> TokenCount:
        """Tokens served since the account was opened."""
        return TokenCount(*self._tokens)

    def count(self, uncached: int, cached: int, output: int) -> None:
        """Count tokens, here and in the current quota window."""
        counts = self._tokens
        counts[0] += uncached
        counts[1] += cached
        counts[2] += output
        self.window.count(uncached + output)

    def place_under(self, parent: Node | None) -> None:
        """Take a place in the tree, with all that is below."""
        self.parent = parent
        self.path = (self,) if parent is None else (*parent.path, self)
        for child in self.children.values():
            child.place_under(self)

    def leaves(self) -> Iterator[Leaf]:
        """Yield the request classes at or below this node."""
        for child in self.children.values():
            yield from child.leaves()

    def lift(self) -> None:
        """Come back into the competition: at least at the level of the siblings."""
        if self.parent is not None:
            self.shift(max(0.0, self.parent.virtual_time - self.counter))
        self.held_back = False

    def reweigh(self, weight: float) -> None:
        """Change the weight; what is paid for in advance will be refunded by it."""
        ahead = (self.counter - self.delivered) * self.weight
        self.counter = self.delivered + ahead / weight
        self.weight = weight

    def at_capacity(self) -> bool:
        """Whether as many requests run as the node's own limit allows."""
        return self.caps.in_flight is not None and self.running >= self.caps.in_flight

    def shift(self, by: float) -> None:
        """Move to another level among the siblings."""
        self.counter += by
        self.delivered += by

    def note_rejected(self) -> None:
        """Count a refusal here and on every account above."""
        for node in self.path:
            node.rejected += 1

    def note_started(self, waited_s: float) -> None:
        """Count a request that starts to run here for the first time."""
        self.mean_wait_s += (waited_s - self.mean_wait_s) * 2 / (_LATEST + 1)

    def note_ended(self, record: RequestRecord, *, in_time: bool | None) -> None:
        """Count a request that ran here and has ended.

        ``in_time`` tells whether a whole answer was ready before its deadline.
        """
        self.requests += 1
        self.last = record
        if in_time is not None:
            self._in_time.append(in_time)

    def on_time_rate(self) -> float:
        """Return the smoothed part of the latest answers that were ready in time."""
        return (sum(self._in_time) + 1) / (len(self._in_time) + 2)

    def demotes(self) -> bool:
        """Whether a used-up quota here turns what runs into background work."""
        return self.window.at_end is QuotaEnd.DEMOTE and self.window.exhausted

    def status(self) -> NodeStatus:
        """Return a snapshot."""
        return NodeStatus(
            node_id=self.node_id,
            parent_id=None if self.parent is None else self.parent.node_id,
            weight=self.weight,
            waiting=self.waiting,
            running=self.running,
            requests=self.requests,
            rejected=self.rejected,
            preemptions=self.preemptions,
            tokens=self.tokens,
            charge=self.charge,
            counter=self.counter,
            window=self.window.status(),
            last=self.last,
        )

    def state(self, prepaid: float) -> NodeState:
        """Return what outlives a restart, without what is only prepaid."""
        started_at, used_tokens, granted_tokens = self.window.kept()
        return NodeState(
            node_id=self.node_id,
            tokens=self.tokens,
            charge=self.charge - prepaid,
            counter=self.delivered,
            virtual_time=self.virtual_time,
            requests=self.requests,
            rejected=self.rejected,
            preemptions=self.preemptions,
            window=self.window.window,
            window_started_at=started_at,
            used_tokens=used_tokens,
            granted_tokens=granted_tokens,
            bucket_tokens=self.window.level,
            bucket_at=self.window.level_at,
        )

    def restore(self, state: NodeState) -> None:
        """Take over the account from before a restart."""
        self._tokens = [state.tokens.uncached, state.tokens.cached, state.tokens.output]
        self.charge = state.charge
        self.counter = self.delivered = state.counter
        self.virtual_time = state.virtual_time
        self.requests = state.requests
        self.rejected = state.rejected
        self.preemptions = state.preemptions
        if state.window is self.window.window:
            self.window.restore(
                state.window_started_at, state.used_tokens, state.granted_tokens
            )
            self.window.restore_level(state.bucket_tokens, state.bucket_at)


class Leaf(Node):
    """A request class: the queue of one workload of one source.

    ``head`` is the request that is next in it. ``last_start_s`` is when one of it
    started last, ``may_be_demoted`` whether a quota above it may turn it into
    background work.
    """

    def __init__(
        self,
        spec: RequestClass,
        parent: Node,
        profile: WorkloadProfile,
        window: WindowAccount,
    ) -> None:
        """Open an empty queue."""
        super().__init__(spec.class_id, parent, spec.weight, Caps(), window)
        self.workload: Workload = spec.workload
        self.profile = profile
        self.queue: OrderedDict[str, Entry] = OrderedDict()
        self.head: Entry | None = None
        self.predictor = OutputPredictor()
        self.last_start_s = -inf
        self.may_be_demoted = False

    def leaves(self) -> Iterator[Leaf]:
        """Yield this class itself."""
        yield self

    def judge_anew(self) -> None:
        """Have it found out again how urgent the head is."""
        if self.head:
            self.head.judged_until_s = -inf

    def first(self, accepts: Callable[[Entry], object]) -> Entry | None:
        """Return the first request that is accepted, ``None`` if there is none."""
        return next((entry for entry in self.queue.values() if accepts(entry)), None)


class ShareTree:
    """All nodes by id, and the rules by which their counters move.

    ``metered`` are the nodes with a quota, ``limited`` those that may have to hold back
    what waits below them: with a limit of running requests or a quota that is refilled.
    """

    def __init__(self, wall: datetime) -> None:
        """Start with the household alone."""
        self.root = Node(ROOT_ID, None, 1.0, Caps(), WindowAccount(None, wall))
        self.nodes: dict[str, Node] = {ROOT_ID: self.root}
        self.metered: set[Node] = set()
        self.limited: set[Node] = set()
        self._remembered: dict[str, NodeState] = {}

    def put_node(self, spec: NodeSpec, wall: datetime) -> Node:
        """Add a member or source, or change it; a new parent moves it.

        Raises ``KeyError`` when the parent is unknown.
        """
        parent = self.nodes[spec.parent_id]
        node = self.nodes.get(spec.node_id)
        if node is None:
            node = Node(
                spec.node_id,
                parent,
                spec.weight,
                spec.caps,
                WindowAccount(spec.quota, wall),
            )
            self._attach(node, parent)
        elif node.parent is not parent:
            self._move(node, parent)
        node.reweigh(spec.weight)
        node.caps = spec.caps
        node.window.set_spec(spec.quota, wall)
        self._note_limits(node)
        return node

    def put_class(
        self, spec: RequestClass, profile: WorkloadProfile, wall: datetime
    ) -> Leaf:
        """Return the class, adding it if it is new. Raises ``KeyError`` as above."""
        known = self.nodes.get(spec.class_id)
        if isinstance(known, Leaf):
            return known
        leaf = Leaf(
            spec, self.nodes[spec.parent_id], profile, WindowAccount(None, wall)
        )
        self._attach(leaf, self.nodes[spec.parent_id])
        return leaf

    def leaf(self, class_id: str) -> Leaf:
        """Return a request class. Raises ``KeyError`` when there is none of that id."""
        node = self.nodes[class_id]
        if not isinstance(node, Leaf):
            raise KeyError(class_id)
        return node

    def stranded(self, node_id: str) -> list[Entry]:
        """Return what waits at or below a node; nothing when the id is unknown."""
        node = self.nodes.get(node_id)
        if node is None:
            return []
        return [entry for leaf in node.leaves() for entry in leaf.queue.values()]

    def remove(self, node_id: str) -> None:
        """Take a node and all below it away; nothing may wait there any more.

        What runs goes on and is charged to the accounts it started under. The
        household itself stays, and an id that is unknown is not an error.
        """
        node = self.nodes.get(node_id)
        if node is None or node.parent is None:
            return
        del node.parent.children[node_id]
        self._forget(node)

    def refill(self, wall: datetime) -> list[str]:
        """Let time refill what is refilled steadily; return whose quotas lacked any."""
        refilled = []
        for node in self.limited:
            if node.window.refill_per_s is not None:
                refilled += [node.node_id] * (node.window.level > 0)
                node.window.roll(wall)
        return refilled

    def states(self, prepaid: Mapping[str, float]) -> tuple[NodeState, ...]:
        """Return all accounts, also those whose node has not come back yet.

        Without what is ``prepaid``, by the ids of the nodes.
        """
        known = (
            node.state(prepaid.get(node.node_id, 0.0)) for node in self.nodes.values()
        )
        return (*known, *self._remembered.values())

    def restore(self, states: Iterable[NodeState]) -> None:
        """Take over accounts; a node that is added later finds its own then."""
        for state in states:
            if node := self.nodes.get(state.node_id):
                node.restore(state)
            else:
                self._remembered[state.node_id] = state

    def enqueue(self, entry: Entry, *, front: bool = False, lift: bool = True) -> None:
        """Put a request into its class and lift every node that comes back.

        A request that was interrupted comes back without a lift: its class never
        stopped wanting service.
        """
        leaf = entry.leaf
        for node in leaf.path:
            if node.waiting == 0:
                node.held_back = False
                if lift:
                    node.lift()
            node.waiting += 1
        leaf.queue[entry.request.request_id] = entry
        if front:
            leaf.queue.move_to_end(entry.request.request_id, last=False)
        if front or leaf.head is None:
            leaf.head = entry

    def dequeue(self, entry: Entry) -> None:
        """Take a waiting request out of its class."""
        leaf = entry.leaf
        del leaf.queue[entry.request.request_id]
        leaf.head = next(iter(leaf.queue.values()), None)
        # Others of its class may have started since it was judged, and may do so now.
        leaf.judge_anew()
        for node in leaf.path:
            node.waiting -= 1

    def advance(self, path: tuple[Node, ...]) -> None:
        """Move virtual time on, before the chosen request at ``path`` is charged.

        At each level to the least that was delivered to a child that waits and is not
        held back by a limit of its own.
        """
        for node in path[:-1]:
            # Built as a list, since this runs at every start for every member.
            levels = [
                child.delivered
                for child in node.children.values()
                if child.waiting and not child.held_back
            ]
            lowest = min(levels, default=node.virtual_time)
            node.virtual_time = max(node.virtual_time, lowest)

    def _attach(self, node: Node, parent: Node) -> None:
        self.nodes[node.node_id] = node
        parent.children[node.node_id] = node
        _note_demotion(node)
        if state := self._remembered.pop(node.node_id, None):
            node.restore(state)

    def _move(self, node: Node, parent: Node) -> None:
        # Counters of different parents can't be compared: it starts at the level of
        # its new siblings. What it was served stays with those who were charged.
        for above in node.path[:-1]:
            above.waiting -= node.waiting
        assert node.parent is not None  # noqa: S101 - only children are moved
        del node.parent.children[node.node_id]
        node.place_under(parent)
        node.shift(parent.virtual_time - node.delivered)
        self._attach(node, parent)
        for above in node.path[:-1]:
            if above.waiting == 0 and node.waiting:
                above.lift()
            above.waiting += node.waiting

    def _forget(self, node: Node) -> None:
        for child in node.children.values():
            self._forget(child)
        del self.nodes[node.node_id]
        self.metered.discard(node)
        self.limited.discard(node)

    def _note_limits(self, node: Node) -> None:
        refilled = node.window.refill_per_s is not None
        limited = refilled or node.caps.in_flight is not None
        _mark(self.limited, node, marked=limited)
        _mark(self.metered, node, marked=node.window.limit is not None)
        _note_demotion(node)


def _mark(nodes: set[Node], node: Node, *, marked: bool) -> None:
    if marked:
        nodes.add(node)
    else:
        nodes.discard(node)


def _note_demotion(node: Node) -> None:
    for leaf in node.leaves():
        leaf.may_be_demoted = any(
            above.window.limit is not None and above.window.at_end is QuotaEnd.DEMOTE
            for above in leaf.path
        )
        leaf.judge_anew()


def parting(ours: tuple[Node, ...], theirs: tuple[Node, ...]) -> tuple[Node, Node]:
    """Return the siblings at which two paths part; equal at the end if they don't."""
    pairs = list(zip(ours, theirs, strict=False))
    return next((pair for pair in pairs if pair[0] is not pair[1]), pairs[-1])
