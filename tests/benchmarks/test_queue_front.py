"""Our queue on the simulator's clock."""

from benchmarks.simulator.chunked import ChunkedEngine, ChunkedLimits
from benchmarks.simulator.job import Job
from benchmarks.simulator.memory import PagedPool
from benchmarks.simulator.prefix_cache import PrefixCache
from benchmarks.simulator.queue_front import QueueFront
from benchmarks.simulator.run import Run, run
from custom_components.fair_share.admission.model import ServerCapacity
from tests.benchmarks.helpers import OneSecondSteps, job


def through_the_queue(
    jobs: list[Job], *, slots: int = 1, context: int = 1000, cuts: int = 100
) -> Run:
    front = QueueFront(
        {0: 1.0, 1: 1.0}, ServerCapacity("server", slots, context_tokens=context)
    )
    engine = ChunkedEngine(
        OneSecondSteps(), PagedPool(1000), ChunkedLimits(cuts), PrefixCache(0)
    )
    return run(jobs, engine, front)


def test_two_members_take_turns_whoever_asked_first() -> None:
    jobs = [job(f"0-{number}", client=0) for number in range(3)]
    jobs += [job(f"1-{number}", client=1) for number in range(3)]
    done = through_the_queue(jobs)
    clients = [each.job.client for each in done.served]
    assert clients == [0, 1, 0, 1, 0, 1]
    assert done.front.counter_gap is not None
    assert done.front.bound is not None
    assert done.front.counter_gap <= done.front.bound


def test_nobody_becomes_more_urgent_by_waiting() -> None:
    jobs = [job(f"0-{number}", client=0, output=100) for number in range(9)]
    jobs += [job(f"1-{number}", client=1, at=250.0, output=100) for number in range(2)]
    done = through_the_queue(jobs)
    assert [each.job.client for each in done.served[3:7]] == [1, 0, 1, 0]


def test_a_prompt_in_chunks_and_its_output_are_counted_once() -> None:
    done = through_the_queue([job(prompt=250, output=4)], cuts=100)
    assert [each.end_s for each in done.served] == [6.0]


def test_what_the_queue_refuses_never_reaches_the_engine() -> None:
    done = through_the_queue([job("a", prompt=600), job("b")], context=500)
    assert done.rejected == 1
    assert [each.job.job_id for each in done.served] == ["b"]
