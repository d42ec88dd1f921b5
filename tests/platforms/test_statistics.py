"""Long-term statistics are made of the sensors, with the right sums."""

import asyncio
from datetime import datetime

from homeassistant.components.recorder.statistics import (
    list_statistic_ids,
    statistics_during_period,
)
from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
from homeassistant.util import dt as dt_util
import pytest
from pytest_homeassistant_custom_component.components.recorder.common import (
    async_wait_recording_done,
    do_adhoc_statistics,
)

from tests.platforms.conftest import Elapse, Talk


@pytest.fixture(autouse=True)
def mock_recorder_before_hass(async_test_recorder: object) -> None:
    """Prepare the recorder before there is a Home Assistant."""


@pytest.fixture
async def entry(
    recorder_mock: object, hass: HomeAssistant, entry: ConfigEntry
) -> ConfigEntry:
    """The usual household, recorded."""
    await async_wait_recording_done(hass)
    return entry


async def compiled(hass: HomeAssistant, start: datetime) -> None:
    """Make the statistics of the five minutes from ``start``."""
    await async_wait_recording_done(hass)
    do_adhoc_statistics(hass, start=start)
    await async_wait_recording_done(hass)


async def sums(hass: HomeAssistant, start: datetime, statistic_id: str) -> list[object]:
    """Return the sums of five minutes each since ``start``."""
    found = await hass.async_add_executor_job(
        statistics_during_period,
        hass,
        start,
        None,
        {statistic_id},
        "5minute",
        None,
        {"sum"},
    )
    return [row["sum"] for row in found[statistic_id]]


async def reachable_again(entry: ConfigEntry, elapse: Elapse) -> None:
    """Let checks of the server be repeated that ran out of time in a long step."""
    while not list(entry.runtime_data.servers.ready()):
        await elapse(300)
        for _ in range(1000):
            await asyncio.sleep(0)


async def test_used_tokens_add_up_also_over_a_reset(
    hass: HomeAssistant, entry: ConfigEntry, talk: Talk, elapse: Elapse
) -> None:
    first = dt_util.utcnow()
    await talk("user_parent")
    await elapse(299)
    await compiled(hass, first)

    reset = entry.runtime_data.node_status("parent").window.resets_at
    await elapse((reset - dt_util.utcnow()).total_seconds())
    await reachable_again(entry, elapse)
    second = dt_util.utcnow()
    await talk("user_parent")
    await elapse(299)
    await compiled(hass, second)

    for key in ("tokens_this_period", "tokens_served"):
        assert await sums(hass, first, f"sensor.parent_{key}") == [6, 12]


async def test_used_tokens_add_up_also_over_a_reset_by_hand_and_a_restart(
    hass: HomeAssistant, entry: ConfigEntry, talk: Talk, elapse: Elapse
) -> None:
    first = dt_util.utcnow()
    await talk("user_parent")
    await elapse(299)
    await compiled(hass, first)

    await elapse(1)
    second = dt_util.utcnow()
    household = entry.runtime_data
    household.queue.reset_window("parent")
    await elapse(6)
    await talk("user_parent")
    await elapse(293)
    await compiled(hass, second)
    await elapse(1)

    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    third = dt_util.utcnow()
    await elapse(299)
    await compiled(hass, third)

    for key in ("tokens_this_period", "tokens_served"):
        assert await sums(hass, first, f"sensor.parent_{key}") == [6, 12, 12]


async def test_statistics_have_the_units_of_the_sensors(
    hass: HomeAssistant, entry: ConfigEntry, talk: Talk, elapse: Elapse
) -> None:
    first = dt_util.utcnow()
    await talk("user_parent")
    await elapse(299)
    await compiled(hass, first)

    found = await hass.async_add_executor_job(list_statistic_ids, hass)

    units = {
        row["statistic_id"]: row["statistics_unit_of_measurement"] for row in found
    }
    kinds = {row["statistic_id"]: row["has_sum"] for row in found}
    assert {
        key: (units.get(f"sensor.parent_{key}"), kinds.get(f"sensor.parent_{key}"))
        for key in (
            "tokens_served",
            "quota_remaining",
            "queue_depth",
            "last_wait",
            "longest_usual_wait",
            "share",
        )
    } == {
        "tokens_served": ("tokens", True),
        "quota_remaining": ("tokens", False),
        "queue_depth": ("requests", False),
        "last_wait": ("s", False),
        "longest_usual_wait": ("s", False),
        "share": ("%", False),
    }
    house = "sensor.fair_share_household_"
    assert units[f"{house}tokens_written_per_second"] == "tokens/s"
    assert units[f"{house}fairness_gap"] == "tokens"
    assert units[f"{house}expected_wait_of_a_voice_command"] == "s"
