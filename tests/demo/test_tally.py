from math import inf

import pytest

from demo.records import Record, Tokens
from demo.tally import Tally, percentile


def _record(charge: float) -> Record:
    return Record(wait_s=0.5, ttft_s=1.0, tokens=Tokens(10, 5, 20), charge=charge)


def test_unfinished_requests_count_in_the_demand_like_the_average_of_the_others() -> (
    None
):
    tally = Tally("chat", "child", submitted=4, charge=90.0)
    tally.records = [_record(30.0), _record(50.0)]

    assert tally.demand == 160.0


def test_somebody_greedy_always_wants_more() -> None:
    assert Tally("background", "guest", greedy=True, submitted=6).demand == inf


def test_before_the_first_answer_nobody_knows_how_much_was_asked_for() -> None:
    assert Tally("chat", "child", submitted=3, charge=12.0).demand == inf


def test_who_asks_for_nothing_has_no_demand() -> None:
    assert Tally("background", "guest", greedy=True).demand == 0.0


def test_tokens_are_prompt_and_output() -> None:
    assert Tally("chat", "child", records=[_record(1.0), _record(1.0)]).tokens == 70


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], None), ([3.0], 3.0), ([1.0, 2.0, 6.0], 2.0)],
)
def test_the_middle_of_some_values(values: list[float], expected: float | None) -> None:
    assert percentile(values, 50) == expected
