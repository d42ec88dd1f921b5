"""What runs on each server, and whether one more request fits there."""

from dataclasses import dataclass

from .concurrency import Pace
from .entry import Entry
from .kv import LAG_TOKENS, POOL_SAFETY, Growth, peak_tokens
from .model import OUTSIDE_ID, Request, Rule, ServerCapacity
from .node import parting
from .speed import Speeds
from .status import ServerStatus

MIN_OUTPUT_TOKENS = 16
"""A request is only started where at least so much of an answer has room."""

_PER_EXHAUSTION = -0.01
_PER_END = 0.0005
_LEAST_COMMITMENT, _MOST_COMMITMENT = 0.5, 1.1


@dataclass(slots=True)
class Blocked:
    """A request that was chosen but waits for memory.

    Others may overtake it as long as that does not put their side ahead of its own by
    more than ``allowance`` (weighted tokens per weight). A budget for each blocked
    request would not do: the next one of the same member would be overtaken again.
    """

    entry: Entry
    allowance: float


class Server:
    """One server: its capacity and the requests that run on it.

    ``commitment`` is the part of a shared pool that is planned with. Where the engine
    makes room by itself it is found by trial: one point less whenever the engine had
    to, one more for every twenty requests that ended. It so settles where the engine
    throws out one in twenty: to read those again costs less than memory that is free.
    ``trusted``: it has answered since it was opened again; before that it gets one
    request at a time, since one that fails fast would otherwise get them all.
    """

    def __init__(self, capacity: ServerCapacity, speeds: Speeds) -> None:
        """Start with nothing running; ``speeds`` are those of all servers."""
        self.capacity = capacity
        self.pace = Pace(speeds)
        self.usable = True
        self.trusted = True
        self.running: dict[str, Entry] = {}
        self.blocked: Blocked | None = None
        self.held_slots = 0
        self.foreign_running = 0
        self.foreign_tokens = 0
        self._protects = False
        self.commitment = POOL_SAFETY

    def open(self, capacity: ServerCapacity) -> None:
        """Let requests start, on trial if the server was closed."""
        self.trusted = self.trusted and self.usable
        self.capacity = capacity
        self.usable = True

    def note_read(self, entry: Entry, now: float) -> None:
        """Note that more of a prompt was read, which shows that the server works."""
        self.trusted = True
        self.pace.note_read(entry, now)

    def note_written(self, entry: Entry, tokens: int, now: float) -> None:
        """Note further output of a request, which shows that the server works."""
        self.trusted = True
        self.pace.note_written(entry, tokens, now)

    def put_foreign(self, running: int, kv_tokens: int, now: float) -> None:
        """Note what runs here past the queue."""
        self.foreign_running = running
        self.foreign_tokens = kv_tokens
        self.pace.disturb(now, foreign=running > 0)

    def note_exhausted(self, times: int = 1) -> None:
        """Note that the engine ran out of memory and made room by itself."""
        self._commit(times * _PER_EXHAUSTION)

    def note_ended(self) -> None:
        """Note that a request has left; plan with a little more."""
        if self.capacity.survives_exhaustion:
            self._commit(_PER_END)

    def _commit(self, more: float) -> None:
        self.commitment = min(
            _MOST_COMMITMENT, max(_LEAST_COMMITMENT, self.commitment + more)
        )

    def room_tokens(self) -> int:
        """Return how long one sequence, prompt and output, can be at most."""
        pool = self.capacity.kv_tokens
        if pool is None:
            return self.capacity.context_tokens
        planned = int(pool * POOL_SAFETY) - self.capacity.block_tokens + 1
        return min(self.capacity.context_tokens, planned)

    def allowed_for(self, request: Request) -> bool:
        """Whether the request names this server, or none."""
        is_outside = self.capacity.server_id == OUTSIDE_ID
        if is_outside or request.outside:
            return is_outside and request.outside
        return request.servers is None or self.capacity.server_id in request.servers

    def holds(self, request: Request, written: int = 0) -> bool:
        """Whether the request could run here if nothing else did.

        With what was ``written`` of its answer before, and one token more of it.
        """
        if not self.allowed_for(request):
            return False
        least = written + 1 if written else MIN_OUTPUT_TOKENS
        output = min(least, request.max_output_tokens)
        return request.prompt_tokens + output <= self.room_tokens()

    def output_bound(self, request: Request) -> int:
        """Return the output tokens that the request may have here in all."""
        return min(
            request.max_output_tokens, self.room_tokens() - request.prompt_tokens
        )

    def free_slots(self) -> int:
        """Return how many more requests can run; 0 also if there are too many.

        A held slot is still busy with a request that has left it. Foreign requests
        are those that somebody sent past the queue.
        """
        if self.running and not self.trusted:
            return 0
        busy = self.in_flight() + self.held_slots
        return max(0, self.capacity.slots - busy)

    def in_flight(self) -> int:
        """Return how many requests run, also past the queue."""
        return len(self.running) + self.foreign_running

    def pays(self, more: int = 1) -> bool:
        """Whether so many more requests that are not urgent may be in flight."""
        limit = self.capacity.patient_slots
        if limit is None:
            if not self.capacity.learns:
                return True
            limit = self.pace.paying(self.capacity.slots)
        return not self.running or self.in_flight() + more <= max(limit, 1)

    def could_take(self, entry: Entry, now: float) -> bool:
        """Whether a request that runs elsewhere could go on here at once."""
        return (
            self.usable
            and self.blocked is None
            and self.holds(entry.request, entry.counted.output)
            and self.obstacle(entry, patient=entry.is_patient(now)) is None
        )

    def obstacle(self, entry: Entry, *, patient: bool) -> Rule | None:
        """Return what keeps the request from starting here now, or ``None``.

        ``patient``: it is started only if one more in flight pays.
        """
        if self.free_slots() <= 0:
            return Rule.NO_SLOT
        if patient and not self.pays():
            return Rule.NOT_PAYING
        pool = self.capacity.kv_tokens
        if pool is None or not (self.running or self.foreign_tokens):
            return None
        newcomer = self._growth(entry, self.output_bound(entry.request))
        peak = self._peak([*self._growths(), newcomer])
        room = pool * self.commitment - self.foreign_tokens
        return None if peak <= room else Rule.NO_KV

    def begin_round(self, now: float) -> None:
        """Begin a round of choices: the first that does not fit will be protected."""
        self._protects = False
        self.pace.look(now)

    def block(self, blocked: Blocked) -> bool:
        """Note who waits for memory here: the first choice of this round.

        Returns whether that is somebody else than before, or with another allowance.
        """
        changed = not self._protects and blocked != self.blocked
        if changed:
            self.blocked = blocked
        self._protects = True
        return changed

    def unblock(self, entry: Entry) -> bool:
        """Note that a request does not wait for memory any more; return if it did."""
        if self.blocked is None or self.blocked.entry is not entry:
            return False
        self.blocked = None
        return True

    def may_overtake(self, entry: Entry, cost: float) -> bool:
        """Whether a request may start although another one waits for memory."""
        blocked = self.blocked
        if blocked is None or blocked.entry is entry:
            return True
        ours, theirs = parting(entry.leaf.path, blocked.entry.leaf.path)
        return ours.counter + cost / ours.weight - theirs.counter <= blocked.allowance

    def overtakes(self, entry: Entry) -> bool:
        """Whether a request that starts leaves behind one that waits for memory."""
        return self.blocked is not None and self.blocked.entry is not entry

    def committed_tokens(self) -> int:
        """Return the most tokens that the running requests will hold together."""
        return self._peak(self._growths())

    def status(self) -> ServerStatus:
        """Return a snapshot."""
        return ServerStatus(
            server_id=self.capacity.server_id,
            slots=self.capacity.slots,
            running=len(self.running),
            context_tokens=self.capacity.context_tokens,
            kv_tokens=self.capacity.kv_tokens,
            kv_committed_tokens=self.committed_tokens(),
            usable=self.usable,
            foreign=self.foreign_running,
        )

    def _growths(self) -> list[Growth]:
        return [
            self._growth(entry, entry.output_bound) for entry in self.running.values()
        ]

    def _growth(self, entry: Entry, output_bound: int) -> Growth:
        output = entry.counted.output
        held = max(entry.request.prompt_tokens, entry.prompt.prompt) + output
        # An engine that loses its streams when the pool is full must never be
        # planned with a guess; one that makes room by itself may be.
        if self.capacity.survives_exhaustion:
            left = entry.leaf.predictor.left(output, output_bound)
        else:
            left = max(output_bound - output, 0)
        return Growth(held, left)

    def _peak(self, growths: list[Growth]) -> int:
        lag = 0 if self.capacity.survives_exhaustion else LAG_TOKENS
        return peak_tokens(growths, self.capacity.block_tokens, lag_tokens=lag)
