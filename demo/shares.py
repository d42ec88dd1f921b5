"""What a class of work was entitled to: the weighted max-min share.

Everybody gets what they demand, unless that is more than their weight's part of what is
left; what the modest do not need goes to the others, again by weight ("water-filling").
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """How much somebody wants and how much they weigh. Both are at least 0."""

    demand: float
    weight: float = 1.0


def entitled_shares(capacity: float, claims: Mapping[str, Claim]) -> dict[str, float]:
    """Return how much of the capacity each claim is entitled to, in the claims' unit.

    The shares add up to the capacity or to the sum of the demands, whichever is less.
    """
    shares = dict.fromkeys(claims, 0.0)
    open_claims = {name: claim for name, claim in claims.items() if claim.weight > 0}
    left = capacity
    while open_claims:
        per_weight = left / sum(claim.weight for claim in open_claims.values())
        modest = {
            name: claim
            for name, claim in open_claims.items()
            if claim.demand <= per_weight * claim.weight
        }
        if not modest:
            for name, claim in open_claims.items():
                shares[name] = per_weight * claim.weight
            break
        for name, claim in modest.items():
            shares[name] = claim.demand
            left -= claim.demand
            del open_claims[name]
    return shares
