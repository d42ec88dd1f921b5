"""Sensors follow quotas and the calendar of the household."""

from datetime import datetime

from freezegun.api import FrozenDateTimeFactory
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import STATE_UNKNOWN
from homeassistant.core import HomeAssistant
from homeassistant.util import dt as dt_util
import pytest

from custom_components.fair_share.admission.model import (
    Request,
    RequestClass,
    TokenCount,
    Workload,
)
from custom_components.fair_share.household.runtime import Household
from tests.common import household_entry, member, server, set_up
from tests.fake_server import FakeServer
from tests.platforms.conftest import Elapse, Sensor, Show, Talk


async def use(entry: ConfigEntry[Household], tokens: int) -> None:
    """Let Parent use so many tokens, without a server that would take its time."""
    queue = entry.runtime_data.queue
    queue.put_class(RequestClass("parent/direct/chat", "parent/direct", Workload.CHAT))
    async with queue.admit(Request("r", "parent/direct/chat", tokens, 1)) as grant:
        grant.prompt_progress(uncached=tokens, cached=0)
        grant.settle(TokenCount(tokens), estimated=False)
        grant.finish()


@pytest.mark.parametrize(
    ("zone", "now", "started_at", "resets_at"),
    [
        pytest.param(
            "Asia/Tokyo",
            "2026-11-29T23:30:00+00:00",
            "2026-11-29T15:00:00+00:00",
            "2026-11-30T15:00:00+00:00",
            id="ahead of UTC",
        ),
        pytest.param(
            "America/New_York",
            "2026-06-02T01:00:00+00:00",
            "2026-06-01T04:00:00+00:00",
            "2026-06-02T04:00:00+00:00",
            id="behind UTC",
        ),
        pytest.param(
            "Europe/Tallinn",
            "2026-10-25T10:00:00+00:00",
            "2026-10-24T21:00:00+00:00",
            "2026-10-25T22:00:00+00:00",
            id="a day of 25 hours",
        ),
        pytest.param(
            "Europe/Tallinn",
            "2026-03-29T10:00:00+00:00",
            "2026-03-28T22:00:00+00:00",
            "2026-03-29T21:00:00+00:00",
            id="a day of 23 hours",
        ),
    ],
)
async def test_a_day_ends_at_local_midnight_and_begins_anew_once(
    hass: HomeAssistant,
    freezer: FrozenDateTimeFactory,
    llama: FakeServer,
    sensor: Sensor,
    show: Show,
    elapse: Elapse,
    zone: str,
    now: str,
    started_at: str,
    resets_at: str,
) -> None:
    await hass.config.async_set_time_zone(zone)
    freezer.move_to(now)
    entry = household_entry(server(llama.url), member("parent", quota_tokens=100))
    await set_up(hass, entry)
    await use(entry, 30)
    await elapse(6)

    assert sensor("parent_tokens_window").attributes["last_reset"] == started_at
    assert show("parent_next_reset") == resets_at
    assert show("parent_quota_remaining") == "70"

    end = datetime.fromisoformat(resets_at)
    await elapse((end - dt_util.utcnow()).total_seconds() - 1)
    assert show("parent_quota_remaining") == "70"

    await elapse(1)
    await elapse(6)
    assert show("parent_quota_remaining") == "100"
    assert show("parent_tokens_window") == "0"
    assert sensor("parent_tokens_window").attributes["last_reset"] == resets_at
    assert show("parent_tokens_served") == "30"

    await use(entry, 10)
    await elapse(3600)
    assert show("parent_quota_remaining") == "90"


@pytest.mark.parametrize(
    ("window", "resets_at"),
    [
        ("day", "2026-10-21T21:00:00+00:00"),
        ("week", "2026-10-25T22:00:00+00:00"),  # Monday, after the clocks changed
        ("month", "2026-10-31T22:00:00+00:00"),
    ],
)
async def test_the_next_reset_is_that_of_the_calendar(
    hass: HomeAssistant,
    freezer: FrozenDateTimeFactory,
    llama: FakeServer,
    show: Show,
    window: str,
    resets_at: str,
) -> None:
    await hass.config.async_set_time_zone("Europe/Tallinn")
    freezer.move_to("2026-10-21T09:00:00+00:00")
    parent = member("parent", quota_tokens=100, quota_window=window)
    await set_up(hass, household_entry(server(llama.url), parent))
    assert show("parent_next_reset") == resets_at


async def test_a_quota_can_be_set_and_taken_away_live(
    hass: HomeAssistant, entry: ConfigEntry, talk: Talk, show: Show, elapse: Elapse
) -> None:
    await talk("user_child")
    await elapse(6)

    child = entry.subentries["child"]
    hass.config_entries.async_update_subentry(
        entry, child, data={**child.data, "quota_tokens": 50}
    )
    await elapse(6)
    assert show("child_quota_remaining") == "44"

    child = entry.subentries["child"]
    data = {key: value for key, value in child.data.items() if key != "quota_tokens"}
    hass.config_entries.async_update_subentry(entry, child, data=data)
    await elapse(6)
    assert show("child_quota_remaining") == STATE_UNKNOWN
    assert show("child_tokens_window") == "6"


async def test_a_steady_quota_fills_up_by_itself_and_has_no_reset(
    hass: HomeAssistant, llama: FakeServer, elapse: Elapse, show: Show
) -> None:
    quota = {"quota_tokens": 100, "quota_window": "steady", "quota_refill": 600}
    entry = household_entry(server(llama.url), member("parent", **quota))
    await set_up(hass, entry)
    await use(entry, 50)
    await elapse(0)
    assert show("parent_quota_remaining") == "50"
    assert show("parent_next_reset") == STATE_UNKNOWN
    await elapse(60)
    assert show("parent_quota_remaining") == "60"
    assert show("parent_tokens_window") == "40"
    await elapse(240)
    await elapse(60)
    assert show("parent_quota_remaining") == "100"
