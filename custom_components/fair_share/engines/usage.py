"""How many tokens an answer took, from whatever the server tells.

In this order: ``usage``, llama.cpp's ``timings``, and if there is neither, the pieces
that arrived, which is an estimate. A number that is none, that is negative, or that is
an output far beyond what was asked for, counts as not told. A part from the cache is at
most the whole prompt. Whether a prompt can have been that long only the household
knows, which measured it.
"""

from collections.abc import Mapping
from typing import Any

from .base import Usage
from .values import whole

_FAR_BEYOND = 10


class TokenMeter:
    """Follows the counts in the chunks of one answer."""

    def __init__(self, max_output_tokens: int | None = None) -> None:
        """``max_output_tokens`` is what was asked for, if that is known."""
        self._limit = max_output_tokens
        self._usage: Mapping[str, Any] = {}
        self._timings: Mapping[str, Any] = {}
        self._prompt = 0
        self._cached = 0
        self.told = 0
        """Output tokens as the server counts them."""
        self._fresh = True
        self._taken = 0

    @property
    def output(self) -> int:
        """Output tokens so far."""
        return max(self.told, self._taken)

    def chunk(self, chunk: Mapping[str, Any]) -> None:
        """Note what a chunk says, before its pieces are taken."""
        usage, timings = chunk.get("usage"), chunk.get("timings")
        if isinstance(usage, Mapping):
            self._usage = usage
            self._tell(usage.get("completion_tokens"))
        if isinstance(timings, Mapping):
            self._timings = timings
            self._tell(timings.get("predicted_n"))
        self._fresh = True

    def progress(self, total: int, cached: int) -> None:
        """Note the size of the prompt from its progress."""
        self._prompt, self._cached = total, cached

    def take(self) -> int:
        """Return how many tokens the next piece of output stands for.

        Where the server counts along, all tokens since the last piece; else one for
        the first piece of each chunk.
        """
        missing = max(0, self.told - self._taken)
        tokens = missing if self.told else int(self._fresh)
        self._fresh = False
        self._taken += tokens
        return tokens

    def usage(self) -> Usage:
        """Return the final count."""
        told = self._told_prompt()
        prompt = told or self._prompt
        return Usage(
            prompt or None,
            min(self._cached_tokens(), prompt),
            self.told or self._taken,
            estimated=not told or (not self.told and self._taken > 0),
        )

    def _tell(self, output: object) -> None:
        told = whole(output) or 0
        if self._limit is None or told <= _FAR_BEYOND * self._limit:
            self.told = max(self.told, told)

    def _told_prompt(self) -> int:
        if prompt := whole(self._usage.get("prompt_tokens")):
            return prompt
        read = whole(self._timings.get("prompt_n")) or 0
        return read + (whole(self._timings.get("cache_n")) or 0)

    def _cached_tokens(self) -> int:
        details = self._usage.get("prompt_tokens_details")
        told = details.get("cached_tokens") if isinstance(details, Mapping) else None
        for number in (whole(told), whole(self._timings.get("cache_n"))):
            if number is not None:
                return number
        return self._cached
