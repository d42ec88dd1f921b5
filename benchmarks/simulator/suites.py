"""The workloads of the VTC artifact (``exp_suite.py``), by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .arrivals import increasing, poisson, shifting, uniform
from .job import Job
from .trace import load_trace

REAL = "real"


@dataclass(frozen=True, slots=True)
class Suite:
    """A workload: its jobs by arrival, and the weight of every client."""

    name: str
    jobs: tuple[Job, ...]
    weights: Mapping[int, float]

    @property
    def weighted(self) -> bool:
        """Whether clients have different weights."""
        return len(set(self.weights.values())) > 1


_WEIGHTS = {"overload-weighted": {0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0}}

_DRAWN: dict[str, Callable[[], tuple[Job, ...]]] = {
    "overload": lambda: uniform((1.5, 3), duration_s=360),
    "overload-multi": lambda: uniform((0.4,) * 3 + (0.6,) * 5, duration_s=360),
    "overload-weighted": lambda: uniform((0.8, 0.8, 1.2, 1.6), duration_s=360),
    "proportional": lambda: uniform((0.25, 0.5, 1.5), duration_s=600),
    "on_off_less": lambda: uniform((0.5, 2), duration_s=600, on_off_s=60),
    "on_off_overload": lambda: uniform((2, 3), duration_s=600, on_off_s=60),
    "poisson_short_long": lambda: poisson(
        (8, 1.5), ((64, 64), (256, 256)), duration_s=600
    ),
    "poisson_short_long_2": lambda: poisson(
        (8, 1.5), ((512, 32), (32, 512)), duration_s=600
    ),
    "increase": lambda: increasing(0.5, 2, duration_s=600),
    "dist_shift": lambda: shifting(900),
}

SUITES = (*_DRAWN, REAL)


def load_suite(name: str, trace: Path | None = None) -> Suite:
    """Return a suite. Raises ``KeyError``: unknown, or real without a trace file."""
    jobs = load_trace(trace) if name == REAL and trace else _DRAWN[name]()
    equal = dict.fromkeys(sorted({job.client for job in jobs}), 1.0)
    return Suite(name, jobs, _WEIGHTS.get(name, equal))
