"""The four numbers that the policies aim at."""

from collections.abc import Sequence

import pytest

from benchmarks.simulator.engine import EngineTotals
from benchmarks.simulator.front import FrontTotals
from benchmarks.simulator.household_run import Played
from benchmarks.simulator.run import Run, Served
from benchmarks.simulator.scenario import Client, Flow, Scenario
from benchmarks.simulator.targets import jain, service_gap, targets
from benchmarks.simulator.watch import Service
from custom_components.fair_share.admission.model import Workload
from tests.benchmarks.helpers import job

PARENT, CHILD, VOICE = 0, 1, 2
FLOWS = [
    Flow(Client("parent", Workload.CHAT), 1.0, (1, 1), (1, 1)),
    Flow(Client("child", Workload.CHAT, weight=2.0), 1.0, (1, 1), (1, 1)),
    Flow(Client("child", Workload.VOICE, weight=2.0), 1.0, (1, 1), (1, 1)),
]


def played(
    answers: Sequence[tuple[int, float, float, float, float]],
    services: Sequence[tuple[float, int, float]] = (),
) -> Played:
    """Return a run: client, arrival, begin, first and last token of each answer."""
    served = tuple(
        Served(job(f"{number}", client=client, at=arrival_s), first_s, end_s, 0.0)
        for number, (client, arrival_s, _, first_s, end_s) in enumerate(answers)
    )
    return Played(
        scenario=Scenario(100.0, FLOWS),
        run=Run(served, 0, 0, 100.0, EngineTotals(), FrontTotals()),
        waits_s={
            f"{number}": begin_s - arrival_s
            for number, (_, arrival_s, begin_s, _, _) in enumerate(answers)
        },
        services=[Service(*each) for each in services],
        records=(),
    )


def test_service_drifts_apart_only_while_both_wait() -> None:
    waiting = [(PARENT, 0.0, 10.0, 11.0, 12.0), (CHILD, 5.0, 20.0, 21.0, 22.0)]
    services = [
        (4.0, PARENT, 1000.0),
        (6.0, PARENT, 100.0),
        (7.0, CHILD, 50.0),
        (9.0, PARENT, 30.0),
        (15.0, PARENT, 1000.0),
    ]
    # From 5 to 10 s: up by 100, down by 50 for a weight of 2, up by 30.
    assert service_gap(played(waiting, services)) == 105.0


def test_a_drift_starts_anew_where_the_waiting_was_interrupted() -> None:
    waiting = [
        (PARENT, 0.0, 10.0, 11.0, 12.0),
        (PARENT, 20.0, 30.0, 31.0, 32.0),
        (CHILD, 0.0, 25.0, 26.0, 27.0),
        (CHILD, 20.0, 40.0, 41.0, 42.0),
    ]
    services = [(5.0, PARENT, 100.0), (22.0, PARENT, 70.0), (28.0, PARENT, 40.0)]
    assert service_gap(played(waiting, services)) == 110.0


def test_nobody_drifts_apart_from_who_never_waits() -> None:
    alone = [(PARENT, 0.0, 10.0, 11.0, 12.0), (CHILD, 50.0, 50.0, 51.0, 52.0)]
    assert service_gap(played(alone, [(5.0, PARENT, 100.0)])) == 0.0


@pytest.mark.parametrize(
    ("values", "index"), [([3.0, 3.0], 1.0), ([4.0, 0.0], 0.5), ([0.0, 0.0], 1.0)]
)
def test_jain(values: list[float], index: float) -> None:
    assert jain(values) == index


def test_members_count_with_all_their_requests() -> None:
    measured = targets(
        played(
            [
                (PARENT, 0.0, 4.0, 5.0, 70.0),
                (PARENT, 0.0, 8.0, 9.0, 10.0),
                (CHILD, 0.0, 12.0, 13.0, 14.0),
                (VOICE, 0.0, 0.0, 1.0, 2.0),
                (VOICE, 0.0, 6.0, 7.0, 8.0),
                (VOICE, 0.0, 6.0, 7.0, 20.0),
            ]
        )
    )
    assert measured.jain_of_mean_waits == 1.0
    assert measured.on_time_spread == 0.25
    assert measured.voice_within_target == pytest.approx(1 / 3)
    assert measured.on_time == pytest.approx(4 / 6)
