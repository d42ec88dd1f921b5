"""Several servers behind one queue, each with a clock hand of its own."""

from collections.abc import Mapping, Sequence as Ordered
from dataclasses import replace

from custom_components.fair_share.admission.model import Settings
from custom_components.fair_share.admission.placement import Placement

from .chunked import ChunkedEngine
from .engine import Step
from .job import Job, Sequence
from .machine import Machine
from .queue_front import HouseholdFront
from .run import Served
from .scenario import Scenario


class SeveralFront(HouseholdFront):
    """The queue with several servers behind it. Nothing is interrupted."""

    def __init__(
        self,
        scenario: Scenario,
        machines: Mapping[str, Machine],
        placement: Placement,
        settings: Settings,
    ) -> None:
        """Set the household up with a server for each machine."""
        capacities = [
            replace(machine.capacity(), server_id=server_id)
            for server_id, machine in machines.items()
        ]
        super().__init__(scenario.clients, capacities[0], settings, placement=placement)
        for capacity in capacities[1:]:
            self.put_server(capacity)


def run_several(
    jobs: Ordered[Job], machines: Mapping[str, Machine], front: SeveralFront
) -> dict[str, Served]:
    """Work jobs, ordered by arrival, off to the last token; return them by their id.

    Raises ``RuntimeError`` when something waits that nobody starts.
    """
    clock = _Clock(jobs, machines, front)
    while not clock.done:
        clock.tick()
    return clock.served


class _Clock:
    def __init__(
        self, jobs: Ordered[Job], machines: Mapping[str, Machine], front: SeveralFront
    ) -> None:
        self.now = 0.0
        self.served: dict[str, Served] = {}
        self._coming = list(reversed(jobs))
        self._sequences: dict[str, Sequence] = {}
        self._front = front
        self._engines: dict[str, ChunkedEngine] = {
            server_id: machine.engine() for server_id, machine in machines.items()
        }
        self._working: dict[str, tuple[float, Step]] = {}

    @property
    def done(self) -> bool:
        return not self._coming and not self._sequences

    def tick(self) -> None:
        """Go to the next arrival or end of a step, and let idle engines begin one."""
        while self._coming and self._coming[-1].arrival_s <= self.now:
            job = self._coming.pop()
            if self._front.arrive(job):
                self._sequences[job.job_id] = Sequence(job)
        for job_id in self._front.orders(self.now).start:
            engine = self._engines[self._front.places[job_id]]
            engine.submit(self._sequences[job_id], self.now)
        for server_id, engine in self._engines.items():
            if server_id not in self._working and engine.busy:
                step = engine.step()
                self._working[server_id] = (self.now + step.duration_s, step)
        self._pass_time()

    def _pass_time(self) -> None:
        moments = [end_s for end_s, _ in self._working.values()]
        if self._coming:
            moments.append(self._coming[-1].arrival_s)
        if not moments:
            raise RuntimeError(f"nobody starts {', '.join(self._sequences)}")
        self.now = min(moments)
        for server_id, (end_s, step) in list(self._working.items()):
            if end_s <= self.now:
                del self._working[server_id]
                self._report(step)

    def _report(self, step: Step) -> None:
        for sequence in step.outputs:
            sequence.note_token(self.now)
            if sequence.ended:
                self._end(sequence)
        self._front.progress(step, self.now)

    def _end(self, sequence: Sequence) -> None:
        job, first_s = sequence.job, sequence.first_token_s
        assert first_s is not None  # noqa: S101 - it has just got its last token
        del self._sequences[job.job_id]
        self.served[job.job_id] = Served(
            job, first_s, self.now, sequence.longest_pause_s
        )
