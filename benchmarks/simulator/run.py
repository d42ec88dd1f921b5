"""The virtual clock: a workload through a front and an engine, step by step."""

from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from math import inf

from .engine import Engine, EngineTotals
from .front import Front, FrontTotals
from .job import Job, Sequence


@dataclass(frozen=True, slots=True)
class Served:
    """One answer: when its first and last token came, and its longest pause."""

    job: Job
    first_token_s: float
    end_s: float
    longest_pause_s: float

    @property
    def ttft_s(self) -> float:
        """Seconds from arrival to the first token."""
        return self.first_token_s - self.job.arrival_s


@dataclass(frozen=True, slots=True)
class Run:
    """What became of a workload.

    ``preemptions`` are aborts by the front; what the engine threw out is in its totals.
    """

    served: tuple[Served, ...]
    rejected: int
    preemptions: int
    end_s: float
    engine: EngineTotals
    front: FrontTotals


def run(jobs: Ordered[Job], engine: Engine, front: Front) -> Run:
    """Work jobs, ordered by arrival, off to the last token.

    Raises ``RuntimeError`` when something waits that nobody starts.
    """
    clock = _Clock(jobs, engine, front)
    while not clock.done:
        clock.tick()
    return Run(
        served=tuple(clock.served),
        rejected=clock.rejected,
        preemptions=clock.preemptions,
        end_s=clock.now,
        engine=engine.totals,
        front=front.totals(),
    )


class _Clock:
    def __init__(self, jobs: Ordered[Job], engine: Engine, front: Front) -> None:
        self.now = 0.0
        self.served: list[Served] = []
        self.rejected = 0
        self.preemptions = 0
        self._coming = list(reversed(jobs))
        self._sequences: dict[str, Sequence] = {}
        self._engine = engine
        self._front = front

    @property
    def done(self) -> bool:
        return not self._coming and not self._sequences

    def tick(self) -> None:
        """Take arrivals in, follow the front's orders, and let the engine step."""
        while self._coming and self._coming[-1].arrival_s <= self.now:
            self._arrive(self._coming.pop())
        orders = self._front.orders(self.now)
        for job_id in orders.abort:
            self._engine.abort(job_id)
            self.preemptions += 1
        for job_id in orders.start:
            self._start(job_id)
        if self._engine.busy:
            self._step()
        elif self._coming:
            self.now = self._coming[-1].arrival_s
        elif self._sequences:
            raise RuntimeError(f"nobody starts {', '.join(self._sequences)}")

    def _arrive(self, job: Job) -> None:
        if self._front.arrive(job):
            self._sequences[job.job_id] = Sequence(job)
        else:
            self.rejected += 1

    def _start(self, job_id: str) -> None:
        sequence = self._sequences[job_id]
        if not self._engine.submit(sequence, self.now):
            del self._sequences[job_id]
            self.rejected += 1

    def _step(self) -> None:
        step = self._engine.step()
        self.now += step.duration_s
        for sequence in step.outputs:
            sequence.note_token(self.now)
            if sequence.ended:
                self._end(sequence)
        self._front.progress(step, self.now)

    def _end(self, sequence: Sequence) -> None:
        del self._sequences[sequence.job.job_id]
        first = inf if sequence.first_token_s is None else sequence.first_token_s
        self.served.append(
            Served(sequence.job, first, self.now, sequence.longest_pause_s)
        )
