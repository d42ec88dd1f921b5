"""What every engine of the simulator offers."""

from dataclasses import dataclass
from typing import Protocol

from .job import Sequence


@dataclass(frozen=True, slots=True)
class Step:
    """What one iteration did.

    ``prompts`` are the sequences of which a part of the prompt was computed for the
    first time, ``outputs`` those that got a token of their answer, and ``evicted`` is
    how many the engine threw out for want of memory.
    """

    duration_s: float
    prompts: tuple[Sequence, ...] = ()
    outputs: tuple[Sequence, ...] = ()
    evicted: int = 0


@dataclass(slots=True)
class EngineTotals:
    """What an engine did besides useful work, since its start.

    ``preemptions``: sequences it threw out when memory ran short.
    ``recomputed_tokens``: tokens it computed again after a preemption or an abort.
    ``counter_gap`` and ``bound``: how far the counters of waiting clients were apart
    and may be, for schedulers that have counters.
    """

    preemptions: int = 0
    recomputed_tokens: int = 0
    counter_gap: float | None = None
    bound: float | None = None


class Engine(Protocol):
    """Takes sequences in and works on them, one iteration at a time."""

    totals: EngineTotals

    @property
    def busy(self) -> bool:
        """Whether anything waits or runs."""
        ...

    def submit(self, sequence: Sequence, now: float) -> bool:
        """Take a sequence in, new or aborted before; ``False`` when it is refused.

        Raises ``ValueError`` when it could never be held.
        """
        ...

    def abort(self, job_id: str) -> None:
        """Drop a sequence, between two steps. Raises ``KeyError`` when not here."""
        ...

    def step(self) -> Step:
        """Work for one iteration."""
        ...
