"""The home server of the household scenario: a llama-server as it comes."""

from dataclasses import dataclass

from custom_components.fair_share.admission.model import ServerCapacity

from .chunked import ChunkedEngine, ChunkedLimits
from .memory import SlotMemory
from .prefix_cache import PrefixCache
from .profile import EngineProfile

HOME_TIMES = EngineProfile(
    prefill_s=0.022,
    prefill_token_s=0.0012,
    decode_s=0.022,
    decode_sequence_s=0.003,
    decode_context_token_s=1.3e-6,
    iteration_s=0.0,
)
"""About 800 tokens of prompts a second; 40 of one answer, 118 of four short ones.

Every token of context adds what reading its part of the KV cache takes (8B model with
grouped attention, 128 KiB a token, 100 GB/s), so that four answers to long prompts get
some 80 together.
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """Slots with memory of their own, and a batch that they share.

    ``batch_tokens`` are computed in one iteration at most, prompts in the order in
    which they came (llama-server's ``-b``); nothing can be stopped inside of one.
    ``cache_tokens`` are kept of interrupted answers: 0 is a server that always has to
    read them again.
    """

    slots: int = 4
    context_tokens: int = 4096
    batch_tokens: int = 512
    cache_tokens: int = 100_000
    abort_s: float = 0.1
    times: EngineProfile = HOME_TIMES

    def engine(self) -> ChunkedEngine:
        """Return an engine with nothing to do."""
        return ChunkedEngine(
            self.times,
            SlotMemory(self.slots, self.context_tokens),
            ChunkedLimits(self.batch_tokens, self.slots),
            PrefixCache(self.cache_tokens),
        )

    def capacity(self) -> ServerCapacity:
        """Return what a queue is told of it."""
        return ServerCapacity("server", self.slots, self.context_tokens)
