"""Stop strings, also where they arrive in pieces, or in two runs of one answer."""

from collections.abc import Mapping, Sequence
from typing import Any


class StopFilter:
    """Ends a text before the first stop string in it.

    What could be the beginning of one is held until more is known, so that nothing of
    it is ever shown. Servers do the same, but each run of an interrupted answer knows
    only of its own text.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        """Look for these; without any all text passes at once."""
        self._stops = tuple(filter(None, stops))
        self.held = ""
        self.stopped = False

    def feed(self, text: str) -> str:
        """Take the next piece and return what can be shown by now."""
        if not self._stops:
            return text
        text = self.held + text
        found = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.held, self.stopped = "", True
            return text[: min(found)]
        keep = max(_overlap(text, stop) for stop in self._stops)
        self.held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def close(self) -> str:
        """End the text: what was held was no stop string."""
        held, self.held = self.held, ""
        return held


def stops_of(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the stop strings among the parameters of a request."""
    stop = parameters.get("stop")
    stops = stop if isinstance(stop, list | tuple) else [stop]
    return tuple(each for each in stops if isinstance(each, str) and each)


def _overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of the text may begin the stop string."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
