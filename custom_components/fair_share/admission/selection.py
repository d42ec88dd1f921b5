"""Which waiting request is next.

Background work that is owed its reserved share, then overdue requests, then by
urgency, then by policy down the tree.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from .entry import Entry
from .model import Rule, Settings, Workload
from .policies import POLICIES, Contender, pick
from .refusal import waits_for_refill
from .reserve import BackgroundReserve
from .servers import Server
from .speed import Speeds
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

    Not those under a node at its own limit of running requests or that waits for its
    quota. What no server in reach could hold (``hosts`` names those) holds up nobody
    behind it. To be
    held back in this way is like being away: a node that competes again is lifted to
    the virtual time of its parent.
    """
    waiting = list(leaves)
    heads = [
        head
        for leaf in waiting
        if not any(node.at_capacity() for node in leaf.path)
        and waits_for_refill(leaf) is None
        and (head := leaf.first(hosts)) is not None
    ]
    competing = {node for head in heads for node in head.leaf.path}
    for leaf in waiting:
        for node in leaf.path[1:]:
            if node not in competing:
                node.held_back = True
            elif node.held_back:
                node.lift()
    return heads


class Selector:
    """The order in which heads start, under the settings of the household."""

    def __init__(self, settings: Settings, reserve: BackgroundReserve) -> None:
        """Choose by these rules; ``settings`` may be replaced at any time."""
        self.settings = settings
        self._reserve = reserve
        self._last_was_overdue = False

    def choose(
        self,
        heads: list[Entry],
        *,
        now: float,
        speeds: Speeds,
        is_open: Callable[[Entry], bool],
    ) -> Choice | None:
        """Return the request that is next among ``heads``, or ``None``.

        ``is_open`` tells whether a server that could take the request still accepts
        starts in this round. Overdue requests come by deadline, but only on every
        second start, so that a long tail of late work can't hold up everything else.
        """
        open_heads = [head for head in heads if is_open(head)]
        if not open_heads:
            return None
        several = len(heads) > 1
        if owed := self._owed(open_heads, now, speeds):
            return Choice(owed, Rule.RESERVED_SHARE, urgent=several)
        if not self._last_was_overdue and (late := _most_overdue(open_heads, now)):
            return Choice(late, Rule.OVERDUE, urgent=several)
        bands = [head.effective_band(now) for head in open_heads]
        band = min(bands)
        compared = [
            head for head, its in zip(open_heads, bands, strict=True) if its == band
        ]
        urgent = len(compared) < len(heads)
        rule = Rule.BAND if urgent and len(compared) == 1 else Rule.POLICY
        return Choice(self._descend(compared, now, speeds), rule, urgent)

    def started(self, choice: Choice) -> None:
        """Note that a choice has started."""
        self._last_was_overdue = choice.rule is Rule.OVERDUE

    def _owed(self, heads: list[Entry], now: float, speeds: Speeds) -> Entry | None:
        background = [
            head for head in heads if head.leaf.workload is Workload.BACKGROUND
        ]
        if not background or len(background) == len(heads):
            return None
        head = self._descend(background, now, speeds)
        cost = head.expected_cost(self.settings.costs)
        return head if self._reserve.covers(cost) else None

    def _descend(self, heads: list[Entry], now: float, speeds: Speeds) -> Entry:
        """Follow the policy from the household down to one class."""
        policy = POLICIES[self.settings.policy]
        depth = 1
        while len(heads) > 1:
            below: dict[Node, list[Entry]] = {}
            for head in heads:
                below.setdefault(head.leaf.path[depth], []).append(head)
            if len(below) > 1:
                contenders = [Contender(node, its) for node, its in below.items()]
                heads = below[pick(policy, contenders, now, speeds).node]
            depth += 1
        return heads[0]


def _most_overdue(heads: list[Entry], now: float) -> Entry | None:
    late = [head for head in heads if head.overdue_at_s() <= now]
    return min(
        late, key=lambda head: (head.overdue_at_s(), head.sequence), default=None
    )
