"""How fast a server is with so many requests in flight, and how many of them pay."""

from math import inf

from .entry import Entry
from .speed import Speeds

_HALF_LIFE_S = 300.0
"""Work time after which what was seen counts half."""

_EVIDENCE_S = 20.0
"""So long a number of requests has to have been in flight before it is judged."""

_STALE_S = _EVIDENCE_S / 8
"""With less than this left of what was seen, a number is tried again."""

_LEAST_MORE = 0.1
"""One more request in flight pays if it brings so much more work done ..."""

_LEAST_PART = 0.5
"""... or, where many are in flight already, this part of its share."""

_NEARLY_ALL = 0.9
"""Of several more all pay if they bring this part of what they could at most."""

_LOOK_EVERY_S = 1.0

_PURE = 0.9
"""What one request did is only learnt from if all the same number, nearly, ran then."""

_FEW_TOKENS = 32
"""Fewer tokens tell nothing of how fast a prompt is read: it takes time to begin."""

_UNKNOWN_SLOWDOWN = 0.5
"""How much slower each gets among more than was seen: halfway between a server that
does many as fast as one and one that does them in turn."""


class _Level:
    """What was seen with one number of requests in flight.

    Tokens read and written, and for how long each request was at it, added up over
    the requests. All of it fades with the work time that passes.
    """

    __slots__ = ("as_of_s", "fresh", "known", "output", "prompt", "read_s", "write_s")

    def __init__(self) -> None:
        self.prompt = self.output = 0.0
        self.read_s = self.write_s = 0.0
        self.as_of_s = 0.0
        self.known = self.fresh = False

    def fade(self, worked_s: float) -> None:
        """Let what was seen until now fade."""
        left = 0.5 ** ((worked_s - self.as_of_s) / _HALF_LIFE_S)
        self.as_of_s = worked_s
        self.prompt *= left
        self.output *= left
        self.read_s *= left
        self.write_s *= left

    def judge(self, requests: int) -> None:
        """Note whether enough was seen, and not too long ago."""
        seen_s = (self.read_s + self.write_s) / requests
        if seen_s >= _EVIDENCE_S:
            self.known = self.fresh = True
        elif seen_s < _STALE_S:
            self.fresh = False


class _Window:
    """What a running request has done since its last report.

    Since ``since_s`` with as many others as now, ``mixed_s`` before that with other
    numbers of them. ``read_tokens`` of its prompt are known to be computed; the latest
    ``noted`` of them, which took ``read_s``, are noted at ``read_at``.
    """

    __slots__ = (
        "mixed_s",
        "noted",
        "read_at",
        "read_s",
        "read_tokens",
        "reading",
        "since_s",
    )

    def __init__(self, entry: Entry, since_s: float) -> None:
        self.since_s = since_s
        self.mixed_s = 0.0
        self.reading = True
        self.read_tokens = _computed(entry)
        self.read_at: _Level | None = None
        self.noted = 0
        self.read_s = 0.0

    def restart(self, now: float) -> None:
        """Begin what will be reported next."""
        self.since_s, self.mixed_s = now, 0.0


class Pace:
    """Learns from the requests that run on one server.

    Every report of a request tells how many tokens it read or wrote in how much time,
    while so many were in flight. The work of a token is what it takes a request that
    is alone; ``gain(n)`` is how much of it n requests get done together in a second,
    so that it is 1 for one and does not depend on how many tokens are read and how
    many written. What was seen in reports that span several numbers of requests, or
    while others used the server past the queue, is left out.
    """

    def __init__(self, pooled: Speeds) -> None:
        """Know nothing; ``pooled`` are the speeds of all servers together."""
        self._pooled = pooled
        self._levels: dict[int, _Level] = {}
        self._windows: dict[Entry, _Window] = {}
        self._worked_s = self._looked_s = 0.0
        self._changed_s = 0.0
        self._foreign = False

    # What happens on the server

    def enter(self, entry: Entry, now: float) -> None:
        """Note that a request starts."""
        self._change(now)
        self._windows[entry] = _Window(entry, now)

    def leave(self, entry: Entry, now: float) -> None:
        """Note that a request has left."""
        self._change(now)
        del self._windows[entry]

    def disturb(self, now: float, *, foreign: bool) -> None:
        """Note whether others use the server past the queue."""
        self._change(now)
        self._foreign = foreign

    def note_read(self, entry: Entry, now: float) -> None:
        """Note that more of its prompt is counted."""
        window = self._windows[entry]
        more = _computed(entry) - window.read_tokens
        if not window.reading or more < _FEW_TOKENS:
            return
        window.read_tokens += more
        window.noted, window.read_s = more, now - window.since_s + window.mixed_s
        window.read_at = self._learn_from(window, now)
        if window.read_at is not None:
            window.read_at.prompt += more

    def note_written(self, entry: Entry, tokens: int, now: float) -> None:
        """Note further output. Its first token ends the reading."""
        window = self._windows[entry]
        if window.reading:
            self.note_read(entry, now)
            window.reading = False
            window.restart(now)
        elif level := self._learn_from(window, now):
            level.output += tokens

    def note_settled(self, entry: Entry) -> None:
        """Put right how much was read; some servers tell only in the end."""
        window = self._windows[entry]
        more = _computed(entry) - window.read_tokens
        window.read_tokens += more
        level = window.read_at
        if level is None or not more:
            return
        if window.noted + more < _FEW_TOKENS:
            more = -window.noted
            level.read_s = max(0.0, level.read_s - window.read_s)
            window.read_at = None
        window.noted += more
        level.prompt = max(0.0, level.prompt + more)

    def _learn_from(self, window: _Window, now: float) -> _Level | None:
        """End what is reported now; return where to note it, ``None`` if nowhere."""
        own_s, mixed_s = now - window.since_s, window.mixed_s
        window.restart(now)
        if self._foreign or own_s < _PURE * (own_s + mixed_s):
            return None
        requests = len(self._windows)
        level = self._levels.get(requests)
        if level is None:
            level = self._levels[requests] = _Level()
        worked_s = self._worked_s + now - self._changed_s
        if worked_s - level.as_of_s >= _LOOK_EVERY_S:
            level.fade(worked_s)
            level.judge(requests)
        if window.reading:
            level.read_s += own_s + mixed_s
        else:
            level.write_s += own_s + mixed_s
        return level

    def _change(self, now: float) -> None:
        """Note that from now on another number of requests is in flight."""
        if self._windows:
            self._worked_s += now - self._changed_s
        self._changed_s = now
        for window in self._windows.values():
            window.mixed_s += now - window.since_s
            window.since_s = now

    # What is known

    def read_s(self, tokens: int) -> float:
        """Return how long reading so many uncached tokens takes; 0 if unknown."""
        prompt, read_s, _, _ = self._sums()
        return tokens * read_s / prompt if prompt else self._pooled.prefill_s(tokens)

    def write_s(self, tokens: int, requests: int) -> float:
        """Return how long writing takes with so many in flight; 0 if unknown.

        Where that number was not seen, it is guessed from the next that was.
        """
        seen = [number for number, level in self._levels.items() if level.output]
        nearest = min(seen, key=lambda number: abs(number - requests), default=None)
        if nearest is None:
            return self._pooled.decode_s(tokens) * _slowdown(requests)
        level = self._levels[nearest]
        guess = _slowdown(requests) / _slowdown(nearest)
        return tokens * level.write_s / level.output * guess

    def gain(self, requests: int) -> float:
        """Return how much work so many get done together, as a multiple of one alone.

        0 where nothing was seen.
        """
        level = self._levels.get(requests)
        seen_s = 0.0 if level is None else level.read_s + level.write_s
        if level is None or not seen_s:
            return 0.0
        read_s, write_s = self._alone()
        return requests * (level.prompt * read_s + level.output * write_s) / seen_s

    def paying(self, slots: int) -> int:
        """Return how many in flight pay, of at most ``slots``.

        As few as are not known yet, to get to know them: first one, then two, four,
        eight, for as long as that brings nearly twice as much. Then what is in between,
        to find where one more does not pay. That one is tried again after some time,
        since nothing else would show that it does by now.
        """
        paying = 1
        while paying < slots and self._is_known(paying):
            known = (each for each in self._levels if paying < each <= slots)
            higher = min(filter(self._is_known, known), default=None)
            if higher is None:
                return min(2 * paying, slots)
            more = self.gain(higher) / self.gain(paying)
            if higher - paying > 1:
                if more < _NEARLY_ALL * higher / paying:
                    return (paying + higher) // 2
            elif more < 1 + min(_LEAST_MORE, _LEAST_PART / paying):
                return paying if self._levels[higher].fresh else higher
            paying = higher
        return paying

    def knows_writing(self) -> bool:
        """Whether an answer was seen being written here."""
        return any(level.output for level in self._levels.values())

    def look(self, now: float) -> None:
        """Let time pass for what was seen of numbers that are not in flight now."""
        worked_s = self._worked_s + (now - self._changed_s if self._windows else 0.0)
        if worked_s - self._looked_s < _LOOK_EVERY_S:
            return
        self._looked_s = worked_s
        for requests, level in self._levels.items():
            level.fade(worked_s)
            level.judge(requests)

    def _is_known(self, requests: int) -> bool:
        level = self._levels.get(requests)
        return level is not None and level.known and self.gain(requests) > 0

    def _alone(self) -> tuple[float, float]:
        """Return the seconds of a token that is read and one that is written alone.

        By the mean over all numbers where that was not seen.
        """
        prompt, read_s, output, write_s = self._sums()
        alone = self._levels.get(1)
        if alone is not None and alone.prompt:
            prompt, read_s = alone.prompt, alone.read_s
        if alone is not None and alone.output:
            output, write_s = alone.output, alone.write_s
        return read_s / (prompt or inf), write_s / (output or inf)

    def _sums(self) -> tuple[float, float, float, float]:
        levels = self._levels.values()
        return (
            sum(level.prompt for level in levels),
            sum(level.read_s for level in levels),
            sum(level.output for level in levels),
            sum(level.write_s for level in levels),
        )


def _computed(entry: Entry) -> int:
    """Return what the present run, and runs that it goes on from, had to compute."""
    return entry.counted.uncached + entry.recomputed.uncached


def _slowdown(requests: int) -> float:
    return 1 + _UNKNOWN_SLOWDOWN * (requests - 1)
