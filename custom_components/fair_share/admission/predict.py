"""How long the answers of a request class are likely to be."""

from bisect import bisect_right
from collections import deque
from itertools import accumulate
from math import ceil

_MEAN_OF_LAST = 5
_LATEST = 60
_FIRST_GUESS_TOKENS = 256
_LEAST_LEFT_TOKENS = 8


class OutputPredictor:
    """Predicts output tokens from the latest answers of the same class.

    The mean of the last five tells how long a whole answer will be, for deadlines and
    forecasts. What is paid for in advance (the prediction of Sheng et al., OSDI 2024,
    Algorithm 3) and the memory that is planned with are the mean of those of the last
    sixty that were longer than what is there already.
    """

    __slots__ = ("_mean", "_ordered", "_recent", "_sums")

    def __init__(self) -> None:
        """Start without any observation."""
        self._recent: deque[int] = deque(maxlen=_LATEST)
        self._mean = _FIRST_GUESS_TOKENS
        self._ordered = [_FIRST_GUESS_TOKENS]
        self._sums = [0, _FIRST_GUESS_TOKENS]

    def observe(self, output_tokens: int) -> None:
        """Learn the length of an answer that ended by itself."""
        self._recent.append(output_tokens)
        last = list(self._recent)[-_MEAN_OF_LAST:]
        self._mean = ceil(sum(last) / len(last))
        self._ordered = sorted(self._recent)
        self._sums = [0, *accumulate(self._ordered)]

    def mean(self, max_output_tokens: int) -> int:
        """Return the expected output in tokens, at most ``max_output_tokens``."""
        return min(max_output_tokens, self._mean)

    def left(self, output_tokens: int, max_output_tokens: int) -> int:
        """Return how much longer than ``output_tokens`` an answer is likely to be.

        One that is longer than all before is taken to go on for a quarter of what it
        has. At most as long as ``max_output_tokens`` in all.
        """
        shorter = bisect_right(self._ordered, output_tokens)
        longer = len(self._ordered) - shorter
        likely = output_tokens // 4
        if longer:
            likely = (self._sums[-1] - self._sums[shorter]) // longer - output_tokens
        left = max_output_tokens - output_tokens
        return max(0, min(left, max(likely, _LEAST_LEFT_TOKENS)))
