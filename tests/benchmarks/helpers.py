"""Jobs and step times that make exact scenarios short to write."""

from collections.abc import Iterable
from typing import Any

from benchmarks.simulator.front import FrontTotals, Orders
from benchmarks.simulator.job import Job, Sequence

SECONDS_OF_A_STEP = 1.0


class OneSecondSteps:
    """Every step takes a second, whatever it computes; keeps what was asked."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int, int]] = []

    def step_s(
        self, *, prefill_tokens: int, decoding: int, context_tokens: int
    ) -> float:
        self.steps.append((prefill_tokens, decoding, context_tokens))
        return SECONDS_OF_A_STEP


class Script:
    """A front that gives prepared orders, by the number of the step."""

    def __init__(self, orders: dict[int, Orders]) -> None:
        self._orders = orders
        self._asked = -1

    def arrive(self, job: Job) -> bool:
        return True

    def orders(self, now: float) -> Orders:
        self._asked += 1
        return self._orders.get(self._asked, Orders())

    def progress(self, step: Any, now: float) -> None:
        pass

    def totals(self) -> FrontTotals:
        return FrontTotals()


def job(
    job_id: str = "a",
    *,
    client: int = 0,
    at: float = 0.0,
    prompt: int = 10,
    output: int = 3,
) -> Job:
    return Job(job_id, client, at, prompt, output)


def sequence(job_id: str = "a", **given: Any) -> Sequence:
    return Sequence(job(job_id, **given))


def ids(sequences: Iterable[Sequence]) -> list[str]:
    return [each.job.job_id for each in sequences]
