"""The engine of the published measurements, step by step."""

import pytest

from benchmarks.simulator.artifact import ArtifactEngine, ArtifactLimits
from benchmarks.simulator.job import Sequence
from benchmarks.simulator.schedulers import (
    FirstComeFirstServed,
    LeastCounterFirst,
    NothingInAdvance,
    RequestsPerMinute,
)
from tests.benchmarks.helpers import OneSecondSteps, ids, sequence

EXACT = ArtifactLimits(
    pool=100, client_tokens=0, prefill=60, prompt_extra=0, cold_start_s=0
)


def engine_of(
    *sequences: Sequence, limits: ArtifactLimits = EXACT
) -> tuple[ArtifactEngine, OneSecondSteps]:
    times = OneSecondSteps()
    engine = ArtifactEngine(times, limits, FirstComeFirstServed())
    for each in sequences:
        assert engine.submit(each, 0.0)
    return engine, times


def test_a_step_reads_prompts_or_decodes() -> None:
    engine, times = engine_of(
        sequence("a", prompt=10, output=2), sequence("b", prompt=20, output=3)
    )
    assert [ids(engine.step().outputs) for _ in range(3)] == [
        ["a", "b"],
        ["a", "b"],
        ["b"],
    ]
    assert times.steps == [(30, 0, 0), (0, 2, 30), (0, 1, 21)]
    assert not engine.busy


def test_newcomers_wait_for_ten_decode_steps() -> None:
    engine, times = engine_of(sequence("a", prompt=10, output=40))
    engine.step()
    engine.submit(sequence("b", prompt=7, output=2), 1.0)
    for _ in range(11):
        engine.step()
    assert [prefill for prefill, _, _ in times.steps] == [10, *[0] * 10, 7]


def test_after_ten_steps_it_tries_at_every_step() -> None:
    engine, times = engine_of(sequence("a", prompt=10, output=40))
    for _ in range(15):
        engine.step()
    engine.submit(sequence("b", prompt=7, output=2), 15.0)
    engine.step()
    assert times.steps[-1] == (7, 0, 0)


@pytest.mark.parametrize(
    ("pool", "admitted"),
    [
        # Both together at their worst: 2 * (10 - 1) left and 2 * 11 held.
        (40, ["a"]),
        (41, ["a", "b"]),
    ],
)
def test_a_batch_must_fit_at_its_worst_moment(pool: int, admitted: list[str]) -> None:
    engine, _ = engine_of(
        sequence("a", prompt=10, output=10),
        sequence("b", prompt=10, output=10),
        limits=ArtifactLimits(
            pool=pool, client_tokens=0, prompt_extra=0, cold_start_s=0
        ),
    )
    assert ids(engine.step().outputs) == admitted


def test_every_client_in_the_batch_takes_some_of_the_pool() -> None:
    limits = ArtifactLimits(pool=43, client_tokens=2, prompt_extra=0, cold_start_s=0)
    both = [sequence(name, prompt=10, output=10) for name in ("a", "b")]
    engine, _ = engine_of(*both, limits=limits)
    assert ids(engine.step().outputs) == ["a", "b"]
    strangers = [
        sequence(f"{client}", client=client, prompt=10, output=10) for client in (0, 1)
    ]
    engine, _ = engine_of(*strangers, limits=limits)
    assert ids(engine.step().outputs) == ["0"]


def test_the_head_is_never_passed() -> None:
    engine, _ = engine_of(
        sequence("a", prompt=40, output=20),
        sequence("b", prompt=50, output=20),
        sequence("c", prompt=1, output=1),
    )
    assert ids(engine.step().outputs) == ["a"]


def test_prompts_of_one_step_are_limited_and_so_is_the_batch() -> None:
    engine, _ = engine_of(
        sequence("a", prompt=30, output=2), sequence("b", prompt=31, output=2)
    )
    assert ids(engine.step().outputs) == ["a"]
    engine, _ = engine_of(
        sequence("a"),
        sequence("b"),
        limits=ArtifactLimits(running=1, cold_start_s=0),
    )
    assert ids(engine.step().outputs) == ["a"]


def test_the_first_step_is_slow_and_prompts_are_a_little_longer() -> None:
    engine, times = engine_of(
        sequence("a", prompt=10),
        limits=ArtifactLimits(prompt_extra=2, cold_start_s=5),
    )
    assert engine.step().duration_s == 6
    assert engine.step().duration_s == 1
    assert times.steps[0] == (12, 0, 0)


def test_an_end_charges_the_whole_batch_once_more() -> None:
    scheduler = LeastCounterFirst(lift=False, predictor=NothingInAdvance(), weights={})
    engine = ArtifactEngine(OneSecondSteps(), EXACT, scheduler)
    for name, client, output in (("a", 0, 2), ("b", 1, 5)):
        engine.submit(sequence(name, client=client, output=output), 0.0)
    for client in (0, 1):
        engine.submit(sequence(f"{client}", client=client, prompt=60, output=1), 0.0)
    assert ids(engine.step().outputs) == ["a", "b"]
    assert scheduler.counter_gap() == 0
    engine.step()
    engine.step()
    # a: two charges in its only decode step; b: those two and one more.
    assert scheduler.counter_gap() == 2
    assert engine.totals.counter_gap == 10
    assert engine.totals.bound == 2 * EXACT.pool


def test_it_aborts_nothing_and_passes_refusals_on() -> None:
    engine = ArtifactEngine(OneSecondSteps(), EXACT, RequestsPerMinute(1))
    assert engine.submit(sequence("a"), 0.0)
    assert not engine.submit(sequence("b"), 1.0)
    with pytest.raises(KeyError):
        engine.abort("a")
    with pytest.raises(ValueError, match="more than the engine takes"):
        engine.submit(sequence("c", prompt=61), 2.0)
