"""Setting up, changing, unloading and deleting a household."""

from homeassistant.config_entries import ConfigEntryState
from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.fair_share.const import DOMAIN
from tests.common import household_entry, member, server, subentry
from tests.fake_server import FakeServer


@pytest.fixture
async def entry(hass: HomeAssistant, socket_enabled: None) -> MockConfigEntry:
    """A running household with one server, which has since died, and Parent."""
    assert await async_setup_component(hass, "homeassistant", {})
    async with FakeServer() as fake:
        entry = household_entry(server(fake.url), member("parent"))
        entry.add_to_hass(hass)
        assert await hass.config_entries.async_setup(entry.entry_id)
    return entry


async def test_a_household_runs_although_its_server_is_away(
    hass: HomeAssistant, socket_enabled: None
) -> None:
    assert await async_setup_component(hass, "homeassistant", {})
    async with FakeServer() as fake:
        pass
    entry = household_entry(server(fake.url))
    entry.add_to_hass(hass)
    assert await hass.config_entries.async_setup(entry.entry_id)
    assert entry.state is ConfigEntryState.LOADED


async def test_changes_reach_the_running_household_without_a_new_start(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    household = entry.runtime_data
    hass.config_entries.async_add_subentry(entry, subentry(member("child")))
    await hass.async_block_till_done()
    assert household.node_status("child").node_id == "child"
    hass.config_entries.async_remove_subentry(entry, "child")
    await hass.async_block_till_done()
    with pytest.raises(KeyError):
        household.node_status("child")
    assert entry.runtime_data is household


async def test_an_unloaded_household_can_be_started_again(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    before = entry.runtime_data
    assert await hass.config_entries.async_unload(entry.entry_id)
    assert entry.state is ConfigEntryState.NOT_LOADED
    assert not entry.update_listeners
    assert await hass.config_entries.async_setup(entry.entry_id)
    assert entry.runtime_data is not before


async def test_the_accounts_go_with_the_household(
    hass: HomeAssistant, entry: MockConfigEntry, hass_storage: dict[str, object]
) -> None:
    entry.runtime_data.ledger.mark_dirty()
    await hass.config_entries.async_unload(entry.entry_id)
    assert f"{DOMAIN}.{entry.entry_id}" in hass_storage
    await hass.config_entries.async_remove(entry.entry_id)
    assert f"{DOMAIN}.{entry.entry_id}" not in hass_storage


async def test_a_household_of_a_later_version_is_left_alone(
    hass: HomeAssistant,
) -> None:
    assert await async_setup_component(hass, "homeassistant", {})
    entry = MockConfigEntry(domain=DOMAIN, version=2)
    entry.add_to_hass(hass)
    assert not await hass.config_entries.async_setup(entry.entry_id)
    assert entry.state is ConfigEntryState.MIGRATION_ERROR


async def test_a_household_of_a_later_minor_version_still_runs(
    hass: HomeAssistant, socket_enabled: None
) -> None:
    assert await async_setup_component(hass, "homeassistant", {})
    entry = MockConfigEntry(domain=DOMAIN, version=1, minor_version=2)
    entry.add_to_hass(hass)
    assert await hass.config_entries.async_setup(entry.entry_id)
