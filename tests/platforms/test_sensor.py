"""What the sensors show, and when they are written."""

from collections.abc import Iterator
from copy import deepcopy
from datetime import datetime
from typing import Any
from unittest.mock import patch

from freezegun.api import FrozenDateTimeFactory
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import STATE_UNAVAILABLE, STATE_UNKNOWN
from homeassistant.core import Event, EventStateChangedData, HomeAssistant
from homeassistant.helpers import entity_registry as er
from homeassistant.helpers.entity import Entity
from homeassistant.helpers.event import async_track_state_change_event
from homeassistant.util import dt as dt_util
import pytest

from custom_components.fair_share.admission.model import (
    Rejected,
    Request,
    RequestClass,
    TokenCount,
    Workload,
)
from custom_components.fair_share.engines.base import (
    AuthError,
    BusyError,
    EngineError,
    LoadingError,
    UnreachableError,
)
from custom_components.fair_share.household.runtime import Household
from tests.common import household_entry, member, server, set_up
from tests.fake_server import FakeServer, answer
from tests.platforms.conftest import Elapse, Sensor, Show, Talk, Talking


async def use(entry: ConfigEntry[Household], tokens: int) -> None:
    """Let Anna use so many tokens, without a server that would take its time."""
    queue = entry.runtime_data.queue
    queue.put_class(RequestClass("anna/direct/chat", "anna/direct", Workload.CHAT))
    async with queue.admit(Request("r", "anna/direct/chat", tokens, 1)) as grant:
        grant.prompt_progress(uncached=tokens, cached=0)
        grant.settle(TokenCount(tokens), estimated=False)
        grant.finish()


@pytest.fixture
def all_enabled() -> Iterator[None]:
    """Enable also what is disabled by default."""
    with patch.object(Entity, "entity_registry_enabled_default", new=True):
        yield


@pytest.mark.usefixtures("entry")
async def test_nobody_has_used_anything_at_first(show: Show) -> None:
    assert show("household_entry_queue_depth") == "0"
    assert show("household_entry_running") == "0"
    assert show("household_entry_tokens_served") == "0"
    assert show("anna_tokens_window") == "0"
    assert show("anna_quota_remaining") == "100"
    assert show("anna_quota_remaining_percent") == "100.0"
    assert show("anna_last_wait") == STATE_UNKNOWN
    assert show("anna_last_ttft") == STATE_UNKNOWN
    assert show("anna_preemptions") == "0"


async def test_an_answer_is_counted_for_its_member_and_the_household(
    talk: Talk, show: Show, elapse: Elapse
) -> None:
    await talk("user_anna")  # two tokens of prompt, four of answer
    await elapse(6)

    assert show("anna_tokens_served") == "6"
    assert show("anna_tokens_window") == "6"
    assert show("anna_quota_remaining") == "94"
    assert show("anna_quota_remaining_percent") == "94.0"
    assert show("household_entry_tokens_served") == "6"
    assert show("ben_tokens_served") == "0"
    assert show("phone_tokens_served") == "0"


async def test_an_answer_to_a_device_is_counted_for_it_and_its_member(
    talk: Talk, show: Show, elapse: Elapse
) -> None:
    await talk("user_anna", device_id="d_phone")
    await elapse(6)
    assert show("phone_tokens_served") == "6"
    assert show("anna_tokens_served") == "6"


async def test_an_answer_to_nobody_known_is_counted_for_guests(
    talk: Talk, show: Show, elapse: Elapse
) -> None:
    await talk("user_of_nobody")
    await elapse(6)
    assert show("household_entry_guest_tokens_served") == "6"
    assert show("household_entry_shared_tokens_served") == "0"


@pytest.mark.usefixtures("all_enabled", "entry")
async def test_kinds_of_tokens_are_told_apart_where_wanted(
    llama: FakeServer, talk: Talk, show: Show, elapse: Elapse
) -> None:
    llama.default = answer("a", "b", "c", cached=1)
    await talk("user_anna", "two words")
    await elapse(6)
    assert show("household_entry_tokens_prompt") == "2"
    assert show("household_entry_tokens_cached") == "1"
    assert show("household_entry_tokens_output") == "3"


async def test_without_a_quota_nothing_can_be_left_of_it(
    talk: Talk, show: Show, elapse: Elapse
) -> None:
    await talk("user_ben")
    await elapse(6)
    assert show("ben_tokens_window") == "6"
    assert show("ben_quota_remaining") == STATE_UNKNOWN
    assert show("ben_quota_remaining_percent") == STATE_UNKNOWN


async def test_a_quota_that_is_overrun_leaves_nothing(
    llama: FakeServer, household: Household, talk: Talk, show: Show, elapse: Elapse
) -> None:
    household.queue.grant_tokens("anna", -94)
    await talk("user_anna")
    await elapse(6)
    assert show("anna_quota_remaining") == "0"
    assert show("anna_quota_remaining_percent") == "0.0"


async def test_a_refused_request_is_counted(
    household: Household, talk: Talk, show: Show, elapse: Elapse
) -> None:
    household.queue.grant_tokens("anna", -100)
    with pytest.raises(Rejected):
        await talk("user_anna")
    await elapse(6)
    assert show("anna_rejected") == "1"
    assert show("household_entry_rejected") == "1"
    assert show("ben_rejected") == "0"


async def test_who_waits_and_who_runs_is_shown(
    two_talk: Talking,
    show: Show,
    elapse: Elapse,
) -> None:
    await elapse(5)

    assert show("household_entry_running") == "2"
    assert show("household_entry_queue_depth") == "1"
    assert show("anna_queue_depth") == "1"
    assert show("ben_queue_depth") == "0"
    assert show("server_slots_used") == "2"

    await two_talk.end()
    await elapse(6)
    assert show("household_entry_running") == "0"
    assert show("household_entry_queue_depth") == "0"
    assert show("anna_queue_depth") == "0"
    assert show("server_slots_used") == "0"


async def test_the_last_wait_and_time_to_first_token_are_shown(
    two_talk: Talking,
    show: Show,
    elapse: Elapse,
) -> None:
    await elapse(3)
    await two_talk.end()
    await elapse(6)
    assert float(show("anna_last_wait")) == pytest.approx(3)
    assert float(show("anna_last_ttft")) == pytest.approx(3)
    assert float(show("ben_last_wait")) == pytest.approx(0)


async def test_a_busy_sensor_is_written_once_in_five_seconds(
    hass: HomeAssistant, household: Household, talk: Talk, elapse: Elapse
) -> None:
    await talk("user_anna")  # makes the class
    await elapse(6)
    writes: list[Event[EventStateChangedData]] = []
    async_track_state_change_event(hass, "sensor.anna_tokens_served", writes.append)

    request = Request("r", "anna/direct/chat", 10, 64)
    async with household.queue.admit(request) as grant:
        for _ in range(20):
            grant.output(1)
            await elapse(1)

    assert 3 <= len(writes) <= 5


async def test_a_sensor_that_shows_the_same_is_not_written_again(
    talk: Talk, sensor: Sensor, elapse: Elapse
) -> None:
    before = sensor("anna_preemptions").last_reported
    await elapse(10)
    await talk("user_anna")
    await elapse(6)
    assert sensor("anna_tokens_served").last_reported > before
    assert sensor("anna_preemptions").last_reported == before


# ---- quotas and time ---------------------------------------------------------------


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
    entry = household_entry(server(llama.url), member("anna", quota_tokens=100))
    await set_up(hass, entry)
    await use(entry, 30)
    await elapse(6)

    assert sensor("anna_tokens_window").attributes["last_reset"] == started_at
    assert show("anna_next_reset") == resets_at
    assert show("anna_quota_remaining") == "70"

    end = datetime.fromisoformat(resets_at)
    await elapse((end - dt_util.utcnow()).total_seconds() - 1)
    assert show("anna_quota_remaining") == "70"

    await elapse(1)
    await elapse(6)
    assert show("anna_quota_remaining") == "100"
    assert show("anna_tokens_window") == "0"
    assert sensor("anna_tokens_window").attributes["last_reset"] == resets_at
    assert show("anna_tokens_served") == "30"

    await use(entry, 10)
    await elapse(3600)
    assert show("anna_quota_remaining") == "90"


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
    anna = member("anna", quota_tokens=100, quota_window=window)
    await set_up(hass, household_entry(server(llama.url), anna))
    assert show("anna_next_reset") == resets_at


async def test_a_quota_can_be_set_and_taken_away_live(
    hass: HomeAssistant, entry: ConfigEntry, talk: Talk, show: Show, elapse: Elapse
) -> None:
    await talk("user_ben")
    await elapse(6)

    ben = entry.subentries["ben"]
    hass.config_entries.async_update_subentry(
        entry, ben, data={**ben.data, "quota_tokens": 50}
    )
    await elapse(6)
    assert show("ben_quota_remaining") == "44"

    ben = entry.subentries["ben"]
    data = {key: value for key, value in ben.data.items() if key != "quota_tokens"}
    hass.config_entries.async_update_subentry(entry, ben, data=data)
    await elapse(6)
    assert show("ben_quota_remaining") == STATE_UNKNOWN
    assert show("ben_tokens_window") == "6"


# ---- servers -----------------------------------------------------------------------


async def test_a_server_that_is_gone_takes_its_gauges_away_and_no_accounts(
    household: Household, llama: FakeServer, talk: Talk, show: Show, elapse: Elapse
) -> None:
    await talk("user_anna")
    await elapse(6)
    assert show("server_server_state") == "ready"

    await llama.stop()
    household.servers.get("server").report(UnreachableError("connection refused"))
    await elapse(1)

    assert show("server_server_state") == "unreachable"
    assert show("server_slots_used") == STATE_UNAVAILABLE
    assert show("anna_tokens_served") == "6"
    assert show("anna_quota_remaining") == "94"
    assert show("household_entry_queue_depth") == "0"


async def test_a_household_starts_while_its_server_is_away(
    hass: HomeAssistant, llama: FakeServer, show: Show
) -> None:
    await llama.stop()
    await set_up(hass, household_entry(server(llama.url), member("anna")))
    assert show("server_server_state") == "unreachable"
    assert show("server_slots_used") == STATE_UNAVAILABLE
    assert show("anna_tokens_served") == "0"


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (AuthError("no"), "auth_failed"),
        (LoadingError("soon"), "loading"),
        (BusyError("later"), "loading"),
    ],
    ids=str,
)
async def test_the_state_of_a_server_says_why_it_cannot_be_used(
    hass: HomeAssistant,
    household: Household,
    sensor: Sensor,
    elapse: Elapse,
    error: EngineError,
    state: str,
) -> None:
    states: list[str] = []
    async_track_state_change_event(
        hass,
        sensor("server_server_state").entity_id,
        lambda event: states.append(event.data["new_state"].state),
    )
    household.servers.get("server").report(error)
    await elapse(0)
    assert states[0] == state


# ---- restarts ----------------------------------------------------------------------


async def test_usage_survives_a_reload(
    hass: HomeAssistant, entry: ConfigEntry, talk: Talk, show: Show
) -> None:
    await talk("user_anna")
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    assert show("anna_tokens_served") == "6"
    assert show("anna_quota_remaining") == "94"
    assert show("household_entry_tokens_served") == "6"


async def test_usage_survives_a_kill_a_few_seconds_later(
    hass: HomeAssistant,
    hass_storage: dict[str, Any],
    entry: ConfigEntry,
    talk: Talk,
    show: Show,
    elapse: Elapse,
) -> None:
    await talk("user_anna")
    await elapse(3)
    killed = deepcopy(hass_storage["fair_share.household_entry"])

    await hass.config_entries.async_unload(entry.entry_id)
    hass_storage["fair_share.household_entry"] = killed
    assert await hass.config_entries.async_setup(entry.entry_id)
    await hass.async_block_till_done()

    assert show("anna_tokens_served") == "6"
    assert show("anna_quota_remaining") == "94"


async def test_a_reload_ends_what_waits_and_keeps_what_was_used(
    hass: HomeAssistant, entry: ConfigEntry, two_talk: Talking, show: Show
) -> None:
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    *_, waited = await two_talk.end()
    assert isinstance(waited, Rejected)
    assert show("anna_tokens_served") == "3"
    assert show("household_entry_running") == "0"


async def test_the_entities_are_the_same_after_a_reload(
    hass: HomeAssistant, entry: ConfigEntry, entity_registry: er.EntityRegistry
) -> None:
    def entities() -> dict[str, str]:
        found = er.async_entries_for_config_entry(entity_registry, entry.entry_id)
        return {entity.unique_id: entity.entity_id for entity in found}

    before = entities()
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    assert entities() == before
