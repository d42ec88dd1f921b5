"""Servers that are added, changed and removed, and keys that are asked for."""

import asyncio

from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import (
    Rejected,
    RejectReason,
)
from custom_components.fair_share.engines.base import (
    EngineError,
    UnreachableError,
)
from custom_components.fair_share.household.servers import (
    ServerState,
)
from tests.common import household_entry, member, server, set_up, subentry, until
from tests.fake_server import FakeServer, answer
from tests.household.conftest import (
    Asking,
    Pass,
    change,
    home,
    reauths,
    say,
    usable,
    view,
    watched,
)


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant) -> None:
    """Load what every Home Assistant has loaded."""
    assert await async_setup_component(hass, "homeassistant", {})


async def test_a_refused_key_is_asked_for_once(
    hass: HomeAssistant, fake: FakeServer, passes: Pass
) -> None:
    """See home-assistant/core #163023."""
    fake.api_key = "right"
    entry = await home(hass, fake, api_key="wrong")
    assert view(entry).state is ServerState.AUTH_FAILED
    for _ in range(3):
        checked_before = len(fake.requests)
        await passes(6)
        await until(lambda n=checked_before: len(fake.requests) > n)
    assert reauths(hass) == 1
    assert usable(entry) == []


async def test_a_key_that_is_right_again_is_no_longer_asked_for(
    hass: HomeAssistant, fake: FakeServer, asking: Asking
) -> None:
    fake.api_key = "right"
    entry = await home(hass, fake, api_key="wrong")
    assert reauths(hass) == 1
    change(hass, entry, api_key="right")
    await until(lambda: view(entry).state is ServerState.READY)
    assert reauths(hass) == 0
    assert await asking(entry.runtime_data) == "Hello from the fake"


async def test_the_key_of_a_removed_server_is_no_longer_asked_for(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    fake.api_key = "right"
    entry = await home(hass, fake, api_key="wrong")
    assert reauths(hass) == 1
    hass.config_entries.async_remove_subentry(entry, "server")
    await hass.async_block_till_done()
    assert reauths(hass) == 0


async def test_a_key_that_is_refused_later_is_asked_for(
    hass: HomeAssistant, fake: FakeServer, asking: Asking
) -> None:
    entry = await home(hass, fake)
    fake.api_key = "new"
    with pytest.raises(EngineError):
        await asking(entry.runtime_data)
    await until(lambda: view(entry).state is ServerState.AUTH_FAILED)
    await hass.async_block_till_done()
    assert reauths(hass) == 1


async def test_a_new_address_is_used_at_once(
    hass: HomeAssistant, fake: FakeServer, asking: Asking
) -> None:
    entry = await home(hass, fake)
    async with FakeServer() as other:
        other.default = answer("moved")
        change(hass, entry, url=other.url)
        await hass.async_block_till_done()
        await until(lambda: usable(entry) == [True])
        asked_before = len(fake.requests)
        assert await asking(entry.runtime_data) == "moved"
        assert len(fake.requests) == asked_before


async def test_a_running_answer_outlives_a_change_of_its_server(
    hass: HomeAssistant, fake: FakeServer, asking: Asking
) -> None:
    entry = await home(hass, fake)
    gate = asyncio.Event()
    fake.script(answer("one", gate, " two"))
    running = asking(entry.runtime_data)
    await until(lambda: entry.runtime_data.node_status("parent").tokens.output == 1)
    change(hass, entry, slots=1)
    await hass.async_block_till_done()
    await until(lambda: entry.runtime_data.status().servers[0].slots == 1)
    gate.set()
    assert await running == "one two"


async def test_a_new_name_does_not_disturb_the_watch(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    entry = await home(hass, fake)
    before = watched(entry)
    hass.config_entries.async_update_subentry(
        entry, entry.subentries["server"], title="Cellar"
    )
    await hass.async_block_till_done()
    assert watched(entry) is before
    assert view(entry).title == "Cellar"


async def test_a_removed_server_is_forgotten_and_what_it_does_says_nothing_more(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    entry = await home(hass, fake)
    removed = watched(entry)
    hass.config_entries.async_remove_subentry(entry, "server")
    await hass.async_block_till_done()
    household = entry.runtime_data
    assert (household.servers.statuses(), usable(entry)) == ([], [])
    removed.report(UnreachableError("too late"))
    assert usable(entry) == []
    with pytest.raises(KeyError):
        household.servers.get("server")


async def test_a_second_server_takes_over_and_a_dead_one_is_not_waited_for(
    hass: HomeAssistant, fake: FakeServer, asking: Asking
) -> None:
    """See hermes #13917."""
    entry = await home(hass, fake)
    async with FakeServer() as second:
        second.default = answer("second")
        hass.config_entries.async_add_subentry(
            entry, subentry(server(second.url, subentry_id="second"))
        )
        await hass.async_block_till_done()
        await until(lambda: usable(entry) == [True, True])
        await fake.stop()
        assert await asking(entry.runtime_data) == "second"
        asked = [await asking(entry.runtime_data) for _ in range(5)]
        assert asked == ["second"] * 5


async def test_a_household_without_a_server_has_no_limit_of_length(
    hass: HomeAssistant,
) -> None:
    entry = household_entry(member("parent", user_ids=("user_parent",)))
    await set_up(hass, entry)
    assert entry.runtime_data.context_limit() is None
    assert entry.runtime_data.servers.statuses() == []


async def test_an_answer_after_the_household_was_unloaded_is_not_begun(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    entry = await home(hass, fake)
    household = entry.runtime_data
    await hass.config_entries.async_unload(entry.entry_id)
    sent_before = len(fake.chats)
    with pytest.raises(Rejected) as refusal:
        await say(household)
    assert refusal.value.reason is RejectReason.CLOSED
    assert len(fake.chats) == sent_before
