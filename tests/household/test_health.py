"""When a server is left out, for how long, and what does not count against it."""

import pytest

from custom_components.fair_share.household.health import Breaker, Fault

SUSPECT, CERTAIN = Fault.SUSPECT, Fault.CERTAIN


def opened(breaker: Breaker, now: float = 0.0) -> Breaker:
    """Return the breaker after two requests failed."""
    breaker.note_fault(SUSPECT, "one", now)
    assert breaker.note_fault(SUSPECT, "two", now)
    return breaker


def test_a_server_is_trusted_at_first() -> None:
    breaker = Breaker()
    assert (breaker.is_open(0.0), breaker.left_s(0.0), breaker.on_trial) == (
        False,
        0.0,
        False,
    )


def test_one_request_that_fails_however_often_shuts_nobody_out() -> None:
    breaker = Breaker()
    assert not any(breaker.note_fault(SUSPECT, "one", now) for now in range(9))
    assert not breaker.is_open(9.0)


def test_two_requests_that_fail_in_a_row_open_it() -> None:
    breaker = opened(Breaker(), 3.0)
    assert breaker.is_open(3.0)
    assert breaker.left_s(4.0) == 4.0


def test_two_requests_with_an_answer_between_them_open_nothing() -> None:
    breaker = Breaker()
    breaker.note_fault(SUSPECT, "one", 0.0)
    breaker.note_success()
    assert not breaker.note_fault(SUSPECT, "two", 1.0)


def test_a_refused_connection_opens_it_at_once() -> None:
    breaker = Breaker()
    assert breaker.note_fault(CERTAIN, "one", 0.0)
    assert breaker.is_open(4.9)
    assert not breaker.is_open(5.0)


def test_what_was_sent_before_it_opened_counts_no_more() -> None:
    breaker = opened(Breaker())
    assert not breaker.note_fault(CERTAIN, "three", 1.0)
    assert breaker.left_s(1.0) == 4.0


def test_every_failed_trial_doubles_the_pause_up_to_five_minutes() -> None:
    breaker, now, pauses = opened(Breaker()), 0.0, []
    for number in range(9):
        pauses.append(breaker.left_s(now))
        now += breaker.left_s(now)
        assert breaker.on_trial
        assert breaker.note_fault(SUSPECT, f"trial {number}", now)
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300, 300]


def test_a_trial_that_only_the_suspect_itself_fails_proves_nothing() -> None:
    breaker = opened(Breaker())
    assert not breaker.note_fault(SUSPECT, "two", 6.0)


def test_an_answer_makes_good_for_everything() -> None:
    breaker = opened(Breaker())
    breaker.note_success()
    assert not breaker.on_trial
    assert not breaker.is_open(0.0)
    assert opened(breaker, 10.0).left_s(10.0) == 5.0


@pytest.mark.parametrize("per_minute", [1, 60, 6000])
def test_however_much_is_asked_a_failing_server_gets_a_handful_in_ten_minutes(
    per_minute: int,
) -> None:
    breaker, sent = Breaker(), 0
    for number in range(10 * per_minute):
        now = number * 60 / per_minute
        open_ = breaker.is_open(now)
        sent += not open_
        _ = open_ or breaker.note_fault(SUSPECT, str(number), now)
    assert sent <= 8
