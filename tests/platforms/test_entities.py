"""Devices and entities: what they are, and how they follow the household."""

import json
from pathlib import Path
from typing import Any

from homeassistant.components.sensor import (
    DEVICE_CLASS_STATE_CLASSES,
    DEVICE_CLASS_UNITS,
    SensorDeviceClass as Kind,
    SensorEntityDescription,
    SensorStateClass as Class,
)
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import STATE_UNAVAILABLE, EntityCategory
from homeassistant.core import HomeAssistant
from homeassistant.helpers import device_registry as dr, entity_registry as er
import pytest

from custom_components import fair_share
from custom_components.fair_share.sensor import SERVER_STATE, SLOTS_USED
from custom_components.fair_share.sensor_descriptions import (
    HOUSEHOLD_SENSORS,
    MEMBER_SENSORS,
)
from tests.common import device, member, server, subentry
from tests.platforms.conftest import Elapse, Show, Talk

PACKAGE = Path(fair_share.__file__).parent
TEXTS = json.loads((PACKAGE / "translations" / "en.json").read_text())
ICONS = json.loads((PACKAGE / "icons.json").read_text())
DESCRIPTIONS: dict[str, SensorEntityDescription] = {
    description.key: description
    for description in (*HOUSEHOLD_SENSORS, *MEMBER_SENSORS, SERVER_STATE, SLOTS_USED)
}


def found_device(
    registry: dr.DeviceRegistry, entry: ConfigEntry, identifier: str
) -> dr.DeviceEntry:
    """Return the device with this identifier."""
    found = registry.async_get_device_by_identifier(
        ("fair_share", identifier), entry.entry_id
    )
    assert found is not None, identifier
    return found


def unique_ids(
    registry: er.EntityRegistry, entry: ConfigEntry, prefix: str
) -> set[str]:
    """Return what the sensors of one node or server show."""
    return {
        entity.unique_id.removeprefix(f"{prefix}_")
        for entity in er.async_entries_for_config_entry(registry, entry.entry_id)
        if entity.unique_id.startswith(f"{prefix}_")
    }


MEMBER_KEYS = {
    "queue_depth",
    "tokens_window",
    "quota_remaining",
    "quota_remaining_percent",
    "next_reset",
    "tokens_served",
    "last_wait",
    "last_ttft",
    "preemptions",
    "rejected",
}


# ---- what there is -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("identifier", "name", "subentry_id"),
    [
        ("household_entry_guest", "Guests", None),
        ("household_entry_shared", "Shared", None),
        ("anna", "Anna", "anna"),
        ("phone", "Phone", "phone"),
    ],
)
async def test_everybody_has_a_device_behind_the_households(
    entry: ConfigEntry,
    device_registry: dr.DeviceRegistry,
    identifier: str,
    name: str,
    subentry_id: str | None,
) -> None:
    household = found_device(device_registry, entry, "household_entry")
    found = found_device(device_registry, entry, identifier)
    assert found.name == name
    assert found.via_device_id == household.id
    assert found.entry_type is dr.DeviceEntryType.SERVICE
    assert found.config_subentry_id == subentry_id


async def test_the_household_is_a_service(
    entry: ConfigEntry, device_registry: dr.DeviceRegistry
) -> None:
    household = found_device(device_registry, entry, "household_entry")
    assert household.name == "Fair Share"
    assert household.entry_type is dr.DeviceEntryType.SERVICE
    assert household.via_device_id is None


@pytest.mark.parametrize(
    "prefix", ["household_entry_guest", "household_entry_shared", "ben", "phone"]
)
async def test_members_and_devices_have_the_same_sensors(
    entry: ConfigEntry, entity_registry: er.EntityRegistry, prefix: str
) -> None:
    assert unique_ids(entity_registry, entry, prefix) == MEMBER_KEYS


async def test_a_server_has_its_state_and_its_slots(
    entry: ConfigEntry, entity_registry: er.EntityRegistry
) -> None:
    assert unique_ids(entity_registry, entry, "server") == {
        "server_state",
        "slots_used",
    }


@pytest.mark.parametrize(
    ("key", "kind", "state_class", "unit", "category", "enabled"),
    [
        ("queue_depth", None, Class.MEASUREMENT, None, None, True),
        ("running", None, Class.MEASUREMENT, None, None, True),
        ("tokens_served", None, Class.TOTAL, None, None, True),
        ("tokens_prompt", None, Class.TOTAL, None, "diagnostic", False),
        ("tokens_cached", None, Class.TOTAL, None, "diagnostic", False),
        ("tokens_output", None, Class.TOTAL, None, "diagnostic", False),
        ("tokens_window", None, Class.TOTAL, None, None, True),
        ("quota_remaining", None, Class.MEASUREMENT, None, None, True),
        ("quota_remaining_percent", None, Class.MEASUREMENT, "%", None, True),
        ("next_reset", Kind.TIMESTAMP, None, None, None, True),
        ("last_wait", Kind.DURATION, Class.MEASUREMENT, "s", None, True),
        ("last_ttft", Kind.DURATION, Class.MEASUREMENT, "s", "diagnostic", True),
        ("preemptions", None, Class.TOTAL_INCREASING, None, "diagnostic", True),
        ("rejected", None, Class.TOTAL_INCREASING, None, "diagnostic", True),
        ("server_state", Kind.ENUM, None, None, None, True),
        ("slots_used", None, Class.MEASUREMENT, None, "diagnostic", True),
    ],
)
def test_a_sensor_is_of_its_kind(
    key: str,
    kind: Kind | None,
    state_class: Class | None,
    unit: str | None,
    category: EntityCategory | None,
    *,
    enabled: bool,
) -> None:
    description = DESCRIPTIONS[key]
    assert description.device_class == kind
    assert description.state_class == state_class
    assert description.native_unit_of_measurement == unit
    assert description.entity_category == category
    assert description.entity_registry_enabled_default is enabled


@pytest.mark.parametrize("description", DESCRIPTIONS.values(), ids=list(DESCRIPTIONS))
def test_home_assistant_knows_such_a_kind(description: SensorEntityDescription) -> None:
    kind = description.device_class
    unit = description.native_unit_of_measurement
    allowed_units = DEVICE_CLASS_UNITS.get(kind, {unit})
    allowed_classes = DEVICE_CLASS_STATE_CLASSES.get(kind, {description.state_class})
    assert unit in allowed_units
    assert description.state_class in allowed_classes | {None}


def test_every_sensor_and_only_they_have_texts_and_an_icon() -> None:
    assert set(TEXTS["entity"]["sensor"]) == set(DESCRIPTIONS)
    assert set(ICONS["entity"]["sensor"]) == set(DESCRIPTIONS)


@pytest.mark.parametrize("description", DESCRIPTIONS.values(), ids=list(DESCRIPTIONS))
def test_a_number_without_a_unit_of_its_own_has_one_in_words(
    description: SensorEntityDescription,
) -> None:
    text: dict[str, Any] = TEXTS["entity"]["sensor"][description.key]
    has_unit = bool(description.native_unit_of_measurement)
    is_number = description.state_class is not None
    assert ("unit_of_measurement" in text) == (is_number and not has_unit)


def test_every_state_of_a_server_has_a_text() -> None:
    assert list(TEXTS["entity"]["sensor"]["server_state"]["state"]) == list(
        SERVER_STATE.options or ()
    )


# ---- how it follows ----------------------------------------------------------------


async def test_a_new_member_appears_with_their_sensors(
    hass: HomeAssistant,
    entry: ConfigEntry,
    entity_registry: er.EntityRegistry,
    show: Show,
) -> None:
    hass.config_entries.async_add_subentry(entry, subentry(member("cleo")))
    await hass.async_block_till_done()
    assert unique_ids(entity_registry, entry, "cleo") == MEMBER_KEYS
    assert show("cleo_tokens_served") == "0"


async def test_a_new_device_appears_and_counts_at_once(
    hass: HomeAssistant, entry: ConfigEntry, talk: Talk, show: Show, elapse: Elapse
) -> None:
    hass.config_entries.async_add_subentry(
        entry, subentry(device("tablet", "d_tablet", "ben", workload="chat"))
    )
    await hass.async_block_till_done()
    await talk("user_ben", device_id="d_tablet")
    await elapse(6)
    assert show("tablet_tokens_served") == "6"
    assert show("ben_tokens_served") == "6"


async def test_a_new_server_appears(
    hass: HomeAssistant, entry: ConfigEntry, show: Show
) -> None:
    nowhere = server("http://127.0.0.1:1", subentry_id="cellar")
    hass.config_entries.async_add_subentry(entry, subentry(nowhere))
    await hass.async_block_till_done()
    assert show("cellar_server_state") == "unreachable"
    assert show("cellar_slots_used") == STATE_UNAVAILABLE


@pytest.mark.parametrize("subentry_id", ["anna", "phone", "server"])
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
    hass.config_entries.async_remove_subentry(entry, "anna")
    await hass.async_block_till_done()
    await talk(None, device_id="d_phone")
    await elapse(6)
    assert show("phone_tokens_served") == "6"
    assert show("household_entry_shared_tokens_served") == "6"


async def test_a_member_who_leaves_while_they_are_answered_breaks_nothing(
    hass: HomeAssistant, entry: ConfigEntry, talk: Talk, show: Show, elapse: Elapse
) -> None:
    await talk("user_anna")  # a write is due in five seconds
    hass.config_entries.async_remove_subentry(entry, "anna")
    await hass.async_block_till_done()
    await elapse(6)
    assert show("household_entry_tokens_served") == "6"


async def test_a_sensor_that_is_told_of_an_account_just_gone_stays_as_it_is(
    entry: ConfigEntry,
    show: Show,
    elapse: Elapse,
    caplog: pytest.LogCaptureFixture,
) -> None:
    entry.runtime_data.queue.remove_node("ben")
    entry.runtime_data.updates.touch("ben")
    await elapse(6)
    assert show("ben_tokens_served") == "0"
    assert "KeyError" not in caplog.text


async def test_a_renamed_member_renames_the_device(
    hass: HomeAssistant,
    entry: ConfigEntry,
    device_registry: dr.DeviceRegistry,
    elapse: Elapse,
) -> None:
    hass.config_entries.async_update_subentry(
        entry, entry.subentries["anna"], title="Anna Maria"
    )
    await elapse(6)
    assert found_device(device_registry, entry, "anna").name == "Anna Maria"


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
    anna = found_device(device_registry, entry, "anna")
    device_registry.async_update_device(anna.id, name_by_user="Mum")
    hass.config_entries.async_update_subentry(
        entry, entry.subentries["anna"], title="Anna Maria"
    )
    await elapse(6)
    assert found_device(device_registry, entry, "anna").name_by_user == "Mum"


async def test_the_same_member_is_not_added_twice(
    hass: HomeAssistant,
    entry: ConfigEntry,
    caplog: pytest.LogCaptureFixture,
    elapse: Elapse,
) -> None:
    hass.config_entries.async_add_subentry(entry, subentry(member("cleo")))
    await elapse(6)
    hass.config_entries.async_add_subentry(entry, subentry(member("dora")))
    await elapse(6)
    assert "does not generate unique IDs" not in caplog.text
