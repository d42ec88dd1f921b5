"""How much of a prompt was read for the first time, in whatever parts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadTokens:
    """What there is to pay of a prompt that is read from its beginning on.

    ``uncached`` tokens the server computed, ``cached`` it still had from before. Both
    are paid once; ``again`` is what it had to compute once more of that.
    """

    uncached: int = 0
    cached: int = 0
    again: int = 0

    @property
    def paid(self) -> int:
        """How long the beginning is that is paid."""
        return self.uncached + self.cached

    def then(self, upto: int, *, cached: int) -> ReadTokens:
        """Return the whole after a reading of the first ``upto`` tokens.

        ``cached`` of them the server had in its cache.
        """
        paid = self.paid
        computed = max(0, upto - max(cached, paid))
        found = max(0, min(cached, upto) - paid)
        again = max(0, min(upto, paid) - cached)
        return ReadTokens(
            self.uncached + computed, self.cached + found, self.again + again
        )
