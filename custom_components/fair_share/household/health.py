"""Whether a server may be sent requests, judged by its own faults.

A breaker in the usual three states: closed, open after faults of the server, and on
trial after a pause. What a request did to itself must not shut others out: an error
that only one request meets says nothing yet. Nor must a server that answers probes
but fails every request at once, and so always has room, attract the household's
requests for ever: each further opening lasts twice as long. Pure: the caller passes
the time in, in seconds of one monotonic clock.
"""

from enum import StrEnum

_FIRST_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 300.0


class Fault(StrEnum):
    """How much a failure says about the server.

    ``SUSPECT``: an error of the server, or an answer that was cut, which one request
    can bring about by itself. ``CERTAIN``: no connection, so that nothing of the
    request has reached the server.
    """

    SUSPECT = "suspect"
    CERTAIN = "certain"


class Breaker:
    """The health of one server."""

    def __init__(self) -> None:
        """Trust the server."""
        self._suspect: str | None = None
        self._pause_s = 0.0
        self._open_until_s: float | None = None

    def note_fault(self, fault: Fault, request: str, now: float) -> bool:
        """Note that a request failed by a fault of the server; return if that opens it.

        ``request`` is the same for every try of the same request. Faults of requests
        that were sent before it was opened say nothing new while it is open.
        """
        if self.is_open(now):
            return False
        another = self._suspect is not None and self._suspect != request
        self._suspect = request
        if fault is Fault.SUSPECT and not another:
            return False
        self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        self._open_until_s = now + self._pause_s
        return True

    def note_success(self) -> None:
        """Note that an answer came whole: nothing is held against the server."""
        self._suspect = None
        self._pause_s = 0.0
        self._open_until_s = None

    def is_open(self, now: float) -> bool:
        """Whether the server may be sent nothing."""
        return self.left_s(now) > 0

    def left_s(self, now: float) -> float:
        """Return for how many seconds more the server may be sent nothing."""
        return 0.0 if self._open_until_s is None else max(self._open_until_s - now, 0.0)

    @property
    def on_trial(self) -> bool:
        """Whether it was opened and no answer has come whole since."""
        return self._open_until_s is not None
