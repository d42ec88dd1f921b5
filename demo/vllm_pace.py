"""Let a real vLLM write at a pace of its own, however fast the machine is.

vLLM loads it by its option ``--logits-processors``. A tiny model writes thousands of
tokens a second: no one could act while an answer lasts. A pause in each step takes the
processor from nobody, which a larger model would.
"""

import time

import torch
from vllm.v1.sample.logits_processor import (  # type: ignore[import-not-found]
    LogitsProcessor,
)

STEP_S = 0.01
"""The least time of a step, in which each running answer gets one token."""


class Pace(LogitsProcessor):  # type: ignore[misc]
    """Leaves the choice of tokens as it is, and waits before each."""

    def __init__(self, *_: object) -> None:
        """Take what vLLM gives to each processor; none of it is needed."""

    def is_argmax_invariant(self) -> bool:
        """Say that it is to be called at temperature 0 as well."""
        return False

    def update_state(self, batch_update: object) -> None:
        """Keep nothing about single answers."""

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Wait, and return the same."""
        time.sleep(STEP_S)
        return logits
