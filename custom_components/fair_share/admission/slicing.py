"""How much of a long prompt is read in one go, so that nobody else is held up.

While a server reads a prompt it writes hardly anything for others, and it can be left
only when the batch ends that it is reading. So a long prompt is read in slices, each
no longer than those may be held up who are written for on that server, or may come.
Slices cost something (the smaller, the more), so there are none where nobody minds.

Two prompts at once are not read any faster than one after the other. So on one server
the most urgent is read alone, among equals the first; and beside an answer that is
more urgent a prompt is read half of the time only.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, lcm

from .entry import Entry
from .model import Workload, WorkloadProfile
from .servers import Server

LEAST_TOKENS = 64
"""Below this the CPU's attention of llama.cpp takes another way, which costs half as
much again at 48 tokens."""

MOST_TOKENS = 2048

_LATELY_S = 600.0
"""A workload that was asked for within this time may be asked for again any moment,
unless a satellite that listens announces it each time."""

_MOST_ANNOUNCED = 32

_PATIENCE_OF_THE_QUIET = 4.0
"""So many times longer may a slice hold up a workload that has been quiet for long.

It may come all the same, and must not wait for all that a server reads in one go.
"""

_LOOK_AGAIN_S = 0.05
_LEARNING_RATE = 0.4
_LOSSES_IN_A_ROW, _LOSSES = 2, 3
_LOSES_FOR_S = 60.0


@dataclass(frozen=True, slots=True)
class Slice:
    """What a request that reads its prompt does next.

    Either it reads so many ``tokens`` more, or it does nothing for ``rest_s`` and asks
    again. With all tokens that are left it reads them as it would without slices.
    """

    tokens: int
    rest_s: float = 0.0


class Pace:
    """How long slices take on one server, learnt for each size.

    Sizes are told apart by powers of two. Larger slices cost less for each token; so
    what is not known of a size is taken from the next smaller one that is.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._per_token_s: dict[int, float] = {}

    def note(self, tokens: int, seconds: float) -> None:
        """Learn from so many tokens that were read in so many seconds.

        What is smaller than the least slice says little and is passed over.
        """
        if tokens < LEAST_TOKENS:
            return
        size = _power_of_two(tokens)
        seen = seconds / tokens
        known = self._per_token_s.get(size, seen)
        self._per_token_s[size] = known + _LEARNING_RATE * (seen - known)

    def seconds(self, tokens: int) -> float | None:
        """Return how long so many tokens will take, ``None`` before any slice."""
        known = self._per_token_s
        if not known:
            return None
        size = _power_of_two(tokens)
        nearest = max((each for each in known if each <= size), default=min(known))
        return tokens * known[nearest]

    def keeps(self, limit_s: float, tokens: int) -> bool:
        """Whether so many tokens are known to take no longer than the limit."""
        seconds = self.seconds(tokens)
        return seconds is not None and seconds <= limit_s

    def largest_within(self, limit_s: float, step: int) -> int:
        """Return the largest multiple of ``step`` that keeps the limit; at least one.

        The least that is worth a slice before anything is known.
        """
        for tokens in range(MOST_TOKENS // step * step, step, -step):
            if self.keeps(limit_s, tokens):
                return tokens
        return step


@dataclass(slots=True)
class _Known:
    """What is known of one server: its pace, and until when slices are of no use."""

    pace: Pace = field(default_factory=Pace)
    loses_until_s: float = -inf


@dataclass(slots=True)
class _Awaited:
    """When requests of one workload may come.

    Any moment for a while after one that nobody had announced. As long as all that
    come were announced, only when one is: each announcement stands for one request.
    """

    announced_until_s: deque[float] = field(
        default_factory=lambda: deque(maxlen=_MOST_ANNOUNCED)
    )
    unannounced_until_s: float = -inf

    def came(self, now: float) -> None:
        """Note that a request came."""
        self._forget(now)
        if self.announced_until_s:
            self.announced_until_s.popleft()
        else:
            self.unannounced_until_s = now + _LATELY_S

    def may_come(self, now: float) -> bool:
        """Whether one may come any moment."""
        self._forget(now)
        return bool(self.announced_until_s) or now < self.unannounced_until_s

    def _forget(self, now: float) -> None:
        while self.announced_until_s and self.announced_until_s[0] <= now:
            self.announced_until_s.popleft()


class Slicing:
    """Decides for every request that reads its prompt how it goes on."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._servers: dict[str, _Known] = {}
        self._awaited = {workload: _Awaited() for workload in Workload}

    def note_arrival(self, workload: Workload, now: float) -> None:
        """Note that a request arrived: others of its kind may follow."""
        self._awaited[workload].came(now)

    def expect(self, workload: Workload, until_s: float) -> None:
        """Be prepared for one request of this kind until then."""
        self._awaited[workload].announced_until_s.append(until_s)

    def forget_server(self, server_id: str) -> None:
        """Forget what was learnt of a server."""
        self._servers.pop(server_id, None)

    def next_slice(
        self,
        entry: Entry,
        profiles: Mapping[Workload, WorkloadProfile],
        *,
        done: int,
        total: int,
        now: float,
    ) -> Slice:
        """Return how a running request goes on that has read ``done`` of ``total``."""
        server = _server_of(entry)
        known = self._know(server)
        reading, left = entry.reading, total - done
        limit_s = self._limit_s(entry, server, profiles, now)
        useless = now < known.loses_until_s or entry.lost_slices >= _LOSSES
        if useless or reading.in_one_go or limit_s == inf:
            reading.in_slices = False
            return _reads(entry, left, now)
        short = left <= LEAST_TOKENS or known.pace.keeps(limit_s, left)
        if reading.in_slices or not short:
            reading.in_slices = True
            rest_s = _rest_s(entry, server, now)
            if rest_s > 0:
                return Slice(0, rest_s)
        if short:
            return _reads(entry, left, now)
        step = lcm(LEAST_TOKENS, server.capacity.block_tokens)
        size = known.pace.largest_within(limit_s, step)
        return _reads(entry, min(size, left), now)

    def note_slice(
        self, entry: Entry, *, tokens: int, seconds: float, lost: bool, now: float
    ) -> None:
        """Learn from a slice for which the server computed so many tokens.

        ``lost`` tells that it did not find what had been read before. Where that
        happens twice running, slices are of no use there for a while; a prompt to
        which it happens three times in all is not sliced any more.
        """
        reading, known = entry.reading, self._know(_server_of(entry))
        reading.ended_s, reading.took_s = now, seconds
        reading.read_s += seconds
        reading.lost = reading.lost + 1 if lost else 0
        entry.lost_slices += lost
        entry.keeps_read = True
        entry.end_pause(now - seconds)
        known.pace.note(tokens, seconds)
        if reading.lost >= _LOSSES_IN_A_ROW:
            known.loses_until_s = now + _LOSES_FOR_S

    def _know(self, server: Server) -> _Known:
        return self._servers.setdefault(server.capacity.server_id, _Known())

    def _limit_s(
        self,
        entry: Entry,
        server: Server,
        profiles: Mapping[Workload, WorkloadProfile],
        now: float,
    ) -> float:
        """Return how long a slice may hold up others; for ever if nobody minds."""
        limits = [
            other.leaf.profile.stall_s
            for other in server.running.values()
            if other.run_output and other is not entry
        ]
        for workload, profile in profiles.items():
            if profile.band < entry.leaf.profile.band:
                soon = self._awaited[workload].may_come(now)
                patience = 1.0 if soon else _PATIENCE_OF_THE_QUIET
                limits.append(patience * profile.stall_s)
        return min(limits, default=inf)


def _reads(entry: Entry, tokens: int, now: float) -> Slice:
    entry.reading.from_s = now
    return Slice(tokens)


def _rest_s(entry: Entry, server: Server, now: float) -> float:
    """Return for how long the request has to leave the server to others.

    Whoever has been kept from reading for too long reads one slice all the same.
    """
    reading = entry.reading
    if now - reading.ended_s > entry.leaf.profile.max_pause_s:
        return 0.0
    rank = _rank(entry, now)
    beside_more_urgent = False
    for other in server.running.values():
        if other.run_output:
            beside_more_urgent |= other.effective_band(now) < rank[0]
        elif _rank(other, now) < rank:
            return _LOOK_AGAIN_S
    if not beside_more_urgent:
        return 0.0
    return max(0.0, reading.ended_s + reading.took_s - now)


def _rank(entry: Entry, now: float) -> tuple[int, float, int]:
    return entry.effective_band(now), entry.started_s, entry.sequence


def _server_of(entry: Entry) -> Server:
    assert entry.server is not None  # noqa: S101 - only asked of running requests
    return entry.server


def _power_of_two(tokens: int) -> int:
    """Return the largest power of two that is not larger."""
    return 1 << tokens.bit_length() - 1
