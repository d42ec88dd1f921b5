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
        """The charge of all that was asked for; unbounded while nobody can know."""
        if self.greedy or not self.records:
            return inf if self.submitted else 0.0
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
    """Return a percentile to the millisecond, ``None`` of nothing."""
    if not values:
        return None
    if len(values) == 1:
        return round(values[0], 3)
    return round(quantiles(values, n=100, method="inclusive")[percent - 1], 3)
