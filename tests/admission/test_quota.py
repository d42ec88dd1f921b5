"""Calendar windows: local midnights, changing clocks, and what counts."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from custom_components.fair_share.admission.model import QuotaSpec, QuotaWindow
from custom_components.fair_share.admission.quota import WindowAccount, window_bounds


@pytest.mark.parametrize(
    ("zone", "moment", "start", "end"),
    [
        pytest.param(
            "Europe/Tallinn",
            "2026-11-30T12:00",
            "2026-11-29T22:00",
            "2026-11-30T22:00",
            id="east of Greenwich",
        ),
        pytest.param(
            "Asia/Tokyo",
            "2026-11-30T00:00",
            "2026-11-29T15:00",
            "2026-11-30T15:00",
            id="at midnight itself",
        ),
        pytest.param(
            "America/New_York",
            "2026-11-30T23:59",
            "2026-11-30T05:00",
            "2026-12-01T05:00",
            id="west of Greenwich",
        ),
        pytest.param(
            "Europe/Berlin",
            "2026-03-29T12:00",
            "2026-03-28T23:00",
            "2026-03-29T22:00",
            id="a day of 23 hours",
        ),
        pytest.param(
            "Europe/Berlin",
            "2026-10-25T12:00",
            "2026-10-24T22:00",
            "2026-10-25T23:00",
            id="a day of 25 hours",
        ),
        pytest.param(
            "America/Havana",
            "2026-03-08T12:00",
            "2026-03-08T05:00",
            "2026-03-09T04:00",
            id="a day without a midnight",
        ),
        pytest.param(
            "America/Havana",
            "2026-11-01T12:00",
            "2026-11-01T04:00",
            "2026-11-02T05:00",
            id="a day with two midnights",
        ),
    ],
)
def test_a_day_runs_from_local_midnight_to_local_midnight(
    zone: str, moment: str, start: str, end: str
) -> None:
    wall = datetime.fromisoformat(moment).replace(tzinfo=ZoneInfo(zone))
    expected = tuple(
        datetime.fromisoformat(each).replace(tzinfo=UTC) for each in (start, end)
    )
    assert window_bounds(QuotaWindow.DAY, wall) == expected


@pytest.mark.parametrize(
    ("window", "start", "end"),
    [
        (QuotaWindow.WEEK, "2026-10-19T00:00+02:00", "2026-10-26T00:00+01:00"),
        (QuotaWindow.MONTH, "2026-10-01T00:00+02:00", "2026-11-01T00:00+01:00"),
    ],
)
def test_weeks_begin_on_monday_and_months_on_their_first(
    window: QuotaWindow, start: str, end: str
) -> None:
    wall = datetime(2026, 10, 25, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    assert window_bounds(window, wall) == (
        datetime.fromisoformat(start),
        datetime.fromisoformat(end),
    )


def test_a_month_that_ends_in_december_is_followed_by_january() -> None:
    wall = datetime(2026, 12, 31, 12, tzinfo=UTC)
    assert window_bounds(QuotaWindow.MONTH, wall)[1] == datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "start"),
    [
        ("Europe/Berlin", "2026-03-28T12:00"),
        ("Europe/Berlin", "2026-10-24T12:00"),
        ("America/Havana", "2026-03-07T12:00"),
        ("America/Havana", "2026-10-31T12:00"),
        ("Asia/Tokyo", "2026-10-24T12:00"),
    ],
)
def test_every_day_has_just_one_reset_also_when_clocks_change(
    zone: str, start: str
) -> None:
    tz = ZoneInfo(zone)
    first_day = datetime.fromisoformat(start).replace(tzinfo=tz)
    moment = first_day.astimezone(UTC)
    account = WindowAccount(QuotaSpec(100), moment.astimezone(tz))
    resets = []
    for _ in range(4 * 24 * 4):
        moment += timedelta(minutes=15)
        resets += [moment.astimezone(tz)] * account.roll(moment.astimezone(tz))
    assert [reset.day for reset in resets] == [
        (first_day + timedelta(days=days)).day for days in range(1, 5)
    ]


def account(limit: int | None = 100) -> WindowAccount:
    spec = None if limit is None else QuotaSpec(limit)
    return WindowAccount(spec, datetime(2026, 11, 30, 12, tzinfo=UTC))


def test_a_quota_is_used_up_when_nothing_is_left() -> None:
    daily = account()
    daily.count(99)
    assert not daily.exhausted
    daily.count(1)
    assert daily.exhausted
    assert daily.status().remaining_tokens == 0


def test_granted_tokens_come_on_top_for_this_window_only() -> None:
    daily = account()
    daily.count(100)
    daily.granted_tokens += 50
    assert daily.status().remaining_tokens == 50
    assert daily.roll(datetime(2026, 12, 1, 0, 0, tzinfo=UTC))
    assert daily.status().remaining_tokens == 100


def test_without_a_quota_use_is_counted_and_nothing_is_ever_used_up() -> None:
    free = account(None)
    free.count(1_000_000)
    assert not free.exhausted
    assert free.status().used_tokens == 1_000_000
    assert free.status().remaining_tokens is None


def test_a_correction_never_leaves_less_than_nothing_used() -> None:
    daily = account()
    daily.count(10)
    daily.count(-20)
    assert daily.status().used_tokens == 0


def test_a_clock_that_steps_back_over_midnight_changes_nothing() -> None:
    daily = WindowAccount(QuotaSpec(100), datetime(2026, 12, 1, 0, 0, 1, tzinfo=UTC))
    daily.count(40)
    assert not daily.roll(datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC))
    assert not daily.roll(datetime(2026, 12, 1, 0, 0, 2, tzinfo=UTC))
    assert daily.status().used_tokens == 40


def test_a_window_of_a_wrong_future_clock_moves_back_and_keeps_what_was_used() -> None:
    daily = WindowAccount(QuotaSpec(100), datetime(2038, 1, 1, tzinfo=UTC))
    daily.count(40)
    assert not daily.roll(datetime(2026, 11, 30, 12, tzinfo=UTC))
    assert daily.status().used_tokens == 40
    assert daily.roll(datetime(2026, 12, 1, 0, 0, tzinfo=UTC))


def test_a_change_of_the_limit_keeps_what_was_used() -> None:
    daily = account()
    daily.count(60)
    daily.set_spec(QuotaSpec(50), datetime(2026, 11, 30, 13, tzinfo=UTC))
    assert daily.exhausted


def test_a_change_of_the_window_starts_a_new_count() -> None:
    daily = account()
    daily.count(60)
    daily.set_spec(
        QuotaSpec(50, QuotaWindow.WEEK), datetime(2026, 12, 1, 13, tzinfo=UTC)
    )
    assert daily.status().used_tokens == 0
    assert daily.status().started_at == datetime(2026, 11, 30, tzinfo=UTC)


def test_what_was_counted_in_an_older_window_is_not_restored() -> None:
    daily = account()
    daily.restore(datetime(2026, 11, 29, tzinfo=UTC), 70, 5)
    assert daily.status().used_tokens == 0
    daily.restore(datetime(2026, 11, 30, tzinfo=UTC), 70, 5)
    assert daily.status().used_tokens == 70
    assert daily.status().limit_tokens == 105
