"""Another quota at bedtime."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from freezegun.api import FrozenDateTimeFactory
from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
from homeassistant.util import dt as dt_util
import pytest
from pytest_homeassistant_custom_component.common import (
    async_capture_events,
    async_fire_time_changed,
)

from custom_components.fair_share.household.runtime import Household
from tests.platforms.blueprints.from_blueprint import automate, restart

type GoTo = Callable[[int, str], Awaitable[None]]

NAME = "bedtime_quota"
USUAL, BEDTIME = 20000, 500
DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


def _quota(household: Household) -> int | None:
    return household.node_status("child").window.limit_tokens


@pytest.fixture
def go_to(hass: HomeAssistant, freezer: FrozenDateTimeFactory) -> GoTo:
    """Let it become a local time of the week that begins on 2026-11-30, a Monday."""

    async def go_to(day: int, time: str) -> None:
        local = datetime.fromisoformat(f"2026-12-{day:02} {time}")
        freezer.move_to(local.replace(tzinfo=dt_util.DEFAULT_TIME_ZONE))
        async_fire_time_changed(hass)
        await hass.async_block_till_done()

    return go_to


async def test_it_changes_at_both_times_on_the_chosen_days(
    hass: HomeAssistant, household: Household, go_to: GoTo
) -> None:
    await go_to(1, "12:00:00")
    await automate(hass, NAME)
    assert _quota(household) == 100
    for day, time, quota in (
        (1, "20:00:00", BEDTIME),  # Tuesday
        (2, "07:00:00", USUAL),
        (3, "20:00:00", BEDTIME),  # Thursday
        (4, "07:00:00", USUAL),
        (4, "20:00:00", USUAL),  # Friday
        (5, "07:00:00", USUAL),
        (6, "20:00:00", BEDTIME),  # Sunday
    ):
        await go_to(day, time)
        assert _quota(household) == quota, (day, time)


@pytest.mark.parametrize(
    ("day", "time", "quota"),
    [
        (1, "19:59:59", USUAL),
        (1, "20:00:00", BEDTIME),
        (2, "00:30:00", BEDTIME),
        (2, "06:59:59", BEDTIME),
        (2, "07:00:00", USUAL),
        (4, "06:00:00", BEDTIME),  # still Thursday's
        (4, "23:00:00", USUAL),  # Friday
        (5, "03:00:00", USUAL),
    ],
)
async def test_a_start_sets_what_is_right_then(
    hass: HomeAssistant,
    household: Household,
    go_to: GoTo,
    day: int,
    time: str,
    quota: int,
) -> None:
    await go_to(day, time)
    await restart(hass, NAME)
    assert _quota(household) == quota


@pytest.mark.parametrize(
    ("time", "quota"), [("12:59:59", USUAL), ("13:00:00", BEDTIME), ("14:00:00", USUAL)]
)
async def test_a_window_within_a_day(
    hass: HomeAssistant, household: Household, go_to: GoTo, time: str, quota: int
) -> None:
    await go_to(5, time)
    await restart(hass, NAME, begin="13:00:00", end="14:00:00", days=DAYS)
    assert _quota(household) == quota


async def test_a_household_that_comes_late_gets_it_too(
    hass: HomeAssistant, entry: ConfigEntry[Household], go_to: GoTo
) -> None:
    await go_to(1, "22:00:00")
    assert await hass.config_entries.async_unload(entry.entry_id)
    await restart(hass, NAME)
    assert await hass.config_entries.async_setup(entry.entry_id)
    await hass.async_block_till_done()
    assert _quota(entry.runtime_data) == BEDTIME


async def test_a_changed_automation_holds_at_once_and_sets_what_is_different_alone(
    hass: HomeAssistant, household: Household, go_to: GoTo
) -> None:
    await go_to(1, "22:00:00")
    await automate(hass, NAME)
    hass.bus.async_fire("automation_reloaded")
    await hass.async_block_till_done()
    assert _quota(household) == BEDTIME
    calls = async_capture_events(hass, "call_service")
    hass.bus.async_fire("automation_reloaded")
    await hass.async_block_till_done()
    assert calls == []


async def test_no_quota_is_a_usual_one_too(
    hass: HomeAssistant, household: Household, go_to: GoTo
) -> None:
    await go_to(1, "12:00:00")
    await restart(hass, NAME, usual_tokens=0)
    assert _quota(household) is None
    await go_to(1, "20:00:00")
    assert _quota(household) == BEDTIME
