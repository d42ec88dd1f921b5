"""How many tokens an answer took, from whatever the server tells.

In this order: ``usage``, llama.cpp's ``timings``, and if there is neither, the pieces
that arrived, which is an estimate.
"""

from collections.abc import Mapping
from typing import Any

from .base import Usage


class TokenMeter:
    """Follows the counts in the chunks of one answer."""

    def __init__(self) -> None:
        self._usage: Mapping[str, Any] | None = None
        self._timings: Mapping[str, Any] | None = None
        self._prompt = 0
        self._cached = 0
        self._told = 0
        self._fresh = True
        self._taken = 0

    def chunk(self, chunk: Mapping[str, Any]) -> None:
        """Note what a chunk says, before its pieces are taken."""
        usage, timings = chunk.get("usage"), chunk.get("timings")
        if isinstance(usage, Mapping):
            self._usage = usage
            self._told = max(self._told, _int(usage.get("completion_tokens")))
        if isinstance(timings, Mapping):
            self._timings = timings
            self._told = max(self._told, _int(timings.get("predicted_n")))
        self._fresh = True

    def progress(self, total: int, cached: int) -> None:
        """Note the size of the prompt from its progress."""
        self._prompt, self._cached = total, cached

    def take(self) -> int:
        """Return how many tokens the next piece of output stands for.

        Where the server counts along, all tokens since the last piece; else one for
        the first piece of each chunk.
        """
        missing = max(0, self._told - self._taken)
        tokens = missing if self._told else int(self._fresh)
        self._fresh = False
        self._taken += tokens
        return tokens

    def usage(self) -> Usage:
        """Return the final count."""
        usage = self._usage
        if usage is not None and _int(usage.get("prompt_tokens")):
            return Usage(
                _int(usage.get("prompt_tokens")),
                self._cached_tokens(usage),
                self._told,
            )
        timings = self._timings
        if timings is not None:
            cached = _int(timings.get("cache_n"))
            prompt = _int(timings.get("prompt_n")) + cached
            return Usage(prompt, cached, self._told)
        return Usage(
            self._prompt, self._cached, max(self._told, self._taken), estimated=True
        )

    def _cached_tokens(self, usage: Mapping[str, Any]) -> int:
        details = usage.get("prompt_tokens_details")
        if isinstance(details, Mapping) and details.get("cached_tokens") is not None:
            return _int(details.get("cached_tokens"))
        if self._timings is not None:
            return _int(self._timings.get("cache_n"))
        return self._cached


def _int(value: object) -> int:
    return max(0, value) if isinstance(value, int) else 0
