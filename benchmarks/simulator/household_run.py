"""A household's load through each of the queues, and what everybody got."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from custom_components.fair_share.admission.model import (
    DEFAULT_PROFILES,
    PreemptionRules,
    RequestRecord,
    Settings,
    Workload,
)
from custom_components.fair_share.admission.policies import POLICIES

from .front import Front, PassThrough
from .machine import Machine
from .plain_orders import RoundRobin, StrictPriority
from .queue_front import HouseholdFront
from .run import Run, Served, run
from .scenario import Client, Scenario
from .schedulers import EngineScheduler, LeastCounterFirst, NothingInAdvance
from .slot_front import SlotFront
from .watch import Service, Watch

LOOK_EVERY_S = 0.1
"""So often the queue looks at running answers while somebody waits, live too."""

type MakeFront = Callable[[Scenario, Machine], Front]


@dataclass(frozen=True, slots=True)
class Played:
    """One run of a scenario.

    ``waits_s`` by job: from its arrival until work on it began. ``records`` are the
    accounts that Fair Share's queue wrote; other queues write none.
    """

    scenario: Scenario
    run: Run
    waits_s: dict[str, float]
    services: Sequence[Service]
    records: Sequence[RequestRecord]

    def of(self, workload: Workload) -> list[Served]:
        """Return the answers to requests of one kind."""
        return [
            served
            for served in self.run.served
            if self.client(served).workload is workload
        ]

    def client(self, served: Served) -> Client:
        """Return who asked."""
        return self.scenario.clients[served.job.client]


def play(scenario: Scenario, seed: int, machine: Machine, make: MakeFront) -> Played:
    """Work one draw of a scenario off, to the last answer."""
    jobs = scenario.jobs(seed)
    front = make(scenario, machine)
    watch = Watch(front)
    done = run(jobs, machine.engine(), watch)
    return Played(
        scenario=scenario,
        run=done,
        waits_s={
            job.job_id: watch.began_s[job.job_id] - job.arrival_s
            for job in jobs
            if job.job_id in watch.began_s
        },
        services=watch.services,
        records=front.records if isinstance(front, HouseholdFront) else (),
    )


def plain_queues() -> Iterator[tuple[str, MakeFront]]:
    """Return what others put in front of an engine, by name.

    Round robin and the token counter take each kind of request of each member for a
    client of its own, which is the best that they can be configured to.
    """
    yield "pass_through", lambda _scenario, _machine: PassThrough()
    yield "round_robin", _in_slots(lambda _: RoundRobin())
    yield "strict_priority", _in_slots(_by_band)
    yield "vtc", _in_slots(_virtual_token_counter)


def our_queues(
    preemption: PreemptionRules | None,
) -> Iterator[tuple[str, MakeFront]]:
    """Return Fair Share's queue under each policy, as it is without any settings."""
    for policy in POLICIES:
        yield policy, ours(Settings(policy=policy, preemption=preemption))


def ours(settings: Settings) -> MakeFront:
    """Return Fair Share's queue with these settings."""
    return lambda scenario, machine: HouseholdFront(
        scenario.clients,
        machine.capacity(),
        settings,
        abort_s=machine.abort_s,
        look_every_s=LOOK_EVERY_S,
    )


def _in_slots(order: Callable[[Scenario], EngineScheduler]) -> MakeFront:
    return lambda scenario, machine: SlotFront(order(scenario), machine.slots)


def _by_band(scenario: Scenario) -> EngineScheduler:
    return StrictPriority(
        {
            number: DEFAULT_PROFILES[client.workload].band
            for number, client in scenario.clients.items()
        }
    )


def _virtual_token_counter(scenario: Scenario) -> EngineScheduler:
    weights = {number: each.weight for number, each in scenario.clients.items()}
    return LeastCounterFirst(lift=True, predictor=NothingInAdvance(), weights=weights)
