"""One request as its client saw it, and what had been done for it at any moment."""

from bisect import bisect_right
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple

from custom_components.fair_share.admission.model import (
    Rejected,
    TokenCount,
    Workload,
)
from custom_components.fair_share.engines.base import (
    Content,
    Delta,
    EngineError,
    Finish,
    PromptProgress,
    Thinking,
    Usage,
)

type Opened = AbstractAsyncContextManager[AsyncIterator[Delta]]


class _Point(NamedTuple):
    """So much of a request was read and written at a moment."""

    at_s: float
    read: float
    written: float


@dataclass(slots=True)
class Served:
    """A request and what came of it; times are ``monotonic`` seconds.

    ``fresh``: no cache can know its prompt of ``prompt_tokens``. ``error`` is the kind
    of failure it ended with.
    """

    workload: Workload
    member: str
    prompt_tokens: int
    fresh: bool = False
    asked_s: float = field(default_factory=monotonic)
    first_s: float | None = None
    ended_s: float | None = None
    error: str | None = None
    usage: Usage | None = None
    whole: bool = False
    text: str = ""
    counted: int = 0
    times: list[float] = field(default_factory=list)
    _cached: int = 0
    _points: list[_Point] = field(default_factory=list)

    def note(self, delta: Delta) -> None:
        """Note a delta that has just come."""
        now = monotonic()
        match delta:
            case PromptProgress():
                # What an interrupted answer had is read as part of its prompt.
                self._note_read(now, min(delta.processed, self.prompt_tokens))
                if len(self._points) == 1 and not self.fresh:
                    self._cached = delta.cached
            case Content() | Thinking():
                if self.first_s is None:
                    self.first_s = now
                self.times.append(now)
                self.text += delta.text
                self.counted += delta.tokens
                self._note_read(now, self.prompt_tokens)
            case Usage():
                self.usage = delta
                if not self.fresh:
                    self._cached = delta.cached_tokens
            case Finish():
                self.whole = True

    def done_by(self, moment_s: float) -> TokenCount:
        """Return what had been computed for it by then; what was read twice, once.

        Servers tell of a prompt when a batch of it is done, so what lies between two
        messages is taken to have been done evenly.
        """
        after = bisect_right(self._points, moment_s, key=lambda point: point.at_s)
        if after == 0:
            return TokenCount()
        last = self._points[after - 1]
        read, written = last.read, last.written
        if after < len(self._points):
            following = self._points[after]
            part = (moment_s - last.at_s) / (following.at_s - last.at_s)
            read += part * (following.read - read)
            written += part * (following.written - written)
        cached = min(self._cached, round(read))
        return TokenCount(round(read) - cached, cached, round(written))

    def whole_with(self, output_tokens: int) -> bool:
        """Whether it came to its end, with just so many tokens of answer."""
        counted = self.usage.output_tokens if self.usage else 0
        return self.whole and bool(self.text) and counted == output_tokens

    def heard_of_after(self, moment_s: float) -> bool:
        """Whether nothing that was done by then can be untold any more."""
        points = self._points
        return self.ended_s is not None or not points or points[-1].at_s > moment_s

    def _note_read(self, now: float, read: int) -> None:
        if self._points:
            read = max(read, round(self._points[-1].read))
        self._points.append(_Point(now, read, self.counted))


async def follow(opened: Opened, served: Served) -> None:
    """Read an answer to its end; how it failed is noted, not raised."""
    try:
        async with opened as deltas:
            async for delta in deltas:
                served.note(delta)
    except (EngineError, Rejected) as err:
        served.error = type(err).__name__
    served.ended_s = monotonic()
