"""The published measure of fairness, on answers made up for it."""

import pytest

from benchmarks.simulator.engine import EngineTotals
from benchmarks.simulator.front import FrontTotals
from benchmarks.simulator.job import Job
from benchmarks.simulator.metrics import (
    lightest,
    measure,
    percentile,
    service_differences,
)
from benchmarks.simulator.run import Run, Served

EQUAL = {0: 1.0, 1: 1.0}


def served(
    client: int, at: float, first: float, end: float, *, output: int = 100
) -> Served:
    return Served(Job(f"{client}-{at}", client, at, 100, output), first, end, 0.0)


def steady(client: int, *, every: int, output: int = 100) -> list[Served]:
    """Answers from arrival to the next one's arrival, for 700 s."""
    return [
        served(client, float(at), float(at), float(at + every), output=output)
        for at in range(0, 700, every)
    ]


def test_equal_service_makes_no_difference() -> None:
    both = steady(0, every=10) + steady(1, every=10)
    assert service_differences(both, EQUAL) == pytest.approx([0.0] * 19)


def test_the_difference_is_what_the_other_got_more() -> None:
    # 300 weighted tokens in 10 s against 300 in 20 s; client 1 asked for 30 a second.
    asked = [served(1, float(at), 1e6, 2e6) for at in range(5, 700, 20)]
    got = steady(0, every=10) + steady(1, every=20) + asked
    assert service_differences(got, EQUAL)[5] == pytest.approx(15.0)


def test_nobody_is_owed_what_he_did_not_ask_for() -> None:
    got = steady(0, every=10) + steady(1, every=20)
    assert max(service_differences(got, EQUAL)) < 6.0


def test_weights_divide_service_and_demand() -> None:
    got = steady(0, every=10) + steady(1, every=10, output=250)
    assert max(service_differences(got, {0: 1.0, 1: 2.0})) == pytest.approx(0.0)


def test_an_answer_of_one_token_takes_no_time_and_is_no_service() -> None:
    at_once = [served(0, 60.0, 61.0, 61.0)]
    assert service_differences(at_once, {0: 1.0})[1] == 0.0


def test_the_lightest_client_asks_for_least_for_its_weight() -> None:
    jobs = [
        Job(f"{client}-{number}", client, 0.0, 100, 100)
        for client, count in ((0, 60), (1, 40), (2, 3))
        for number in range(count)
    ]
    # Three requests are too few for a percentile.
    assert lightest(jobs, {0: 1.0, 1: 1.0, 2: 1.0}) == 1
    assert lightest(jobs, {0: 2.0, 1: 1.0, 2: 1.0}) == 0


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([], 0.5, None),
        ([3.0], 0.95, 3.0),
        ([4.0, 1.0, 3.0, 2.0], 0.5, 2.0),
        (list(range(1, 101)), 0.95, 95),
    ],
)
def test_a_percentile_is_one_of_the_values(
    values: list[float], share: float, expected: float | None
) -> None:
    assert percentile(values, share) == expected


def test_a_row_prefers_the_queue_in_front_to_the_engine() -> None:
    jobs = [each.job for each in steady(0, every=10)]
    done = Run(
        served=tuple(steady(0, every=10)),
        rejected=2,
        preemptions=3,
        end_s=1000.0,
        engine=EngineTotals(preemptions=4, counter_gap=5.0, bound=6.0),
        front=FrontTotals(counter_gap=7.0, bound=8.0),
    )
    row = measure(done, jobs, {0: 1.0})
    assert row.tokens_per_s == pytest.approx(70 * 200 / 1000)
    assert (row.counter_gap, row.bound) == (7.0, 8.0)
    assert (row.rejected, row.preemptions, row.engine_preemptions) == (2, 3, 4)
