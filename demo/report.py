"""What a load run found out."""

from collections.abc import Sequence
from dataclasses import dataclass

from .api import Json
from .shares import Claim, entitled_shares
from .tally import Tally, percentile


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What each class got, and how far the queue was from perfectly fair.

    ``fairness_gap`` and ``bound`` are in weighted tokens. ``deferred_in_engine`` is the
    most requests that ever waited inside the engine, ``None`` if it does not tell.
    """

    tallies: Sequence[Tally]
    fairness_gap: float
    bound: float
    deferred_in_engine: int | None

    def entitled(self) -> dict[str, float]:
        """Return the part of all service that each class was entitled to."""
        total = sum(tally.charge for tally in self.tallies)
        claims = {
            tally.name: Claim(tally.demand, tally.weight) for tally in self.tallies
        }
        shares = entitled_shares(total, claims)
        return {name: _part(share, total) for name, share in shares.items()}

    def as_json(self) -> Json:
        """Return the report as one JSON object."""
        total = sum(tally.charge for tally in self.tallies)
        entitled = self.entitled()
        return {
            "classes": {
                tally.name: {
                    "requests": len(tally.records),
                    "tokens": tally.tokens,
                    "charge": round(tally.charge, 1),
                    "share": round(_part(tally.charge, total), 4),
                    "entitled": round(entitled[tally.name], 4),
                    "wait_p50_s": percentile(tally.waits_s, 50),
                    "ttft_p50_s": percentile(tally.ttfts_s, 50),
                    "ttft_p95_s": percentile(tally.ttfts_s, 95),
                    "failed": tally.failed,
                }
                for tally in self.tallies
            },
            "fairness_gap": round(self.fairness_gap, 1),
            "bound": round(self.bound, 1),
            "deferred_in_engine": self.deferred_in_engine,
        }


def _part(charge: float, total: float) -> float:
    return charge / total if total else 0.0
