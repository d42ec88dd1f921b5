"""How long an engine needs for one iteration."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
import json
from pathlib import Path
from random import Random
from typing import Protocol, Self

_LEAST_SHARE = 0.5


class StepTimes(Protocol):
    """Says how long a step takes."""

    def step_s(
        self, *, prefill_tokens: int, decoding: int, context_tokens: int
    ) -> float:
        """Return the seconds of a step that computes so much."""
        ...


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """Step times in seconds, linear in what a step computes.

    The defaults are a least-squares fit to the timing file that is published with the
    VTC artifact (Llama-2-7b on an A10G; largest error 10 %, on decoding).
    """

    prefill_s: float = 0.0358
    prefill_token_s: float = 0.000213
    decode_s: float = 0.01529
    decode_sequence_s: float = 0.0002542
    decode_context_token_s: float = 2.155e-6
    iteration_s: float = 0.0025

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a profile from a JSON object with these fields; others keep defaults.

        Raises ``TypeError`` on what is not of that form, ``ValueError`` on a field
        unknown and on a negative time.
        """
        values = json.loads(path.read_text())
        if not isinstance(values, Mapping):
            raise TypeError(f"not a JSON object: {path}")
        known = {field.name for field in fields(cls)}
        for name, value in values.items():
            if name not in known:
                raise ValueError(f"unknown field of an engine profile: {name}")
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"not a number of seconds: {name}")
            if value < 0:
                raise ValueError(f"negative: {name}")
        return cls(**values)

    def step_s(
        self, *, prefill_tokens: int, decoding: int, context_tokens: int
    ) -> float:
        """Return how long a step takes.

        It computes ``prefill_tokens`` of prompts and one token for each of
        ``decoding`` sequences that hold ``context_tokens`` together. A step that does
        both is one pass over the weights and so has the larger fixed part only.
        """
        fixed_s = linear_s = 0.0
        if prefill_tokens:
            fixed_s = self.prefill_s
            linear_s += self.prefill_token_s * prefill_tokens
        if decoding:
            fixed_s = max(fixed_s, self.decode_s)
            linear_s += self.decode_sequence_s * decoding
            linear_s += self.decode_context_token_s * context_tokens
        return self.iteration_s + fixed_s + linear_s


class Jittered:
    """Step times that vary a little, as those of a machine do.

    One run of a scheduler is a matter of chance: which client's queue runs empty
    first can decide thousands of tokens. Several runs show how much.
    """

    def __init__(self, times: StepTimes, seed: int, spread: float) -> None:
        """Vary ``times`` with a relative standard deviation of ``spread``."""
        self._times = times
        self._random = Random(seed)
        self._spread = spread

    def step_s(
        self, *, prefill_tokens: int, decoding: int, context_tokens: int
    ) -> float:
        """Return the seconds of a step, varied."""
        duration_s = self._times.step_s(
            prefill_tokens=prefill_tokens,
            decoding=decoding,
            context_tokens=context_tokens,
        )
        return duration_s * max(_LEAST_SHARE, self._random.gauss(1.0, self._spread))
