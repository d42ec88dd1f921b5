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

from collections.abc import Iterable, Mapping
from datetime import datetime

from .entry import Entry
from .model import (
    ROOT_ID,
    Caps,
    NodeSpec,
    QuotaEnd,
    RequestClass,
    Workload,
    WorkloadProfile,
)
from .node import Leaf, Node
from .quota import WindowAccount
from .state import NodeState


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
        self._paused_nodes: frozenset[str] = frozenset()
        self._paused_workloads: frozenset[Workload] = frozenset()

    def pause(self, nodes: frozenset[str], workloads: frozenset[Workload]) -> None:
        """Let nothing start below these nodes and of these workloads, and no others.

        Unknown ids are not an error: a node may be added later.
        """
        self._paused_nodes, self._paused_workloads = nodes, workloads

    @property
    def pauses_any(self) -> bool:
        """Whether anything is paused."""
        return bool(self._paused_nodes or self._paused_workloads)

    def is_paused(self, leaf: Leaf) -> bool:
        """Whether nothing of a request class may start for now."""
        return self.pauses_any and (
            leaf.workload in self._paused_workloads
            or any(node.node_id in self._paused_nodes for node in leaf.path)
        )

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
