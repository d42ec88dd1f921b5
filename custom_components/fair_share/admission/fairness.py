"""How far the accounts of the members are apart, against what they may be."""

from math import inf

from .entry import Entry
from .node import Node


class FairnessGauge:
    """Watches the counters of siblings that wait at the same time.

    Claim (after Lemma 4.3 of Sheng et al., OSDI 2024): the counters of two siblings
    that both wait and compete differ by no more than the most that can be in flight
    at once, divided by the smallest weight. Whoever is chosen had the smallest
    counter, and can get ahead only by what it then has in flight, or fall behind
    only by prepayments that are refunded. Starts that urgency decided are outside
    of the policy; what they gained is added to the bound.
    """

    __slots__ = ("_lightest", "_root", "_worst_in_flight", "_worst_lead", "gap")

    def __init__(self, root: Node) -> None:
        """Watch the children of ``root``."""
        self._root = root
        self._worst_in_flight = 0.0
        self._worst_lead = 0.0
        self._lightest = inf
        self.gap = 0.0

    @property
    def bound(self) -> float:
        """What the gap may be at most, by all that has been in flight so far."""
        return self._worst_in_flight / self._lightest + self._worst_lead

    def started(self, entry: Entry, in_flight_cost: float) -> None:
        """Note a start, before it is charged.

        ``in_flight_cost`` is the most that everything in flight, this request
        included, can be charged.
        """
        member = entry.path[1]
        if not entry.urgent:
            member.urgent_lead = 0.0
        self._worst_in_flight = max(self._worst_in_flight, in_flight_cost)
        self._lightest = min(self._lightest, member.weight)

    def charged(self, entry: Entry, delta: float) -> None:
        """Note a charge or refund that has just been booked."""
        if entry.urgent:
            member = entry.path[1]
            member.urgent_lead = max(0.0, member.urgent_lead + delta / member.weight)
            self._worst_lead = max(self._worst_lead, member.urgent_lead)

    def look(self) -> None:
        """Measure, after a start was charged or before an end is refunded.

        In between the counters of those who are served only rise.
        """
        waiting = [
            child
            for child in self._root.children.values()
            if child.waiting and not child.held_back
        ]
        if waiting:
            # What is paid in advance may have been reweighed since it started.
            counters = [child.counter for child in waiting]
            weights = [child.weight for child in waiting]
            self._lightest = min(self._lightest, *weights)
            self.gap = max(self.gap, max(counters) - min(counters))
