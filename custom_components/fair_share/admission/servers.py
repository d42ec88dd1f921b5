"""What runs on each server, and whether one more request fits there."""

from .entry import Entry
from .kv import POOL_SAFETY, Growth, peak_tokens
from .model import Request, Rule, ServerCapacity
from .status import ServerStatus

MIN_OUTPUT_TOKENS = 16
"""A request is only started where at least so much of an answer has room."""


class Server:
    """One server: its capacity and the requests that run on it."""

    def __init__(self, capacity: ServerCapacity) -> None:
        """Start with nothing running."""
        self.capacity = capacity
        self.usable = True
        self.running: dict[str, Entry] = {}

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
        """Return the output tokens that the request may have here."""
        return min(
            request.max_output_tokens, self.room_tokens() - request.prompt_tokens
        )

    def free_slots(self) -> int:
        """Return how many more requests can run; negative after a slot was lost."""
        return self.capacity.slots - len(self.running)

    def obstacle(self, entry: Entry) -> Rule | None:
        """Return what keeps the request from starting here now, or ``None``."""
        if self.free_slots() <= 0:
            return Rule.NO_SLOT
        pool = self.capacity.kv_tokens
        if pool is None or not self.running:
            return None
        newcomer = Growth(
            entry.request.prompt_tokens,
            self._left(entry, self.output_bound(entry.request), 0),
        )
        peak = peak_tokens([*self._growths(), newcomer], self.capacity.block_tokens)
        return None if peak <= pool * POOL_SAFETY else Rule.NO_KV

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
            Growth(
                entry.prompt.prompt + entry.counted.output,
                self._left(entry, entry.output_bound, entry.counted.output),
            )
            for entry in self.running.values()
        ]

    def _left(self, entry: Entry, output_bound: int, output: int) -> int:
        # An engine that loses its streams when the pool is full must never be
        # planned with a guess; one that makes room by itself may be.
        if self.capacity.survives_exhaustion:
            output_bound = entry.leaf.predictor.p90(output_bound)
        return max(output_bound - output, 0)
