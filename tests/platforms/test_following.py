"""Devices and entities follow every change of the household at once."""

from homeassistant.config_entries import ConfigEntry
from homeassistant.const import STATE_UNAVAILABLE
from homeassistant.core import HomeAssistant
from homeassistant.helpers import device_registry as dr, entity_registry as er
import pytest

from tests.common import device, member, server, subentry
from tests.platforms.conftest import (
    MEMBER_KEYS,
    SHARE_KEYS,
    Elapse,
    Show,
    Talk,
    found_device,
    unique_ids,
)


async def test_a_new_member_appears_with_their_sensors(
    hass: HomeAssistant,
    entry: ConfigEntry,
    entity_registry: er.EntityRegistry,
    show: Show,
) -> None:
    hass.config_entries.async_add_subentry(entry, subentry(member("teen")))
    await hass.async_block_till_done()
    assert unique_ids(entity_registry, entry, "teen") == MEMBER_KEYS | SHARE_KEYS
    assert show("teen_tokens_served") == "0"


async def test_a_new_device_appears_and_counts_at_once(
    hass: HomeAssistant, entry: ConfigEntry, talk: Talk, show: Show, elapse: Elapse
) -> None:
    hass.config_entries.async_add_subentry(
        entry, subentry(device("tablet", "d_tablet", "child", workload="chat"))
    )
    await hass.async_block_till_done()
    await talk("user_child", device_id="d_tablet")
    await elapse(6)
    assert show("tablet_tokens_served") == "6"
    assert show("child_tokens_served") == "6"


async def test_a_new_server_appears(
    hass: HomeAssistant, entry: ConfigEntry, show: Show
) -> None:
    nowhere = server("http://127.0.0.1:1", subentry_id="cellar")
    hass.config_entries.async_add_subentry(entry, subentry(nowhere))
    await hass.async_block_till_done()
    assert show("cellar_server_state") == "unreachable"
    assert show("cellar_slots_used") == STATE_UNAVAILABLE


@pytest.mark.parametrize("subentry_id", ["parent", "phone", "server"])
async def test_what_is_removed_goes_with_its_device_and_sensors(
    hass: HomeAssistant,
    entry: ConfigEntry,
    device_registry: dr.DeviceRegistry,
    entity_registry: er.EntityRegistry,
    elapse: Elapse,
    subentry_id: str,
) -> None:
    entities = er.async_entries_for_config_entry(entity_registry, entry.entry_id)
    entity_id = next(
        entity.entity_id
        for entity in entities
        if entity.config_subentry_id == subentry_id
    )
    hass.config_entries.async_remove_subentry(entry, subentry_id)
    await hass.async_block_till_done()
    await elapse(6)

    assert hass.states.get(entity_id) is None
    assert unique_ids(entity_registry, entry, subentry_id) == set()
    assert (
        device_registry.async_get_device_by_identifier(
            ("fair_share", subentry_id), entry.entry_id
        )
        is None
    )


async def test_the_device_of_a_member_who_left_stays_and_is_shared(
    hass: HomeAssistant, entry: ConfigEntry, talk: Talk, show: Show, elapse: Elapse
) -> None:
    hass.config_entries.async_remove_subentry(entry, "parent")
    await hass.async_block_till_done()
    await talk(None, device_id="d_phone")
    await elapse(6)
    assert show("phone_tokens_served") == "6"
    assert show("household_entry_shared_tokens_served") == "6"


async def test_a_member_who_leaves_while_they_are_answered_breaks_nothing(
    hass: HomeAssistant, entry: ConfigEntry, talk: Talk, show: Show, elapse: Elapse
) -> None:
    await talk("user_parent")  # a write is due in five seconds
    hass.config_entries.async_remove_subentry(entry, "parent")
    await hass.async_block_till_done()
    await elapse(6)
    assert show("household_entry_tokens_served") == "6"


async def test_a_sensor_that_is_told_of_an_account_just_gone_stays_as_it_is(
    entry: ConfigEntry,
    show: Show,
    elapse: Elapse,
    caplog: pytest.LogCaptureFixture,
) -> None:
    entry.runtime_data.queue.remove_node("child")
    entry.runtime_data.updates.touch("child")
    await elapse(6)
    assert show("child_tokens_served") == "0"
    assert "KeyError" not in caplog.text


async def test_a_renamed_member_renames_the_device(
    hass: HomeAssistant,
    entry: ConfigEntry,
    device_registry: dr.DeviceRegistry,
    elapse: Elapse,
) -> None:
    hass.config_entries.async_update_subentry(
        entry, entry.subentries["parent"], title="Parent Maria"
    )
    await elapse(6)
    assert found_device(device_registry, entry, "parent").name == "Parent Maria"


async def test_the_device_of_a_server_leads_to_it_also_after_it_moved(
    hass: HomeAssistant,
    entry: ConfigEntry,
    device_registry: dr.DeviceRegistry,
    elapse: Elapse,
) -> None:
    found = found_device(device_registry, entry, "server")
    old = entry.subentries["server"]
    assert found.model == "fake-model"
    assert found.configuration_url == old.data["url"]

    hass.config_entries.async_update_subentry(
        entry,
        old,
        title="other (127.0.0.1:1)",
        data={**old.data, "url": "http://127.0.0.1:1", "model": "other"},
    )
    await elapse(6)

    found = found_device(device_registry, entry, "server")
    assert found.name == "other (127.0.0.1:1)"
    assert found.model == "other"
    assert found.configuration_url == "http://127.0.0.1:1"


async def test_a_name_that_people_gave_the_device_stays(
    hass: HomeAssistant,
    entry: ConfigEntry,
    device_registry: dr.DeviceRegistry,
    elapse: Elapse,
) -> None:
    parent = found_device(device_registry, entry, "parent")
    device_registry.async_update_device(parent.id, name_by_user="Mum")
    hass.config_entries.async_update_subentry(
        entry, entry.subentries["parent"], title="Parent Maria"
    )
    await elapse(6)
    assert found_device(device_registry, entry, "parent").name_by_user == "Mum"


async def test_the_same_member_is_not_added_twice(
    hass: HomeAssistant,
    entry: ConfigEntry,
    caplog: pytest.LogCaptureFixture,
    elapse: Elapse,
) -> None:
    hass.config_entries.async_add_subentry(entry, subentry(member("teen")))
    await elapse(6)
    hass.config_entries.async_add_subentry(entry, subentry(member("visitor")))
    await elapse(6)
    assert "does not generate unique IDs" not in caplog.text
