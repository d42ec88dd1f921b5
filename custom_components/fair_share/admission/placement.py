"""On which of several servers a request starts, or goes on."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import inf

from .entry import Entry
from .model import PreemptionRules
from .preemption import may_stop
from .servers import Server

_CLEARLY_SOONER = 0.8
"""The server that was preferred is kept unless the answer is done in so much less."""

_WORTH_WAITING = 2.0
"""A free server is left alone if the answer is done in half the time after a wait."""

_WORTH_MOVING = 2.0
"""A running answer moves if that saves so many times what moving it costs."""

_MOVE_S = 0.5
"""What it costs to leave a server and begin at another, beside reading again."""


@dataclass(frozen=True, slots=True)
class Move:
    """A running answer that would be done sooner on another server."""

    entry: Entry
    target: Server


class Placement:
    """Chooses where a request's answer is predicted to be done first.

    From what is being read there, what of its prompt has to be read there, and the
    likely length of its answer, at the speeds that were seen on each server. Nothing is
    known of a server's speed before the first answers, and then the one with the
    prefix is taken, else where most is free.

    A free server is not used for a request whose answer is done in half the time if it
    waits for another one. Nobody waits in vain: what is overdue starts anywhere; who
    waits counts what it keeps waiting behind it, and those who were told to wait for
    the same server in this round.
    """

    def __init__(self) -> None:
        """Start with nobody waiting."""
        self.waits_for_better: set[Entry] = set()
        self._promised_s: dict[Server, float] = {}

    def begin_round(self) -> None:
        """Begin a round of choices."""
        self.waits_for_better.clear()
        self._promised_s.clear()

    def choose(
        self, entry: Entry, fitting: Collection[Server], now: float
    ) -> Server | None:
        """Return one of the ``fitting`` servers; ``None`` if it should wait."""
        best = _keep_preferred(entry, fitting)
        if best is None or len(fitting) == len(entry.hosts) or entry.overdue_s <= now:
            return best
        busy = [server for server in entry.hosts if server not in fitting]
        better = min(busy, key=lambda server: self._later_s(entry, server))
        if finish_s(entry, best) <= _WORTH_WAITING * self._later_s(entry, better):
            return best
        promised_s = self._promised_s.get(better, 0.0)
        share_s = _alone_s(entry, better) / better.capacity.slots
        self._promised_s[better] = promised_s + share_s
        self.waits_for_better.add(entry)
        return None

    def _later_s(self, entry: Entry, server: Server) -> float:
        """Return when its class would be done if it waited for a busy server."""
        first_s = min(
            (_left_s(running, server) for running in server.running.values()),
            default=inf,
        )
        behind = len(entry.leaf.queue) - 1
        service_s = _alone_s(entry, server)
        ahead_s = self._promised_s.get(server, 0.0)
        ahead_s += behind * service_s / server.capacity.slots
        return first_s + ahead_s + service_s


def finish_s(entry: Entry, server: Server) -> float:
    """Return in how many seconds its answer would be done if it started now."""
    reading_s = sum(_unread_s(other, server) for other in server.running.values())
    return reading_s + _service_s(entry, server, server.in_flight() + 1)


def find_move(
    running: Iterable[Entry],
    servers: Collection[Server],
    rules: PreemptionRules,
    now: float,
) -> Move | None:
    """Return the running answer for which it pays most to move, if it does for any.

    Only to a server that could take it at once, where it is done clearly sooner, and
    where it saves more than twice what moving costs.
    """
    best, most_s = None, 0.0
    for entry in running:
        if not (entry.run_output and may_stop(entry, rules, now)):
            continue
        for target in servers:
            saves_s = _moving_saves_s(entry, target, now)
            if saves_s > most_s:
                best, most_s = Move(entry, target), saves_s
    return best


def _moving_saves_s(entry: Entry, target: Server, now: float) -> float:
    """Return what moving saves, after its cost; 0 if it can't or does not pay."""
    here = entry.at()
    speeds_known = here.pace.knows_writing() and target.pace.knows_writing()
    if target is here or not speeds_known or not target.could_take(entry, now):
        return 0.0
    left = entry.expected_left()
    there_s = target.pace.write_s(left, target.in_flight() + 1)
    reading_s = sum(_unread_s(other, target) for other in target.running.values())
    cost_s = _MOVE_S + reading_s + target.pace.read_s(_held_tokens(entry))
    here_s = here.pace.write_s(left, here.in_flight())
    saving_s = here_s - there_s
    clearly_s = _CLEARLY_SOONER * here_s
    if saving_s <= _WORTH_MOVING * cost_s or there_s + cost_s >= clearly_s:
        return 0.0
    return saving_s - cost_s


def _keep_preferred(entry: Entry, fitting: Collection[Server]) -> Server | None:
    best = min(
        fitting,
        key=lambda server: (finish_s(entry, server), -server.free_slots()),
        default=None,
    )
    for server in fitting:
        if server.capacity.server_id == entry.request.preferred_server:
            clearly = _CLEARLY_SOONER * finish_s(entry, server)
            return best if best and finish_s(entry, best) < clearly else server
    return best


def _left_s(running: Entry, server: Server) -> float:
    """Return how long a running request will keep its slot."""
    writing_s = server.pace.write_s(running.expected_left(), server.in_flight())
    return _unread_s(running, server) + writing_s


def _alone_s(entry: Entry, server: Server) -> float:
    """Return how long its own work takes on a server that stays as busy as it is."""
    return _service_s(entry, server, server.in_flight())


def _service_s(entry: Entry, server: Server, requests: int) -> float:
    writing_s = server.pace.write_s(entry.expected_left(), requests)
    return server.pace.read_s(_uncached_tokens(entry, server)) + writing_s


def _unread_s(running: Entry, server: Server) -> float:
    """Return how long the rest of a running request's prompt takes."""
    if running.run_output or running.reads_again:
        return 0.0
    unread = running.prompt.uncached - running.counted.uncached
    return server.pace.read_s(max(0, unread))


def _held_tokens(entry: Entry) -> int:
    return entry.request.prompt_tokens + entry.counted.output


def _uncached_tokens(entry: Entry, server: Server) -> int:
    """Return what has to be read on a server before the answer begins or goes on."""
    request, server_id = entry.request, server.capacity.server_id
    if entry.ran_on is not None:
        written = entry.counted.output > 0
        read = _held_tokens(entry) if written else entry.counted.prompt
        cached = read if server_id == entry.ran_on else 0
    elif request.preferred_server in {None, server_id}:
        cached = request.cached_tokens
    else:
        cached = 0
    cached = max(cached, request.cached.get(server_id, 0))
    return max(0, _held_tokens(entry) - cached)
