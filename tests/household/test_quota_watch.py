"""What is told of a quota, look by look."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from custom_components.fair_share.admission.model import QuotaWindow
from custom_components.fair_share.admission.status import WindowStatus
from custom_components.fair_share.household.quota_watch import QuotaWatch, Seen

START = datetime(2026, 11, 30, tzinfo=UTC)
DAY = WindowStatus(
    window=QuotaWindow.DAY,
    started_at=START,
    counted_from=START,
    resets_at=START + timedelta(days=1),
    used_tokens=0,
    limit_tokens=100,
)
STEADY = replace(DAY, refill_per_s=1.0)
NEXT = replace(
    DAY,
    started_at=START + timedelta(days=1),
    counted_from=START + timedelta(days=1),
    resets_at=START + timedelta(days=2),
)


def told(*windows: WindowStatus, seen: WindowStatus = DAY) -> list[object]:
    """Return what is told when these are looked at, thresholds as their percent."""
    watch = QuotaWatch(Seen.of(seen))
    return [
        event.attributes.get("percent", event.kind.value)
        for window in windows
        for event in watch.look(window)
    ]


def used(*tokens: int, window: WindowStatus = DAY) -> list[WindowStatus]:
    """Return a window after so many tokens were used."""
    return [replace(window, used_tokens=each) for each in tokens]


@pytest.mark.parametrize(
    ("tokens", "events"),
    [
        ((49,), []),
        ((50, 51), [50]),
        ((81, 79, 82), [50, 80]),  # a server's own count was a little lower
        ((100, 120), [50, 80, 90, "quota_exhausted"]),
    ],
)
def test_a_threshold_is_told_once(
    tokens: tuple[int, ...], events: list[object]
) -> None:
    assert told(*used(*tokens)) == events


def test_a_quota_that_is_refilled_tells_again_after_it_fell_by_a_tenth() -> None:
    windows = used(81, 75, 82, 69, 81, window=STEADY)
    assert told(*windows, seen=STEADY) == [50, 80, 80]


def test_a_quota_that_is_refilled_does_not_begin_anew() -> None:
    next_day = replace(NEXT, refill_per_s=1.0, used_tokens=85)
    assert told(*used(85, window=STEADY), next_day, seen=STEADY) == [50, 80]


def test_when_a_quota_is_full_again_is_told_only_for_periods() -> None:
    (window,) = used(60)
    event = next(iter(QuotaWatch(Seen.of(DAY)).look(window)))
    assert event.attributes["resets_at"] == DAY.resets_at.isoformat()
    (steady,) = used(60, window=STEADY)
    event = next(iter(QuotaWatch(Seen.of(STEADY)).look(steady)))
    assert event.attributes["resets_at"] is None


def test_a_period_that_is_used_up_at_once_tells_all() -> None:
    events = ["quota_reset", 50, 80, 90, "quota_exhausted"]
    assert told(replace(NEXT, used_tokens=100), seen=used(70)[0]) == events


def test_a_quota_that_is_new_is_no_reset() -> None:
    without = replace(DAY, limit_tokens=None, used_tokens=60)
    assert told(without, replace(DAY, used_tokens=60), seen=without) == [50]
    assert told(replace(NEXT, used_tokens=60), seen=without) == [50]
    assert told(without) == []


def test_a_smaller_quota_is_crossed_by_what_was_used_before() -> None:
    smaller = replace(DAY, limit_tokens=50, used_tokens=41)
    assert told(*used(41), smaller) == [50, 80]
