"""How much KV cache running requests will need at their worst moment."""

from collections.abc import Iterable
from dataclasses import dataclass

POOL_SAFETY = 0.95
"""Share of a pool that is planned with; the rest covers what can't be known."""

LAG_TOKENS = 32
"""Tokens by which one sequence may fall behind the others while it is prefilled."""


@dataclass(frozen=True, slots=True)
class Growth:
    """One sequence: tokens it holds now, and tokens it may still grow by."""

    held_tokens: int
    left_tokens: int


def peak_tokens(
    sequences: Iterable[Growth], block_tokens: int = 1, *, lag_tokens: int = LAG_TOKENS
) -> int:
    """Return the most tokens that the sequences will hold together at any moment.

    All running sequences grow by one token a step, and a sequence that ends gives
    its memory back, so the peak is less than the sum of the final lengths: with the
    sequences ordered by what is left, it is the largest of
    ``left_n * n + held_1 + ... + held_n`` (the rule of the S-LoRA and VTC servers).
    Every sequence is taken as full blocks, and as ``lag_tokens`` longer than it is,
    since a sequence that is still prefilled falls behind the others.
    """
    ordered = sorted(sequences, key=lambda each: each.left_tokens, reverse=True)
    held = peak = 0
    for count, sequence in enumerate(ordered, start=1):
        blocks = -(-sequence.held_tokens // block_tokens)
        held += blocks * block_tokens + block_tokens - 1
        lag = lag_tokens * (count - 1)
        peak = max(peak, sequence.left_tokens * count + held + lag)
    return peak
