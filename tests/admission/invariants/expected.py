"""What should be known of a request, followed without the scheduler."""

from dataclasses import dataclass, field

from custom_components.fair_share.admission.kv import POOL_SAFETY
from custom_components.fair_share.admission.model import (
    CostWeights,
    Request,
    ServerCapacity,
    TokenCount,
)
from custom_components.fair_share.admission.servers import MIN_OUTPUT_TOKENS

NOTHING = TokenCount()


def total(one: TokenCount, other: TokenCount) -> TokenCount:
    """Return the sum of two counts."""
    return TokenCount(
        one.uncached + other.uncached,
        one.cached + other.cached,
        one.output + other.output,
    )


def room(capacity: ServerCapacity) -> int:
    """Return how long one sequence can be at most."""
    if capacity.kv_tokens is None:
        return capacity.context_tokens
    planned = int(capacity.kv_tokens * POOL_SAFETY) - capacity.block_tokens + 1
    return min(capacity.context_tokens, planned)


def could_run(request: Request, capacity: ServerCapacity) -> bool:
    """Tell whether a server could run a request if it were alone there."""
    allowed = request.servers is None or capacity.server_id in request.servers
    least = request.prompt_tokens + min(MIN_OUTPUT_TOKENS, request.max_output_tokens)
    return allowed and least <= room(capacity)


def worst_moment(sequences: list[tuple[int, int]]) -> int:
    """Return the most tokens that sequences hold together, step by step.

    Each is given as what it holds and what it may grow by. All grow by one token in
    every step, and who is done leaves, so that the most is held when one is done.
    """
    return max(
        sum(held + step for held, left in sequences if left >= step)
        for step in {0, *(left for _, left in sequences)}
    )


@dataclass
class Expected:
    """One request. ``read`` is what it has to pay of its prompt.

    ``run_read`` is what the present run has reported of it, ``reread`` what other
    runs have read in vain or once more, ``reads_again`` whether the present run reads
    once more what is paid for.
    """

    request: Request
    costs: CostWeights = field(default_factory=CostWeights)
    server_id: str | None = None
    left: int = 0
    started: bool = False
    reads_again: bool = False
    read: TokenCount = NOTHING
    run_read: TokenCount = NOTHING
    reread: TokenCount = NOTHING
    produced: int = 0
    run_output: int = 0
    interrupted: int = 0
    losses: int = 0
    shielded: bool = False

    @property
    def in_context(self) -> int:
        """Tokens that the present run has to read."""
        return self.request.prompt_tokens + self.produced - self.run_output

    def start(self, server_id: str, left: int, costs: CostWeights) -> None:
        """Begin a run."""
        if not self.started:
            self.costs = costs
        self.started = True
        self.server_id, self.left = server_id, left
        self.reads_again = self.produced > 0
        if not self.reads_again:
            self._read_in_vain(self.read)
            self.read = NOTHING
        self.run_output = 0
        self.run_read = NOTHING
        self.shielded = False

    def report_read(self, tokens: TokenCount) -> None:
        """Read so much of the prompt in this run."""
        self.run_read = tokens
        if not self.reads_again:
            self.read = tokens

    def write(self, tokens: int) -> None:
        """Write further output."""
        if not (self.reads_again or self.run_read.prompt):
            cached = self.request.cached_tokens
            self.read = TokenCount(self.request.prompt_tokens - cached, cached)
        self.left -= tokens
        self.produced += tokens
        self.run_output += tokens

    def leave(self) -> None:
        """End a run."""
        self.server_id = None
        if self.reads_again:
            self._read_in_vain(self.run_read)
        self.run_read = NOTHING

    def _read_in_vain(self, tokens: TokenCount) -> None:
        self.reread = total(self.reread, tokens)

    @property
    def tokens(self) -> TokenCount:
        """What was delivered."""
        return TokenCount(self.read.uncached, self.read.cached, self.produced)

    @property
    def charge(self) -> float:
        """What that costs."""
        return self.costs.charge(self.read.uncached, self.read.cached, self.produced)

    def recomputed(self) -> TokenCount:
        """What was read in vain or once more, so far."""
        now = self.run_read if self.reads_again else NOTHING
        return total(self.reread, now)
