"""An engine as it comes: chunked prefill, preemption by recompute, abort and resume."""

import pytest

from benchmarks.simulator.chunked import ChunkedEngine, ChunkedLimits
from benchmarks.simulator.job import Sequence
from benchmarks.simulator.memory import Memory, PagedPool, SlotMemory
from benchmarks.simulator.prefix_cache import PrefixCache
from tests.benchmarks.helpers import OneSecondSteps, ids, sequence


class Machine:
    """An engine with what it is made of."""

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        step_tokens: int | None = 100,
        running: int = 10,
        cache: int = 0,
    ) -> None:
        self.times = OneSecondSteps()
        self.engine = ChunkedEngine(
            self.times,
            memory or PagedPool(1000),
            ChunkedLimits(step_tokens, running),
            PrefixCache(cache),
        )

    def take(self, *sequences: Sequence) -> None:
        for each in sequences:
            assert self.engine.submit(each, 0.0)

    def step(self) -> list[str]:
        """Step once; return the ids of those that got a token."""
        return ids(self.engine.step().outputs)


def test_a_prompt_yields_the_first_token_and_then_every_step_one() -> None:
    machine = Machine()
    machine.take(sequence("a", prompt=10, output=3))
    assert [machine.step() for _ in range(3)] == [["a"]] * 3
    assert machine.times.steps == [(10, 0, 0), (0, 1, 10), (0, 1, 11)]
    assert not machine.engine.busy


def test_a_long_prompt_is_read_in_chunks_while_others_go_on() -> None:
    machine = Machine(step_tokens=100)
    machine.take(sequence("a", prompt=50, output=9))
    machine.step()
    machine.take(sequence("b", prompt=150, output=9))
    assert machine.step() == ["a"]
    assert machine.step() == ["a", "b"]
    assert machine.times.steps[1:] == [(99, 1, 50), (51, 1, 51)]


def test_without_chunks_a_prompt_is_read_in_one_step() -> None:
    machine = Machine(step_tokens=None)
    machine.take(sequence("a", prompt=500))
    assert machine.step() == ["a"]


def test_prompts_in_progress_are_reported_until_they_are_read() -> None:
    machine = Machine(step_tokens=100)
    machine.take(sequence("a", prompt=150))
    assert [ids(machine.engine.step().prompts) for _ in range(3)] == [["a"], ["a"], []]


def test_no_more_run_than_the_limit() -> None:
    machine = Machine(running=1)
    machine.take(sequence("a", output=2), sequence("b", output=1))
    assert [machine.step() for _ in range(3)] == [["a"], ["a"], ["b"]]


def test_one_slot_serves_one_after_the_other() -> None:
    machine = Machine(SlotMemory(1, context_tokens=50))
    machine.take(sequence("a", output=2), sequence("b", output=1))
    assert [machine.step() for _ in range(3)] == [["a"], ["a"], ["b"]]


def test_the_last_admitted_is_thrown_out_and_starts_over() -> None:
    machine = Machine(PagedPool(24))
    machine.take(sequence("a", prompt=10, output=5), sequence("b", prompt=10, output=5))
    # 20 tokens after the prompts, 24 two steps later: then only one can grow.
    assert [machine.step() for _ in range(4)] == [["a", "b"]] * 3 + [["a"]]
    assert machine.engine.totals.preemptions == 1
    assert machine.step() == ["a"]
    # It reads its prompt and the three tokens of its answer again.
    assert machine.step() == ["b"]
    assert machine.times.steps[-1] == (13, 0, 0)
    assert machine.engine.totals.recomputed_tokens == 12
    assert machine.step() == ["b"]
    assert not machine.engine.busy


def test_nothing_is_admitted_in_a_step_that_threw_something_out() -> None:
    machine = Machine(PagedPool(20))
    machine.take(
        sequence("a", prompt=10, output=3),
        sequence("b", prompt=10, output=3),
        sequence("c", prompt=1, output=1),
    )
    assert [machine.step() for _ in range(3)] == [["a", "b"], ["a"], ["a"]]
    assert machine.step() == ["b", "c"]


def test_what_could_never_be_held_is_refused() -> None:
    machine = Machine(PagedPool(100))
    with pytest.raises(ValueError, match="more than the memory"):
        machine.take(sequence("a", prompt=99, output=2))


@pytest.mark.parametrize(
    ("cache", "read_again", "recomputed"),
    [(1000, 1, 0), (0, 12, 11)],
    ids=["cached", "lost"],
)
def test_an_aborted_answer_goes_on_where_it_was_cut(
    cache: int, read_again: int, recomputed: int
) -> None:
    machine = Machine(cache=cache)
    cut = sequence("a", prompt=10, output=3)
    machine.take(cut)
    machine.step()
    machine.step()
    machine.engine.abort("a")
    assert not machine.engine.busy
    machine.take(cut)
    assert machine.step() == ["a"]
    prefill, decoding, _ = machine.times.steps[-1]
    assert prefill + decoding == read_again
    assert machine.engine.totals.recomputed_tokens == recomputed
    assert cut.ended


def test_what_waits_can_be_aborted_and_what_is_unknown_not() -> None:
    machine = Machine(running=1)
    machine.take(sequence("a", output=1), sequence("b"))
    machine.engine.abort("b")
    assert machine.step() == ["a"]
    assert not machine.engine.busy
    with pytest.raises(KeyError):
        machine.engine.abort("b")
