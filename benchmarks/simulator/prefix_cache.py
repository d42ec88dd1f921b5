"""What an engine still knows of sequences that were aborted."""

from collections import OrderedDict


class PrefixCache:
    """Computed prefixes by job, the least recently kept lost first.

    ``capacity_tokens`` 0 is an engine whose cache is always lost.
    """

    def __init__(self, capacity_tokens: int) -> None:
        """Start empty."""
        self._capacity_tokens = capacity_tokens
        self._kept: OrderedDict[str, int] = OrderedDict()

    def keep(self, job_id: str, tokens: int) -> None:
        """Remember a prefix of so many tokens, at the cost of older ones."""
        self._kept.pop(job_id, None)
        self._kept[job_id] = tokens
        while sum(self._kept.values()) > self._capacity_tokens:
            self._kept.popitem(last=False)

    def peek(self, job_id: str) -> int:
        """Return how many tokens of a job are still there."""
        return self._kept.get(job_id, 0)

    def take(self, job_id: str) -> int:
        """Return how many tokens of a job are still there, and hand them over."""
        return self._kept.pop(job_id, 0)
