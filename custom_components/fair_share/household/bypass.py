"""Whether somebody keeps using a server past the queue.

Pure: the caller passes the time in, in seconds of one monotonic clock.
"""

TOO_LONG_S = 300.0
"""So much of it in one go, with short breaks, is worth a word."""

OVER_AFTER_S = 900.0
"""A longer break than that is its end."""


class Bypass:
    """How long one server has been used past the queue, breaks left out."""

    def __init__(self) -> None:
        """Know of nothing."""
        self._used_s = 0.0
        self._since_s: float | None = None
        self._latest_s = 0.0

    def note(self, now: float, *, used: bool) -> None:
        """Take note of whether somebody uses it now."""
        if self._since_s is not None:
            self._used_s += now - self._since_s
            self._latest_s = now
        elif now - self._latest_s > OVER_AFTER_S:
            self._used_s = 0.0
        self._since_s = now if used else None

    @property
    def too_long(self) -> bool:
        """Whether that has gone on for too long, and is not over."""
        return self._used_s >= TOO_LONG_S
