"""How long the answers of a request class are likely to be."""

from collections import deque
from math import ceil

_MEAN_OF_LAST = 5
_QUANTILE_OF_LAST = 20
_QUANTILE = 0.9
_FIRST_GUESS_TOKENS = 256


class OutputPredictor:
    """Predicts output tokens from the latest answers of the same class.

    The mean of the last five is what is paid for in advance (Sheng et al., OSDI
    2024, Algorithm 3); the ninth decile of the last twenty is what memory is
    planned with.
    """

    __slots__ = ("_recent",)

    def __init__(self) -> None:
        """Start without any observation."""
        self._recent: deque[int] = deque(maxlen=_QUANTILE_OF_LAST)

    def observe(self, output_tokens: int) -> None:
        """Learn the length of an answer that ended by itself."""
        self._recent.append(output_tokens)

    def mean(self, max_output_tokens: int) -> int:
        """Return the expected output in tokens, at most ``max_output_tokens``."""
        if not self._recent:
            return min(max_output_tokens, _FIRST_GUESS_TOKENS)
        last = list(self._recent)[-_MEAN_OF_LAST:]
        return min(max_output_tokens, ceil(sum(last) / len(last)))

    def p90(self, max_output_tokens: int) -> int:
        """Return a length that nine of ten answers stay below, in tokens."""
        if not self._recent:
            return min(max_output_tokens, _FIRST_GUESS_TOKENS)
        ordered = sorted(self._recent)
        return min(max_output_tokens, ordered[ceil(_QUANTILE * len(ordered)) - 1])
