"""The schedulers of the published measurements, rule by rule."""

from collections.abc import Mapping

import pytest

from benchmarks.simulator.job import Sequence
from benchmarks.simulator.schedulers import (
    EngineScheduler,
    FirstComeFirstServed,
    LeastCounterFirst,
    MovingAverage,
    NothingInAdvance,
    Oracle,
    Predictor,
    RequestsPerMinute,
)
from tests.benchmarks.helpers import sequence


def least_counter(
    *,
    lift: bool = True,
    predictor: Predictor | None = None,
    weights: Mapping[int, float] | None = None,
) -> LeastCounterFirst:
    return LeastCounterFirst(
        lift=lift, predictor=predictor or NothingInAdvance(), weights=weights or {}
    )


def admit(scheduler: EngineScheduler) -> Sequence:
    head = scheduler.head()
    assert head is not None
    scheduler.admitted()
    return head


def order(scheduler: EngineScheduler) -> list[str]:
    admitted = []
    while scheduler.head() is not None:
        admitted.append(admit(scheduler).job.job_id)
    return admitted


def test_fcfs_keeps_the_order_of_arrival() -> None:
    scheduler = FirstComeFirstServed()
    for name in "abc":
        assert scheduler.append(sequence(name), 0.0)
    assert scheduler.counter_gap() is None
    assert order(scheduler) == ["a", "b", "c"]


def test_rpm_refuses_what_exceeds_a_sliding_minute() -> None:
    scheduler = RequestsPerMinute(2)
    accepted = [
        scheduler.append(sequence(f"{now}"), now) for now in (0, 10, 20, 60, 60.5, 71)
    ]
    # At 60 s the first still counts; a refused request never does.
    assert accepted == [True, True, False, False, True, True]


def test_rpm_counts_each_client_for_itself() -> None:
    scheduler = RequestsPerMinute(1)
    assert scheduler.append(sequence("a", client=0), 0)
    assert scheduler.append(sequence("b", client=1), 0)
    assert not scheduler.append(sequence("c", client=0), 1)


def test_the_smallest_counter_is_served_and_prompts_are_charged_at_admission() -> None:
    scheduler = least_counter()
    for name, client, prompt in (("a", 0, 100), ("b", 0, 100), ("c", 1, 250)):
        scheduler.append(sequence(name, client=client, prompt=prompt), 0)
    assert order(scheduler) == ["a", "c", "b"]


def test_an_output_token_costs_two() -> None:
    scheduler = least_counter()
    running = sequence("a", client=0, prompt=10, output=9)
    scheduler.append(running, 0)
    admit(scheduler)
    running.compute(10)
    scheduler.charge([running])
    scheduler.append(sequence("b", client=0), 0)
    scheduler.append(sequence("c", client=1), 0)
    # The newcomer is lifted to the 12 of client 0, so only the order of ids counts.
    assert scheduler.counter_gap() == 0
    scheduler.charge([running])
    assert scheduler.counter_gap() == 2


def test_a_charge_is_divided_by_the_weight() -> None:
    scheduler = least_counter(lift=False, weights={0: 4.0})
    for client in (0, 1):
        scheduler.append(sequence(f"{client}", client=client, prompt=100), 0)
        scheduler.append(sequence(f"{client}'", client=client, prompt=100), 0)
    admit(scheduler)
    admit(scheduler)
    assert scheduler.counter_gap() == 75


@pytest.mark.parametrize(("lift", "gap"), [(True, 0), (False, 100)])
def test_vtc_lifts_a_client_that_comes_back_and_lcf_does_not(
    lift: bool,  # noqa: FBT001 - the parameter of the test
    gap: float,
) -> None:
    scheduler = least_counter(lift=lift)
    scheduler.append(sequence("a", client=0, prompt=100), 0)
    scheduler.append(sequence("b", client=0, prompt=100), 0)
    admit(scheduler)
    scheduler.append(sequence("c", client=1), 0)
    assert scheduler.counter_gap() == gap


def test_nobody_is_lifted_while_nobody_waits() -> None:
    scheduler = least_counter()
    scheduler.append(sequence("a", client=0, prompt=100), 0)
    admit(scheduler)
    scheduler.append(sequence("b", client=1), 0)
    scheduler.append(sequence("c", client=0), 0)
    assert scheduler.counter_gap() == 100


def test_a_prediction_is_paid_in_advance_and_refunded() -> None:
    scheduler = least_counter(
        lift=False, predictor=Oracle(0.5, lambda _low, high: high)
    )
    running = sequence("a", client=0, prompt=10, output=4)
    scheduler.append(running, 0)
    admit(scheduler)
    assert running.predicted_output == 6
    scheduler.append(sequence("b", client=0), 0)
    scheduler.append(sequence("c", client=1), 0)
    assert scheduler.counter_gap() == 10 + 2 * 6
    running.produced = 4
    scheduler.charge([running])
    assert scheduler.counter_gap() == 10 + 2 * 4


def test_output_beyond_the_prediction_is_charged() -> None:
    scheduler = least_counter(lift=False, predictor=Oracle(0.5, lambda low, _high: low))
    running = sequence("a", client=0, prompt=10, output=4)
    scheduler.append(running, 0)
    admit(scheduler)
    scheduler.append(sequence("b", client=0), 0)
    scheduler.append(sequence("c", client=1), 0)
    for produced in (1, 2, 3, 4):
        running.produced = produced
        scheduler.charge([running])
    assert scheduler.counter_gap() == 10 + 2 * 4


def test_the_moving_average_takes_a_fifth_of_the_last_answer() -> None:
    predictor = MovingAverage()
    one = sequence(client=0)
    assert predictor.predict(one) == 0
    for produced in (100, 50):
        one.produced = produced
        predictor.observe(one)
    assert predictor.predict(one) == pytest.approx(90)
    assert predictor.predict(sequence(client=1)) == 0
