"""Which waiting request is next.

Background work that is owed its reserved share, then overdue requests, then by
urgency, then by policy down the tree.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from .board import Board
from .entry import Entry
from .model import Rule, Settings, Workload
from .node import Leaf, Node
from .policies import POLICIES, pick
from .refusal import waits_for_refill
from .reserve import BackgroundReserve
from .speed import Speeds


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen request, and why. ``urgent``: a waiting sibling was not compared."""

    entry: Entry
    rule: Rule
    urgent: bool


def eligible_heads(board: Board) -> list[Entry]:
    """Return the heads that may compete for the next start.

    Not those under a node at its own limit of running requests, that waits for its
    quota or that is paused. What no server in reach could hold holds up nobody behind
    it. To be held back in this way is like being away: a node that competes again is
    lifted to the virtual time of its parent.
    """
    waiting = board.backlogged.values()
    tree = board.tree
    if not (
        tree.limited or tree.pauses_any or board.any_out_of_reach or board.any_held_back
    ):
        return [leaf.head for leaf in waiting if leaf.head]
    heads = [
        head
        for leaf in waiting
        if not any(node.at_capacity() for node in leaf.path)
        and not tree.is_paused(leaf)
        and (head := _first_of(leaf)) is not None
    ]
    for head in heads:
        # One that is not first in its class is not told when others of it start.
        head.judged_until_s = -inf
    board.any_held_back = len(heads) < len(waiting)
    competing = {node for head in heads for node in head.leaf.path}
    for leaf in waiting:
        for node in leaf.path[1:]:
            if node not in competing:
                node.held_back = True
            elif node.held_back:
                node.lift()
    return heads


def _first_of(leaf: Leaf) -> Entry | None:
    """Return the first of a class that may start; of a closed one, what has begun."""
    closed = waits_for_refill(leaf) is not None
    if closed and waits_for_refill(leaf, resumed=True) is not None:
        return None
    return leaf.first(lambda entry: entry.hosts and (entry.resumed or not closed))


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
        is_open: Callable[[Entry], bool] | None = None,
    ) -> Choice | None:
        """Return the request that is next among ``heads``, or ``None``.

        ``is_open`` tells whether a server that could take the request still accepts
        starts in this round. Overdue requests come by deadline, but only on every
        second start, so that a long tail of late work can't hold up everything else.
        Answers that were interrupted are few, and go on when they are overdue.
        """
        open_heads = heads if is_open is None else [h for h in heads if is_open(h)]
        if not open_heads:
            return None
        several = len(heads) > 1
        if owed := self._owed(open_heads, now, speeds):
            return Choice(owed, Rule.RESERVED_SHARE, urgent=several)
        late: list[Entry] = []
        compared: list[Entry] = []
        band: float = inf
        for head in open_heads:
            if now >= head.judged_until_s:
                head.judge(now)
            if head.overdue_s <= now:
                late.append(head)
            if head.band < band:
                band = head.band
                compared = [head]
            elif head.band == band:
                compared.append(head)
        if overdue := self._most_overdue(late):
            return Choice(overdue, Rule.OVERDUE, urgent=several)
        urgent = len(compared) < len(heads)
        rule = Rule.BAND if urgent and len(compared) == 1 else Rule.POLICY
        return Choice(self._descend(compared, now, speeds), rule, urgent)

    def started(self, choice: Choice) -> None:
        """Note that a choice has started."""
        self._last_was_overdue = choice.rule is Rule.OVERDUE

    def _owed(self, heads: list[Entry], now: float, speeds: Speeds) -> Entry | None:
        if not self._reserve.owed:
            return None
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
                node = head.leaf.path[depth]
                if node in below:
                    below[node].append(head)
                else:
                    below[node] = [head]
            if len(below) > 1:
                heads = below[pick(policy, below, now, speeds)]
            depth += 1
        return heads[0]

    def _most_overdue(self, late: list[Entry]) -> Entry | None:
        if self._last_was_overdue:
            late = [head for head in late if head.paused_at_s is not None]
        return min(late, key=lambda head: (head.overdue_s, head.sequence), default=None)
