"""A running household that is changed, without disturbing what runs in it."""

import asyncio
from types import MappingProxyType
from typing import Any

from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.fair_share.admission.model import (
    Outcome,
    Rejected,
    RejectReason,
)
from custom_components.fair_share.household.runtime import Household
from tests.common import (
    agent,
    device,
    household_entry,
    member,
    server,
    set_up,
    subentry,
    until,
)
from tests.fake_server import FakeServer, answer
from tests.household.conftest import Asking, say


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant) -> None:
    """Load what every Home Assistant has loaded."""
    assert await async_setup_component(hass, "homeassistant", {})


@pytest.fixture
async def entry(hass: HomeAssistant, fake: FakeServer) -> MockConfigEntry:
    """A running household of Parent, Child and a tablet of Parent's."""
    entry = household_entry(
        server(fake.url, slots=1),
        member("parent", user_ids=("user_parent",)),
        member("child", user_ids=("user_child",)),
        device("tablet", "d_tablet", "parent"),
    )
    await set_up(hass, entry)
    return entry


@pytest.fixture
def household(entry: MockConfigEntry) -> Household:
    """The running household."""
    running: Household = entry.runtime_data
    return running


async def set_options(
    hass: HomeAssistant, entry: MockConfigEntry, **options: Any
) -> None:
    """Change the options of the household."""
    hass.config_entries.async_update_entry(entry, options=options)
    await hass.async_block_till_done()


async def change(
    hass: HomeAssistant, entry: MockConfigEntry, subentry_id: str, **data: Any
) -> None:
    """Change a member or a device."""
    known = entry.subentries[subentry_id]
    hass.config_entries.async_update_subentry(
        entry, known, data=MappingProxyType({**known.data, **data})
    )
    await hass.async_block_till_done()


@pytest.fixture
async def gate(fake: FakeServer, household: Household, asking: Asking) -> asyncio.Event:
    """Parent has the only slot, with one word said, until the gate is opened."""
    gate = asyncio.Event()
    fake.script(answer("one", gate, " two"))
    asking(household)
    await until(lambda: household.node_status("parent").tokens.output == 1)
    return gate


async def wait(household: Household, asking: Asking, user: str) -> asyncio.Task[str]:
    """Have one more request wait."""
    before = household.status().waiting
    task = asking(household, user=user)
    await until(lambda: household.status().waiting == before + 1)
    return task


async def test_new_prices_hold_for_the_next_request(
    hass: HomeAssistant, entry: MockConfigEntry, household: Household
) -> None:
    await say(household)
    first = household.records()[-1]
    await set_options(hass, entry, cost_uncached_prompt=3.0, cost_output=10.0)
    await say(household)
    second = household.records()[-1]
    assert first.charge == first.tokens.uncached + 2 * first.tokens.output
    assert second.charge == 3 * second.tokens.uncached + 10 * second.tokens.output


async def test_a_shorter_queue_refuses_the_next_one_and_keeps_who_waits(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    household: Household,
    gate: asyncio.Event,
    asking: Asking,
) -> None:
    waiting = await wait(household, asking, "user_child")
    await set_options(hass, entry, queue_limit=1)
    with pytest.raises(Rejected) as refusal:
        await say(household)
    assert refusal.value.reason is RejectReason.QUEUE_FULL
    gate.set()
    assert await waiting == "Hello from the fake"


async def test_a_shorter_queue_of_a_class_refuses_that_class_only(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    household: Household,
    gate: asyncio.Event,
    asking: Asking,
) -> None:
    await set_options(hass, entry, queue_limit_class=1)
    await wait(household, asking, "user_child")
    with pytest.raises(Rejected) as refusal:
        await say(household, user="user_child")
    assert refusal.value.reason is RejectReason.QUEUE_FULL
    await wait(household, asking, "user_parent")


async def test_guests_get_a_quota_live(
    hass: HomeAssistant, entry: MockConfigEntry, household: Household
) -> None:
    await say(household, user="somebody")
    await set_options(hass, entry, guest_quota_tokens=1, guest_weight=0.5)
    with pytest.raises(Rejected) as refusal:
        await say(household, user="somebody")
    assert refusal.value.reason is RejectReason.QUOTA
    await say(household)
    assert household.node_status("guest").requests == 1


async def test_a_quota_set_while_an_answer_runs_counts_what_it_used(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    household: Household,
    gate: asyncio.Event,
) -> None:
    await change(hass, entry, "parent", quota_tokens=1000)
    gate.set()
    await until(lambda: len(household.records()) == 1)
    tokens = household.records()[0].tokens
    window = household.node_status("parent").window
    assert window.remaining_tokens == 1000 - tokens.uncached - tokens.output


async def test_a_limit_of_an_answers_length_holds_for_the_next_one(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    household: Household,
    fake: FakeServer,
) -> None:
    await change(hass, entry, "parent", output_tokens=2)
    assert await say(household) == "Hello from"
    await change(hass, entry, "parent", output_tokens=None)
    assert await say(household) == "Hello from the fake"


async def test_a_new_member_asks_at_once(
    hass: HomeAssistant, entry: MockConfigEntry, household: Household
) -> None:
    hass.config_entries.async_add_subentry(
        entry, subentry(member("teen", user_ids=("user_teen",)))
    )
    await hass.async_block_till_done()
    await say(household, user="user_teen")
    assert household.node_status("teen").requests == 1
    assert household.node_status("guest").requests == 0


async def test_a_member_who_is_removed_while_their_answer_runs_hears_it_to_the_end(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    household: Household,
    gate: asyncio.Event,
    asking: Asking,
) -> None:
    waiting = await wait(household, asking, "user_child")
    refused = await wait(household, asking, "user_parent")
    hass.config_entries.async_remove_subentry(entry, "parent")
    await hass.async_block_till_done()
    with pytest.raises(Rejected) as refusal:
        await refused
    assert refusal.value.reason is RejectReason.CLASS_REMOVED
    gate.set()
    assert await waiting == "Hello from the fake"
    assert household.records()[0].outcome is Outcome.FINISHED
    await say(household, user="user_parent")
    assert household.node_status("guest").requests == 1


async def test_a_device_follows_to_another_member(
    hass: HomeAssistant, entry: MockConfigEntry, household: Household
) -> None:
    assert household.node_status("tablet").parent_id == "parent"
    await change(hass, entry, "tablet", member="child")
    assert household.node_status("tablet").parent_id == "child"


async def test_an_agent_that_is_added_disturbs_nothing(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    household: Household,
    gate: asyncio.Event,
    asking: Asking,
) -> None:
    waiting = await wait(household, asking, "user_child")
    hass.config_entries.async_add_subentry(entry, subentry(agent()))
    await hass.async_block_till_done()
    assert (household.status().running, household.status().waiting) == (1, 1)
    gate.set()
    assert await waiting == "Hello from the fake"


async def test_every_slot_is_free_after_changes_of_all_kinds(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    household: Household,
    fake: FakeServer,
    gate: asyncio.Event,
    asking: Asking,
) -> None:
    waiting = await wait(household, asking, "user_child")
    await set_options(hass, entry, queue_limit=5, guest_weight=2.0)
    await change(hass, entry, "child", weight=3.0)
    await change(hass, entry, "server", slots=2)
    await until(lambda: household.status().servers[0].slots == 2)
    gate.set()
    assert await waiting == "Hello from the fake"
    await until(lambda: household.status().running == 0)
    assert fake.running == 0
