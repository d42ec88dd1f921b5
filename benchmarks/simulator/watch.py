"""What an onlooker at the engine sees: when work began, and who was served when."""

from dataclasses import dataclass

from .engine import Step
from .front import Front, FrontTotals, Orders
from .job import Job, Sequence
from .schedulers import INPUT_PRICE, OUTPUT_PRICE


@dataclass(frozen=True, slots=True)
class Service:
    """Weighted tokens that a client was served in a step that ended ``at_s``.

    Work that is done again after an interruption is not in it.
    """

    at_s: float
    client: int
    charge: float


class Watch:
    """A front that passes everything on and notes what came of it."""

    def __init__(self, front: Front) -> None:
        """Look at ``front``."""
        self.began_s: dict[str, float] = {}
        self.services: list[Service] = []
        self._front = front
        self._read: dict[str, int] = {}

    def arrive(self, job: Job) -> bool:
        """Take a job in; ``False`` when the front refuses it."""
        return self._front.arrive(job)

    def orders(self, now: float) -> Orders:
        """Return what the front wants."""
        return self._front.orders(now)

    def progress(self, step: Step, now: float) -> None:
        """Note what was served; work on a prompt began when its first step did."""
        for sequence in step.prompts:
            self.began_s.setdefault(sequence.job.job_id, now - step.duration_s)
            self._note(sequence, INPUT_PRICE * self._newly_read(sequence), now)
        for sequence in step.outputs:
            self._note(sequence, OUTPUT_PRICE, now)
        self._front.progress(step, now)

    def totals(self) -> FrontTotals:
        """Return what the front says of its fairness."""
        return self._front.totals()

    def _newly_read(self, sequence: Sequence) -> int:
        read = min(sequence.once_computed, sequence.job.prompt_tokens)
        before = self._read.get(sequence.job.job_id, 0)
        self._read[sequence.job.job_id] = read
        return read - before

    def _note(self, sequence: Sequence, charge: float, now: float) -> None:
        self.services.append(Service(now, sequence.job.client, charge))
