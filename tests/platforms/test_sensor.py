"""What the sensors of accounts show, and when they are written."""

from collections.abc import Iterator
from unittest.mock import patch

from homeassistant.const import STATE_UNKNOWN
from homeassistant.core import Event, EventStateChangedData, HomeAssistant
from homeassistant.helpers.entity import Entity
from homeassistant.helpers.event import async_track_state_change_event
import pytest

from custom_components.fair_share.admission.model import (
    Rejected,
    Request,
    RequestClass,
    Workload,
)
from custom_components.fair_share.household.runtime import Household
from tests.common import household_entry, member, server, set_up
from tests.fake_server import FakeServer, answer
from tests.platforms.conftest import Elapse, Sensor, Show, Talk, Talking


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
    assert show("parent_tokens_window") == "0"
    assert show("parent_quota_remaining") == "100"
    assert show("parent_quota_remaining_percent") == "100.0"
    assert show("parent_last_wait") == STATE_UNKNOWN
    assert show("parent_last_ttft") == STATE_UNKNOWN
    assert show("parent_rejected") == "0"


async def test_an_answer_is_counted_for_its_member_and_the_household(
    talk: Talk, show: Show, elapse: Elapse
) -> None:
    await talk("user_parent")  # two tokens of prompt, four of answer
    await elapse(6)

    assert show("parent_tokens_served") == "6"
    assert show("parent_tokens_window") == "6"
    assert show("parent_quota_remaining") == "94"
    assert show("parent_quota_remaining_percent") == "94.0"
    assert show("household_entry_tokens_served") == "6"
    assert show("child_tokens_served") == "0"
    assert show("phone_tokens_served") == "0"


async def test_an_answer_to_a_device_is_counted_for_it_and_its_member(
    talk: Talk, show: Show, elapse: Elapse
) -> None:
    await talk("user_parent", device_id="d_phone")
    await elapse(6)
    assert show("phone_tokens_served") == "6"
    assert show("parent_tokens_served") == "6"


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
    await talk("user_parent", "two words")
    await elapse(6)
    assert show("household_entry_tokens_prompt") == "2"
    assert show("household_entry_tokens_cached") == "1"
    assert show("household_entry_tokens_output") == "3"


async def test_without_a_quota_nothing_can_be_left_of_it(
    talk: Talk, show: Show, elapse: Elapse
) -> None:
    await talk("user_child")
    await elapse(6)
    assert show("child_tokens_window") == "6"
    assert show("child_quota_remaining") == STATE_UNKNOWN
    assert show("child_quota_remaining_percent") == STATE_UNKNOWN


async def test_a_quota_that_is_overrun_leaves_nothing(
    llama: FakeServer, household: Household, talk: Talk, show: Show, elapse: Elapse
) -> None:
    household.queue.grant_tokens("parent", -94)
    await talk("user_parent")
    await elapse(6)
    assert show("parent_quota_remaining") == "0"
    assert show("parent_quota_remaining_percent") == "0.0"


async def test_a_refused_request_is_counted(
    household: Household, talk: Talk, show: Show, elapse: Elapse
) -> None:
    household.queue.grant_tokens("parent", -100)
    with pytest.raises(Rejected):
        await talk("user_parent")
    await elapse(6)
    assert show("parent_rejected") == "1"
    assert show("household_entry_rejected") == "1"
    assert show("child_rejected") == "0"


async def test_who_waits_and_who_runs_is_shown(
    two_talk: Talking,
    show: Show,
    elapse: Elapse,
) -> None:
    await elapse(5)

    assert show("household_entry_running") == "2"
    assert show("household_entry_queue_depth") == "1"
    assert show("parent_queue_depth") == "1"
    assert show("child_queue_depth") == "0"
    assert show("server_slots_used") == "2"

    await two_talk.end()
    await elapse(6)
    assert show("household_entry_running") == "0"
    assert show("household_entry_queue_depth") == "0"
    assert show("parent_queue_depth") == "0"
    assert show("server_slots_used") == "0"


async def test_the_last_wait_and_time_to_first_token_are_shown(
    two_talk: Talking,
    show: Show,
    elapse: Elapse,
) -> None:
    await elapse(3)
    await two_talk.end()
    await elapse(6)
    assert float(show("parent_last_wait")) == pytest.approx(3)
    assert float(show("parent_last_ttft")) == pytest.approx(3)
    assert float(show("child_last_wait")) == pytest.approx(0)


async def test_a_busy_sensor_is_written_once_in_five_seconds(
    hass: HomeAssistant, household: Household, talk: Talk, elapse: Elapse
) -> None:
    await talk("user_parent")  # makes the class
    await elapse(6)
    writes: list[Event[EventStateChangedData]] = []
    async_track_state_change_event(hass, "sensor.parent_tokens_served", writes.append)

    request = Request("r", "parent/direct/chat", 10, 64)
    async with household.queue.admit(request) as grant:
        for _ in range(20):
            grant.output(1)
            await elapse(1)

    assert 3 <= len(writes) <= 5


async def test_a_sensor_that_shows_the_same_is_not_written_again(
    talk: Talk, sensor: Sensor, elapse: Elapse
) -> None:
    before = sensor("parent_rejected").last_reported
    await elapse(10)
    await talk("user_parent")
    await elapse(6)
    assert sensor("parent_tokens_served").last_reported > before
    assert sensor("parent_rejected").last_reported == before


@pytest.mark.usefixtures("all_enabled")
async def test_interruptions_are_counted_and_outlive_a_reload(
    hass: HomeAssistant, llama: FakeServer, elapse: Elapse, show: Show
) -> None:
    entry = household_entry(server(llama.url), member("parent"))
    await set_up(hass, entry)
    queue = entry.runtime_data.queue
    queue.put_class(RequestClass("parent/direct/task", "parent/direct", Workload.TASK))
    async with queue.admit(Request("r", "parent/direct/task", 10, 100)) as grant:
        grant.output(5)
        await grant.pause()
        grant.finish()
    await elapse(6)
    assert show("parent_preemptions") == show("household_entry_preemptions") == "1"

    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    assert show("parent_preemptions") == show("household_entry_preemptions") == "1"
