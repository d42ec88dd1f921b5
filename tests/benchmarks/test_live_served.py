"""What counts as done, waited and shared in the benchmarks before real servers."""

from typing import Any

import pytest

from benchmarks.live import served as module
from benchmarks.live.mixed_load import Observed
from benchmarks.live.observing import Ran
from benchmarks.live.prefill import seen_meanwhile
from benchmarks.live.rows import background_tokens_per_s, shares_of, side_of
from benchmarks.live.served import Served
from custom_components.fair_share.admission.model import TokenCount, Workload
from custom_components.fair_share.engines.base import (
    Content,
    Delta,
    Finish,
    FinishReason,
    PromptProgress,
    Usage,
)

END = Finish(FinishReason.LENGTH)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes a request of deltas, each with the second at which it came."""

    def tell(
        *deltas: tuple[float, Delta],
        workload: Workload = Workload.BACKGROUND,
        member: str = "parent",
        asked: float = 0.0,
        fresh: bool = True,
        error: str | None = None,
    ) -> Served:
        request = Served(workload, member, 100, fresh=fresh, asked_s=asked, error=error)
        for at_s, delta in deltas:
            monkeypatch.setattr(module, "monotonic", lambda at_s=at_s: at_s)
            request.note(delta)
            request.ended_s = at_s
        return request

    return tell


def test_between_two_messages_a_prompt_is_taken_to_be_read_evenly(told: Any) -> None:
    request = told(
        (10.0, PromptProgress(100, 0, 0)),
        (14.0, PromptProgress(100, 0, 100)),
        (15.0, Content("a", 2)),
    )
    assert request.done_by(9.0) == TokenCount()
    assert request.done_by(11.0) == TokenCount(25, 0, 0)
    assert request.done_by(14.5) == TokenCount(100, 0, 1)
    assert request.done_by(99.0) == TokenCount(100, 0, 2)


def test_what_is_read_again_after_an_interruption_counts_once(told: Any) -> None:
    request = told(
        (1.0, PromptProgress(100, 0, 100)),
        (2.0, Content("a", 5)),
        (3.0, PromptProgress(105, 0, 0)),
        (4.0, PromptProgress(105, 0, 105)),
        (5.0, Content("b", 5)),
    )
    assert request.done_by(5.0) == TokenCount(100, 0, 10)


def test_a_prompt_that_no_cache_can_know_is_uncached_whatever_is_told(
    told: Any,
) -> None:
    deltas = (
        (1.0, PromptProgress(100, 80, 80)),
        (2.0, Content("a")),
        (3.0, Usage(100, 80, 1)),
    )
    assert told(*deltas).done_by(9.0) == TokenCount(100, 0, 1)
    assert told(*deltas, fresh=False).done_by(9.0) == TokenCount(20, 80, 1)


def test_an_answer_is_whole_with_its_end_and_all_its_tokens(told: Any) -> None:
    text, usage = (1.0, Content("a", 3)), (2.0, Usage(100, 0, 3))
    assert told(text, usage, (3.0, END)).whole_with(3)
    assert not told(text, usage, (3.0, END)).whole_with(4)
    assert not told(text, usage).whole_with(3)


def test_a_command_that_still_waits_counts_with_its_wait_until_the_end(
    told: Any,
) -> None:
    voice = {"workload": Workload.VOICE}
    seen = Observed(
        10.0,
        20.0,
        (
            told((5.0, Content("before")), asked=4.0, **voice),
            told((13.0, Content("a")), asked=12.0, **voice),
            told((23.0, Content("late")), asked=17.0, **voice),
            told(asked=18.0, **voice),
        ),
    )
    assert seen.waits_s(Workload.VOICE) == [1.0, 3.0, 2.0]
    assert seen.still_waiting(Workload.VOICE) == 2


def test_rows_count_what_was_done_and_what_failed_in_the_window(told: Any) -> None:
    summary = told(
        (8.0, PromptProgress(100, 0, 0)),
        (12.0, PromptProgress(100, 0, 100)),
        (14.0, Content("a", 10)),
        (15.0, Usage(100, 0, 10)),
        (15.0, END),
    )
    lost = (11.0, PromptProgress(100, 0, 0))
    failed = told(lost, error="StreamCutError", member="child")
    seen = Observed(10.0, 20.0, (summary, failed))
    # Half of the prompt was read before.
    assert background_tokens_per_s(seen) == pytest.approx((50 + 10) / 10)
    row = side_of([Ran(seen, preemptions=3, recomputed=7), Ran(seen, 5, 9), Ran(seen)])
    assert (row.failed, row.summaries_done) == (3, 1)
    assert (row.preemptions, row.recomputed_tokens) == (4, 8)
    assert row.chat_ttft_p50_s is None


def test_shares_are_of_weighted_tokens(told: Any) -> None:
    parent = told((1.0, PromptProgress(100, 0, 0)), (2.0, Content("a", 50)))
    child = told(
        (1.0, PromptProgress(100, 0, 0)), (2.0, Content("a", 0)), member="child"
    )
    shares = shares_of([Observed(0.0, 9.0, (parent, child))])
    assert shares["parent"].share == pytest.approx(200 / 300)
    assert shares["child"].share == pytest.approx(100 / 300)
    assert {share.entitled for share in shares.values()} == {0.5}


def test_gaps_count_from_the_long_prompt_until_it_is_read() -> None:
    side = seen_meanwhile([0.0, 1.0, 1.1, 3.1, 3.2, 9.9], 1.05, 3.15)
    assert side.gap_max_ms == pytest.approx(2000)
    assert side.prefill_s == pytest.approx(2.1)
    assert side.voice_tokens_per_s == pytest.approx(2 / 2.1)
    assert seen_meanwhile([0.0], 1.0, 3.0).gap_max_ms == pytest.approx(2000)
