"""What fair means: the order among siblings of the share tree.

Everything else (urgency bands, memory, caps, quotas) holds under every policy.
"""

from typing import Protocol

from .tree import Node


class Policy(Protocol):
    """Ranks the siblings that have something waiting; the lowest rank is served."""

    name: str

    def rank(self, node: Node) -> float:
        """Return the rank of one sibling."""
        ...


class EqualTokens:
    """Everybody gets the same number of tokens, in proportion to their weight.

    Serves the sibling with the smallest virtual token counter: weighted max-min
    fairness of the charge (Sheng et al., OSDI 2024). Target: among siblings that
    both have work waiting, the counters never differ by more than the work that can
    be in flight at once.
    """

    name = "equal_tokens"

    def rank(self, node: Node) -> float:
        """Return the node's virtual token counter."""
        return node.counter


POLICIES: dict[str, Policy] = {policy.name: policy for policy in (EqualTokens(),)}
