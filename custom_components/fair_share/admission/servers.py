"""What runs on each server, and whether one more request fits there."""

from dataclasses import dataclass

from .entry import Entry
from .kv import POOL_SAFETY, Growth, peak_tokens
from .model import Request, Rule, ServerCapacity
from .status import ServerStatus
from .tree import parting

MIN_OUTPUT_TOKENS = 16
"""A request is only started where at least so much of an answer has room."""


_LEAST_P90_LEFT = 8
"""An answer that is longer than nine of ten is still given this many tokens more."""

_AFTER_EXHAUSTION = 0.9
_PER_QUIET_MINUTE = 0.01
_MOST_COMMITMENT = 1.0


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
    makes room by itself it is found by trial: a tenth less whenever the engine had to,
    one point more for each quiet minute.
    """

    def __init__(self, capacity: ServerCapacity, now: float) -> None:
        """Start with nothing running."""
        self.capacity = capacity
        self.usable = True
        self.running: dict[str, Entry] = {}
        self.blocked: Blocked | None = None
        self.held_slots = 0
        self._protects = False
        self.commitment = POOL_SAFETY
        self._quiet_since_s = now

    def note_exhausted(self, now: float) -> None:
        """Note that the engine ran out of memory and made room by itself."""
        self.commitment *= _AFTER_EXHAUSTION
        self._quiet_since_s = now

    def note_time(self, now: float) -> None:
        """Plan with more again after quiet minutes."""
        minutes = int((now - self._quiet_since_s) // 60)
        if self.capacity.survives_exhaustion and minutes > 0:
            grown = self.commitment + minutes * _PER_QUIET_MINUTE
            self.commitment = min(_MOST_COMMITMENT, grown)
            self._quiet_since_s += minutes * 60

    def room_tokens(self) -> int:
        """Return how long one sequence, prompt and output, can be at most."""
        pool = self.capacity.kv_tokens
        if pool is None:
            return self.capacity.context_tokens
        planned = int(pool * POOL_SAFETY) - self.capacity.block_tokens + 1
        return min(self.capacity.context_tokens, planned)

    def allowed_for(self, request: Request) -> bool:
        """Whether the request names this server, or none."""
        return request.servers is None or self.capacity.server_id in request.servers

    def holds(self, request: Request) -> bool:
        """Whether the request could run here if nothing else did."""
        if not self.allowed_for(request):
            return False
        output = min(MIN_OUTPUT_TOKENS, request.max_output_tokens)
        return request.prompt_tokens + output <= self.room_tokens()

    def output_bound(self, request: Request) -> int:
        """Return the output tokens that the request may have here in all."""
        return min(
            request.max_output_tokens, self.room_tokens() - request.prompt_tokens
        )

    def free_slots(self) -> int:
        """Return how many more requests can run; negative after a slot was lost.

        A held slot is still busy with a request that has left it.
        """
        return self.capacity.slots - len(self.running) - self.held_slots

    def obstacle(self, entry: Entry) -> Rule | None:
        """Return what keeps the request from starting here now, or ``None``."""
        if self.free_slots() <= 0:
            return Rule.NO_SLOT
        pool = self.capacity.kv_tokens
        if pool is None or not self.running:
            return None
        newcomer = self._growth(entry, self.output_bound(entry.request))
        peak = peak_tokens([*self._growths(), newcomer], self.capacity.block_tokens)
        return None if peak <= pool * self.commitment else Rule.NO_KV

    def begin_round(self) -> None:
        """Begin a round of choices: the first that does not fit will be protected."""
        self._protects = False

    def block(self, blocked: Blocked) -> None:
        """Note who waits for memory here: the first choice of this round."""
        if self._protects:
            return
        self._protects = True
        if self.blocked is None or self.blocked.entry is not blocked.entry:
            self.blocked = blocked

    def unblock(self, entry: Entry) -> None:
        """Note that a request does not wait any more."""
        if self.blocked is not None and self.blocked.entry is entry:
            self.blocked = None

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
        return peak_tokens(self._growths(), self.capacity.block_tokens)

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
        )

    def _growths(self) -> list[Growth]:
        return [
            self._growth(entry, entry.output_bound) for entry in self.running.values()
        ]

    def _growth(self, entry: Entry, output_bound: int) -> Growth:
        output = entry.counted.output
        held = max(entry.request.prompt_tokens, entry.prompt.prompt) + output
        left = output_bound - output
        # An engine that loses its streams when the pool is full must never be
        # planned with a guess; one that makes room by itself may be.
        if self.capacity.survives_exhaustion:
            likely = entry.leaf.predictor.p90(output_bound) - output
            left = min(left, max(likely, _LEAST_P90_LEFT))
        return Growth(held, max(left, 0))
