"""Adding and changing a device."""

from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType
from homeassistant.helpers import (
    area_registry as ar,
    device_registry as dr,
    entity_registry as er,
)
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from tests.common import device, subentry
from tests.flows.drive import SHARE, Result, add, change, fields, only, shown, submit


@pytest.fixture
def kitchen(
    hass: HomeAssistant,
    device_registry: dr.DeviceRegistry,
    entity_registry: er.EntityRegistry,
    area_registry: ar.AreaRegistry,
) -> dr.DeviceEntry:
    """A voice satellite in the kitchen."""
    device = _device(hass, device_registry, "Satellite")
    entity_registry.async_get_or_create(
        "assist_satellite", "esphome", device.id, device_id=device.id
    )
    area = area_registry.async_create("Kitchen")
    found = device_registry.async_update_device(device.id, area_id=area.id)
    assert found is not None
    return found


@pytest.fixture
def tablet(hass: HomeAssistant, device_registry: dr.DeviceRegistry) -> dr.DeviceEntry:
    """A device that is no satellite."""
    return _device(hass, device_registry, "Tablet")


def _device(
    hass: HomeAssistant, registry: dr.DeviceRegistry, name: str
) -> dr.DeviceEntry:
    other = MockConfigEntry(domain="esphome")
    other.add_to_hass(hass)
    return registry.async_get_or_create(
        config_entry_id=other.entry_id, identifiers={("esphome", name)}, name=name
    )


def _offered(result: Result) -> list[tuple[str, str]]:
    """Return the devices that a form offers, by id and label."""
    options = fields(result)["device_id"].config["options"]
    return [(option["value"], option["label"]) for option in options]


async def _add(hass: HomeAssistant, household: MockConfigEntry, which: str) -> Result:
    result = await add(hass, household, "device")
    assert result["type"] is FlowResultType.MENU
    assert result["menu_options"] == ["satellite", "other_device"]
    return await submit(hass, result, {"next_step_id": which})


async def test_a_satellite_is_added_to_the_share_of_a_member(
    hass: HomeAssistant, household: MockConfigEntry, kitchen: dr.DeviceEntry
) -> None:
    parent = only(household, "member")
    result = await _add(hass, household, "satellite")
    assert result["step_id"] == "satellite"
    assert _offered(result) == [(kitchen.id, "Satellite (Kitchen, esphome)")]
    assert fields(result)["member"].config["options"] == [
        {"value": parent.subentry_id, "label": "Parent"},
        {"value": "shared", "label": "shared"},
    ]
    assert (shown(result)["member"], shown(result)["workload"]) == ("shared", "voice")

    result = await submit(
        hass,
        result,
        {
            "device_id": kitchen.id,
            "member": parent.subentry_id,
            "workload": "accessibility",
            "weight": 3,
            "quota": {
                "quota_tokens": 10,
                "quota_window": "steady",
                "quota_refill": 2,
                "quota_end": "demote",
            },
            "limits": {"in_flight": 1, "queued": 2},
        },
    )
    assert result["type"] is FlowResultType.CREATE_ENTRY
    added = only(household, "device")
    assert (added.title, added.unique_id) == ("Satellite", f"device:{kitchen.id}")
    assert added.data == {
        "device_id": kitchen.id,
        "member": parent.subentry_id,
        "workload": "accessibility",
        "weight": 3.0,
        "quota_tokens": 10,
        "quota_window": "steady",
        "quota_refill": 2,
        "quota_end": "demote",
        "in_flight": 1,
        "queued": 2,
    }


async def test_another_device_is_added_under_the_name_people_gave_it(
    hass: HomeAssistant,
    household: MockConfigEntry,
    tablet: dr.DeviceEntry,
    device_registry: dr.DeviceRegistry,
) -> None:
    device_registry.async_update_device(tablet.id, name_by_user="Wall")
    result = await _add(hass, household, "other_device")
    assert _offered(result) == [(tablet.id, "Wall (esphome)")]
    assert shown(result)["workload"] == "chat"
    chosen = {"device_id": tablet.id, "member": "shared", "workload": "chat"}
    await submit(hass, result, {**chosen, **SHARE})
    added = only(household, "device")
    assert added.title == "Wall"
    assert added.data == {**chosen, "weight": 1.0, **SHARE["quota"]}


@pytest.mark.usefixtures("kitchen", "tablet")
async def test_the_households_own_devices_are_not_offered(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    shown_names = [
        [label for _, label in _offered(await _add(hass, household, which))]
        for which in ("satellite", "other_device")
    ]
    assert shown_names == [["Satellite (Kitchen, esphome)"], ["Tablet (esphome)"]]


@pytest.mark.parametrize("which", ["satellite", "other_device"])
async def test_when_every_device_has_been_added_the_dialog_says_so(
    hass: HomeAssistant,
    household: MockConfigEntry,
    kitchen: dr.DeviceEntry,
    tablet: dr.DeviceEntry,
    which: str,
) -> None:
    for known in (device("kitchen", kitchen.id), device("tablet", tablet.id)):
        hass.config_entries.async_add_subentry(household, subentry(known))
    result = await _add(hass, household, which)
    assert (result["type"], result["reason"]) == (FlowResultType.ABORT, f"no_{which}")


async def test_a_device_added_in_two_dialogs_at_once_is_added_once(
    hass: HomeAssistant, household: MockConfigEntry, kitchen: dr.DeviceEntry
) -> None:
    result = await _add(hass, household, "satellite")
    known = subentry(device("kitchen", kitchen.id))
    hass.config_entries.async_add_subentry(household, known)
    result = await submit(hass, result, {"device_id": kitchen.id, **SHARE})
    assert (result["type"], result["reason"]) == (
        FlowResultType.ABORT,
        "already_configured",
    )


async def test_a_device_that_vanished_meanwhile_is_told(
    hass: HomeAssistant,
    household: MockConfigEntry,
    tablet: dr.DeviceEntry,
    device_registry: dr.DeviceRegistry,
) -> None:
    _device(hass, device_registry, "Phone")
    result = await _add(hass, household, "other_device")
    device_registry.async_remove_device(tablet.id)
    typed = {"device_id": tablet.id, **SHARE, "weight": 2}
    result = await submit(hass, result, typed)
    assert result["step_id"] == "other_device"
    assert result["errors"] == {"device_id": "device_not_found"}
    assert [label for _, label in _offered(result)] == ["Phone (esphome)"]
    assert shown(result)["weight"] == 2


async def test_no_device_is_added_to_a_household_that_does_not_run(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    await hass.config_entries.async_unload(household.entry_id)
    result = await add(hass, household, "device")
    assert result["reason"] == "entry_not_loaded"


async def test_a_device_changes_hands(
    hass: HomeAssistant, household: MockConfigEntry, kitchen: dr.DeviceEntry
) -> None:
    known = device(
        "kitchen", kitchen.id, "left", workload="voice", quota_tokens=5, weight=2.0
    )
    hass.config_entries.async_add_subentry(household, subentry(known))
    result = await change(hass, household, only(household, "device"))
    assert result["step_id"] == "reconfigure"
    assert result["description_placeholders"] == {"device": "Kitchen"}
    assert "device_id" not in fields(result)
    assert shown(result)["member"] == "shared"
    assert shown(result)["quota"] == {
        "quota_tokens": 5,
        "quota_window": "day",
        "quota_refill": None,
        "quota_end": "stop",
    }

    parent = only(household, "member").subentry_id
    result = await submit(
        hass, result, {"member": parent, "workload": "background", **SHARE}
    )
    assert result["reason"] == "reconfigure_successful"
    assert only(household, "device").data == {
        "device_id": kitchen.id,
        "member": parent,
        "workload": "background",
        "weight": 1.0,
        **SHARE["quota"],
    }


async def test_the_member_of_a_device_is_shown_again(
    hass: HomeAssistant, household: MockConfigEntry, kitchen: dr.DeviceEntry
) -> None:
    parent = only(household, "member").subentry_id
    known = subentry(device("kitchen", kitchen.id, parent))
    hass.config_entries.async_add_subentry(household, known)
    result = await change(hass, household, only(household, "device"))
    assert shown(result)["member"] == parent


STEADY = {"quota_tokens": 100, "quota_window": "steady", "quota_end": "stop"}


async def test_a_steady_quota_of_a_new_device_needs_its_refill(
    hass: HomeAssistant, household: MockConfigEntry, tablet: dr.DeviceEntry
) -> None:
    result = await _add(hass, household, "other_device")
    typed = {"device_id": tablet.id, **SHARE, "quota": STEADY}
    result = await submit(hass, result, typed)
    assert result["errors"] == {"quota": "refill_missing"}
    assert shown(result)["device_id"] == tablet.id


async def test_a_steady_quota_of_a_device_needs_its_refill(
    hass: HomeAssistant, household: MockConfigEntry, tablet: dr.DeviceEntry
) -> None:
    added = subentry(device("tablet", tablet.id))
    hass.config_entries.async_add_subentry(household, added)
    await hass.async_block_till_done()
    result = await change(hass, household, only(household, "device"))
    result = await submit(hass, result, {**SHARE, "quota": STEADY})
    assert result["errors"] == {"quota": "refill_missing"}
    result = await submit(
        hass, result, {**SHARE, "quota": {**STEADY, "quota_refill": 10}}
    )
    assert result["reason"] == "reconfigure_successful"
