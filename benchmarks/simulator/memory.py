"""Where sequences keep their KV cache: a pool of pages, or slots of equal size."""

from typing import Protocol


class Memory(Protocol):
    """KV memory of an engine, counted in tokens."""

    @property
    def longest_tokens(self) -> int:
        """The most tokens that one sequence can hold."""
        ...

    def reserve(self, job_id: str, tokens: int) -> bool:
        """Let a sequence hold so many tokens in all; ``False``: there is no room."""
        ...

    def free(self, job_id: str) -> None:
        """Give back all that a sequence holds."""
        ...


class PagedPool:
    """A pool that all sequences share, handed out in blocks."""

    def __init__(self, tokens: int, block_tokens: int = 1) -> None:
        """Start with every block free."""
        self._block_tokens = block_tokens
        self._blocks = tokens // block_tokens
        self._free_blocks = self._blocks
        self._held: dict[str, int] = {}

    @property
    def longest_tokens(self) -> int:
        """The most tokens that one sequence can hold."""
        return self._blocks * self._block_tokens

    def reserve(self, job_id: str, tokens: int) -> bool:
        """Let a sequence hold so many tokens in all; ``False``: there is no room."""
        held = self._held.get(job_id, 0)
        needed = max(-(-tokens // self._block_tokens) - held, 0)
        if needed > self._free_blocks:
            return False
        self._free_blocks -= needed
        self._held[job_id] = held + needed
        return True

    def free(self, job_id: str) -> None:
        """Give back all that a sequence holds."""
        self._free_blocks += self._held.pop(job_id, 0)


class SlotMemory:
    """So many slots with memory of their own (llama.cpp without a unified cache)."""

    def __init__(self, slots: int, context_tokens: int) -> None:
        """Start with every slot free."""
        self._slots = slots
        self._context_tokens = context_tokens
        self._taken: set[str] = set()

    @property
    def longest_tokens(self) -> int:
        """The most tokens that one sequence can hold."""
        return self._context_tokens

    def reserve(self, job_id: str, tokens: int) -> bool:
        """Let a sequence hold so many tokens in all; ``False``: there is no room."""
        if tokens > self._context_tokens:
            return False
        if job_id not in self._taken and len(self._taken) >= self._slots:
            return False
        self._taken.add(job_id)
        return True

    def free(self, job_id: str) -> None:
        """Give back all that a sequence holds."""
        self._taken.discard(job_id)
