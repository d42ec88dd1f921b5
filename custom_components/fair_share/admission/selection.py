"""Which waiting request is next: overdue first, then by urgency, then by policy."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from .entry import Entry
from .model import Rule
from .policies import Policy
from .servers import Server
from .tree import Leaf, Node


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen request, and why. ``urgent``: a waiting sibling was not compared."""

    entry: Entry
    rule: Rule
    urgent: bool


def eligible_heads(
    leaves: Iterable[Leaf], hosts: Callable[[Entry], Collection[Server]]
) -> list[Entry]:
    """Return the heads that may compete for the next start.

    Not those under a node at its own limit of running requests, nor those that no
    reachable server could hold (``hosts`` names those). To be held back in this way is
    like being away: a node that competes again is lifted to the virtual time of its
    parent.
    """
    waiting = list(leaves)
    heads = [
        leaf.head()
        for leaf in waiting
        if not any(node.at_capacity() for node in leaf.path) and hosts(leaf.head())
    ]
    competing = {node for head in heads for node in head.leaf.path}
    for leaf in waiting:
        for node in leaf.path[1:]:
            if node not in competing:
                node.held_back = True
            elif node.held_back:
                node.lift()
    return heads


def choose(
    heads: list[Entry],
    *,
    policy: Policy,
    now: float,
    overdue_turn: bool,
    is_open: Callable[[Entry], bool],
) -> Choice | None:
    """Return the request that is next among ``heads``, or ``None``.

    ``is_open`` tells whether a server that could take the request still accepts
    starts in this round. Overdue requests come first, by deadline, but only on their
    turn (every second start), so that a long tail of late work can't hold up
    everything else. Then the most urgent band after ageing, and inside it the
    policy's choice down the tree.
    """
    open_heads = [head for head in heads if is_open(head)]
    if not open_heads:
        return None
    if overdue_turn:
        late = [head for head in open_heads if head.overdue_at_s() <= now]
        if late:
            entry = min(late, key=lambda head: (head.overdue_at_s(), head.sequence))
            return Choice(entry, Rule.OVERDUE, urgent=len(heads) > 1)
    band = min(head.effective_band(now) for head in open_heads)
    compared = [head for head in open_heads if head.effective_band(now) == band]
    urgent = len(compared) < len(heads)
    rule = Rule.BAND if urgent and len(compared) == 1 else Rule.LEAST_SERVED
    return Choice(_descend(compared, policy), rule, urgent)


def _descend(heads: list[Entry], policy: Policy) -> Entry:
    """Follow the policy from the household down to one class."""
    paths = [(head.leaf.path, head) for head in heads]
    depth = 1
    while len(paths) > 1:
        best = min(_rank(path[depth], head, policy) for path, head in paths)
        paths = [pair for pair in paths if pair[0][depth].node_id == best[2]]
        depth += 1
    return paths[0][1]


def _rank(node: Node, head: Entry, policy: Policy) -> tuple[float, int, str]:
    """Order siblings by the policy; ties go to the older request, then by id."""
    return policy.rank(node), head.sequence, node.node_id
