"""What stands between clients and an engine, as the clock of the simulator sees it."""

from dataclasses import dataclass
from typing import Protocol

from .engine import Step
from .job import Job


@dataclass(frozen=True, slots=True)
class Orders:
    """Jobs to start at the engine, new or aborted before, and jobs to abort there.

    An aborted job goes on where it was cut when it is started again.
    """

    start: tuple[str, ...] = ()
    abort: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FrontTotals:
    """How far the accounts of waiting clients were apart, and may be."""

    counter_gap: float | None = None
    bound: float | None = None


class Front(Protocol):
    """A queue in front of an engine."""

    def arrive(self, job: Job) -> bool:
        """Take a job in; ``False`` when it is refused."""
        ...

    def orders(self, now: float) -> Orders:
        """Return what the engine has to do now. Asked before every step."""
        ...

    def progress(self, step: Step, now: float) -> None:
        """Learn what a step did that has just ended."""
        ...

    def totals(self) -> FrontTotals:
        """Return what it says of its own fairness."""
        ...


class PassThrough:
    """No queue at all: everything goes to the engine at once."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._arrived: list[str] = []

    def arrive(self, job: Job) -> bool:
        """Take a job in."""
        self._arrived.append(job.job_id)
        return True

    def orders(self, now: float) -> Orders:  # noqa: ARG002 - Front
        """Start all that arrived."""
        arrived, self._arrived = tuple(self._arrived), []
        return Orders(start=arrived)

    def progress(self, step: Step, now: float) -> None:
        """Learn nothing."""

    def totals(self) -> FrontTotals:
        """There are no accounts."""
        return FrontTotals()
