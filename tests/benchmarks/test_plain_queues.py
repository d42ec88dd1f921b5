"""What others put in front of an engine: turns, strict priority, so many at a time."""

from benchmarks.simulator.chunked import ChunkedEngine, ChunkedLimits
from benchmarks.simulator.job import Job
from benchmarks.simulator.memory import PagedPool
from benchmarks.simulator.plain_orders import RoundRobin, StrictPriority
from benchmarks.simulator.prefix_cache import PrefixCache
from benchmarks.simulator.run import Run, run
from benchmarks.simulator.schedulers import (
    EngineScheduler,
    FirstComeFirstServed,
    LeastCounterFirst,
    NothingInAdvance,
    RequestsPerMinute,
)
from benchmarks.simulator.slot_front import SlotFront
from benchmarks.simulator.watch import Watch
from tests.benchmarks.helpers import OneSecondSteps, job


def behind(
    order: EngineScheduler, jobs: list[Job], *, slots: int = 1
) -> tuple[Run, Watch]:
    watch = Watch(SlotFront(order, slots))
    engine = ChunkedEngine(
        OneSecondSteps(), PagedPool(10_000), ChunkedLimits(100), PrefixCache(0)
    )
    return run(jobs, engine, watch), watch


def three_of_two() -> list[Job]:
    return [
        *(job(f"0-{number}", client=0) for number in range(3)),
        *(job(f"1-{number}", client=1) for number in range(3)),
    ]


def test_no_more_run_at_once_than_there_are_slots() -> None:
    done, watch = behind(FirstComeFirstServed(), three_of_two(), slots=2)
    assert [watch.began_s[each.job.job_id] for each in done.served] == [
        *(0.0, 0.0),
        *(3.0, 3.0),
        *(6.0, 6.0),
    ]


def test_what_an_order_refuses_is_refused() -> None:
    done, _ = behind(RequestsPerMinute(1), three_of_two())
    assert done.rejected == 4


def test_round_robin_takes_turns_whatever_a_request_costs() -> None:
    jobs = [*three_of_two(), job("0-long", client=0, output=50)]
    done, _ = behind(RoundRobin(), jobs)
    assert [each.job.client for each in done.served] == [0, 1, 0, 1, 0, 1, 0]


def test_who_comes_back_has_its_turn_after_those_who_wait() -> None:
    jobs = [*three_of_two(), job("2", client=2, at=1.0), job("0-x", at=1.0)]
    done, _ = behind(RoundRobin(), jobs)
    assert [each.job.client for each in done.served][:4] == [0, 1, 0, 2]


def test_strict_priority_lets_patient_work_wait_for_as_long_as_there_is_other() -> None:
    jobs = [job(f"{number}", at=number * 2.0) for number in range(9)]
    jobs.insert(1, job("patient", client=1, at=0.5))
    done, _ = behind(StrictPriority({0: 0, 1: 3}), jobs)
    assert done.served[-1].job.job_id == "patient"


def test_the_token_counter_works_outside_of_an_engine_too() -> None:
    jobs = [job(f"0-{number}", client=0, prompt=40) for number in range(4)]
    jobs += [job(f"1-{number}", client=1, prompt=5, output=2) for number in range(4)]
    vtc = LeastCounterFirst(lift=True, predictor=NothingInAdvance(), weights={})
    done, _ = behind(vtc, jobs)
    assert [each.job.client for each in done.served] == [0, 1, 1, 1, 1, 0, 0, 0]


def test_an_onlooker_counts_every_token_of_work_once() -> None:
    done, watch = behind(FirstComeFirstServed(), [job(prompt=250, output=4)])
    assert done.end_s == 6.0
    assert sum(each.charge for each in watch.services) == 250 + 2 * 4
    assert [each.at_s for each in watch.services] == [1.0, 2.0, 3.0, 3.0, 4.0, 5.0, 6.0]


def test_orders_without_counters_say_so() -> None:
    assert RoundRobin().counter_gap() is None
    assert StrictPriority({0: 0}).counter_gap() is None
    _, watch = behind(RoundRobin(), three_of_two())
    assert watch.totals().counter_gap is None
