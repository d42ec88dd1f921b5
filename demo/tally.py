"""Counting what each class of work asked for and got."""

from dataclasses import dataclass, field
from math import inf
from statistics import quantiles

from .records import Record


@dataclass(slots=True)
class Tally:
    """One class of work during a load run.

    ``charge`` is what its account was charged in all, unfinished requests included.
    ``greedy`` work always has more to do than it gets.
    """

    name: str
    member_id: str
    weight: float = 1.0
    greedy: bool = False
    submitted: int = 0
    failed: int = 0
    charge: float = 0.0
    records: list[Record] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """The tokens of the requests that ended: prompt and output."""
        return sum(record.tokens.all for record in self.records)

    @property
    def demand(self) -> float:
        """The charge of all that was asked for, as far as it can be known."""
        if self.greedy:
            return inf
        if not self.records:
            return self.charge
        mean = sum(record.charge for record in self.records) / len(self.records)
        return max(self.charge, mean * self.submitted)

    @property
    def waits_s(self) -> list[float]:
        """How long each request waited for a slot."""
        return [record.wait_s for record in self.records]

    @property
    def ttfts_s(self) -> list[float]:
        """How long after arrival each request had its first token."""
        return [record.ttft_s for record in self.records if record.ttft_s is not None]


def percentile(values: list[float], percent: int) -> float | None:
    """Return a percentile, ``None`` of nothing."""
    if not values:
        return None
    if len(values) == 1:
        return values[0]
    return quantiles(values, n=100, method="inclusive")[percent - 1]
