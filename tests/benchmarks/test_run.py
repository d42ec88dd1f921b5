"""The clock: arrivals, a front's orders, and what becomes of the jobs."""

import pytest

from benchmarks.simulator.artifact import ArtifactEngine, ArtifactLimits
from benchmarks.simulator.chunked import ChunkedEngine, ChunkedLimits
from benchmarks.simulator.front import Orders, PassThrough
from benchmarks.simulator.memory import PagedPool
from benchmarks.simulator.prefix_cache import PrefixCache
from benchmarks.simulator.run import run
from benchmarks.simulator.schedulers import RequestsPerMinute
from tests.benchmarks.helpers import OneSecondSteps, Script, job


def engine(cache: int = 0) -> ChunkedEngine:
    return ChunkedEngine(
        OneSecondSteps(), PagedPool(1000), ChunkedLimits(), PrefixCache(cache)
    )


def test_time_passes_by_steps_and_jumps_over_idle_spans() -> None:
    jobs = [job("a", at=1.0, output=2), job("b", at=50.5, output=1)]
    done = run(jobs, engine(), PassThrough())
    times = [
        (each.job.job_id, each.first_token_s, each.end_s, each.ttft_s)
        for each in done.served
    ]
    assert times == [("a", 2.0, 3.0, 1.0), ("b", 51.5, 51.5, 1.0)]
    assert done.end_s == 51.5


def test_an_arrival_during_a_step_waits_for_its_end() -> None:
    jobs = [job("a", output=2), job("b", at=0.25, output=1)]
    done = run(jobs, engine(), PassThrough())
    assert {each.job.job_id: each.ttft_s for each in done.served} == {
        "a": 1.0,
        "b": 1.75,
    }


def test_a_front_can_cut_an_answer_and_let_it_go_on() -> None:
    script = Script(
        {
            0: Orders(start=("a",)),
            2: Orders(start=("b",), abort=("a",)),
            4: Orders(start=("a",)),
        }
    )
    jobs = [job("a", output=4), job("b", output=2)]
    done = run(jobs, engine(cache=1000), script)
    assert [(each.job.job_id, each.end_s) for each in done.served] == [
        ("b", 4.0),
        ("a", 6.0),
    ]
    assert done.preemptions == 1
    assert done.engine.recomputed_tokens == 0
    assert max(each.longest_pause_s for each in done.served) == 3.0


def test_refusals_are_counted() -> None:
    refusing = ArtifactEngine(OneSecondSteps(), ArtifactLimits(), RequestsPerMinute(1))
    done = run([job("a"), job("b"), job("c", at=100)], refusing, PassThrough())
    assert done.rejected == 1
    assert len(done.served) == 2


def test_a_front_that_starts_nothing_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="nobody starts a"):
        run([job("a")], engine(), Script({}))
