"""How fast the servers read prompts and write answers, learnt from requests."""

_LEARNING_RATE = 0.2


class Speeds:
    """Moving averages over the latest requests, in tokens per second.

    ``None`` before anything was seen.
    """

    __slots__ = ("decode", "prefill")

    def __init__(self) -> None:
        """Know nothing yet."""
        self.prefill: float | None = None
        self.decode: float | None = None

    def note_prefill(self, tokens: int, seconds: float) -> None:
        """Learn from a prompt that was read."""
        self.prefill = _blend(self.prefill, tokens, seconds)

    def note_decode(self, tokens: int, seconds: float) -> None:
        """Learn from an answer that was written."""
        self.decode = _blend(self.decode, tokens, seconds)

    def prefill_s(self, tokens: int) -> float:
        """Return how long reading so many uncached tokens takes; 0 if unknown."""
        return 0.0 if self.prefill is None else tokens / self.prefill

    def decode_s(self, tokens: int) -> float:
        """Return how long writing so many tokens takes; 0 if unknown."""
        return 0.0 if self.decode is None else tokens / self.decode


def _blend(known: float | None, tokens: int, seconds: float) -> float | None:
    if tokens <= 0 or seconds <= 0:
        return known
    speed = tokens / seconds
    return speed if known is None else known + _LEARNING_RATE * (speed - known)
