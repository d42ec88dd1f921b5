"""A plain queue in front of an engine that keeps so many requests in flight."""

from .engine import Step
from .front import FrontTotals, Orders
from .job import Job, Sequence
from .schedulers import EngineScheduler


class SlotFront:
    """Sends the next request of an order whenever one of ``slots`` is free.

    The order is one of those that are known inside engines. Out here it sees no more
    than a gateway does: the size of a prompt at the start, and tokens as they come.
    """

    def __init__(self, order: EngineScheduler, slots: int) -> None:
        """Start with nothing in flight."""
        self._order = order
        self._free = slots

    def arrive(self, job: Job) -> bool:
        """Take a job in; ``False`` when the order refuses it."""
        return self._order.append(Sequence(job), job.arrival_s)

    def orders(self, now: float) -> Orders:  # noqa: ARG002 - Front
        """Start as many as there are free slots."""
        start: list[str] = []
        while self._free and (head := self._order.head()) is not None:
            self._order.admitted()
            self._free -= 1
            start.append(head.job.job_id)
        return Orders(start=tuple(start))

    def progress(self, step: Step, now: float) -> None:  # noqa: ARG002 - Front
        """Charge the tokens that came; an end frees a slot."""
        self._order.charge(step.outputs)
        self._free += sum(sequence.ended for sequence in step.outputs)

    def totals(self) -> FrontTotals:
        """Nothing is said of fairness."""
        return FrontTotals()
