"""Adding and changing a device."""

from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType
from homeassistant.helpers import device_registry as dr
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from tests.common import device, subentry
from tests.flows.drive import SHARE, Result, add, change, fields, only, shown, submit


@pytest.fixture
def satellite(
    hass: HomeAssistant, device_registry: dr.DeviceRegistry
) -> dr.DeviceEntry:
    """A device in the kitchen."""
    other = MockConfigEntry(domain="esphome")
    other.add_to_hass(hass)
    return device_registry.async_get_or_create(
        config_entry_id=other.entry_id, identifiers={("esphome", "1")}, name="Kitchen"
    )


async def _add(hass: HomeAssistant, household: MockConfigEntry, which: str) -> Result:
    result = await add(hass, household, "device")
    assert result["type"] is FlowResultType.MENU
    assert result["menu_options"] == ["satellite", "other_device"]
    return await submit(hass, result, {"next_step_id": which})


async def test_a_satellite_is_added_to_the_share_of_a_member(
    hass: HomeAssistant, household: MockConfigEntry, satellite: dr.DeviceEntry
) -> None:
    parent = only(household, "member")
    result = await _add(hass, household, "satellite")
    assert result["step_id"] == "satellite"
    assert fields(result)["device_id"].config["entity"] == [
        {"domain": ["assist_satellite"]}
    ]
    assert fields(result)["member"].config["options"] == [
        {"value": parent.subentry_id, "label": "Parent"},
        {"value": "shared", "label": "shared"},
    ]
    assert (shown(result)["member"], shown(result)["workload"]) == ("shared", "voice")

    result = await submit(
        hass,
        result,
        {
            "device_id": satellite.id,
            "member": parent.subentry_id,
            "workload": "accessibility",
            "weight": 3,
            "quota": {"quota_tokens": 10, "quota_window": "day"},
            "limits": {"in_flight": 1},
        },
    )
    assert result["type"] is FlowResultType.CREATE_ENTRY
    added = only(household, "device")
    assert (added.title, added.unique_id) == ("Kitchen", f"device:{satellite.id}")
    assert added.data == {
        "device_id": satellite.id,
        "member": parent.subentry_id,
        "workload": "accessibility",
        "weight": 3.0,
        "quota_tokens": 10,
        "quota_window": "day",
        "in_flight": 1,
    }


async def test_any_device_can_be_added_under_the_name_people_gave_it(
    hass: HomeAssistant,
    household: MockConfigEntry,
    satellite: dr.DeviceEntry,
    device_registry: dr.DeviceRegistry,
) -> None:
    device_registry.async_update_device(satellite.id, name_by_user="Tablet")
    result = await _add(hass, household, "other_device")
    assert "entity" not in fields(result)["device_id"].config
    chosen = {"device_id": satellite.id, "member": "shared", "workload": "chat"}
    await submit(hass, result, {**chosen, **SHARE})
    added = only(household, "device")
    assert added.title == "Tablet"
    assert added.data == {**chosen, "weight": 1.0, "quota_window": "day"}


async def test_the_same_device_is_not_added_twice(
    hass: HomeAssistant, household: MockConfigEntry, satellite: dr.DeviceEntry
) -> None:
    known = subentry(device("kitchen", satellite.id))
    hass.config_entries.async_add_subentry(household, known)
    result = await _add(hass, household, "satellite")
    result = await submit(hass, result, {"device_id": satellite.id, **SHARE})
    assert (result["type"], result["reason"]) == (
        FlowResultType.ABORT,
        "already_configured",
    )


async def test_a_device_that_vanished_meanwhile_is_told(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await _add(hass, household, "satellite")
    result = await submit(hass, result, {"device_id": "gone", **SHARE, "weight": 2})
    assert result["step_id"] == "satellite"
    assert result["errors"] == {"device_id": "device_not_found"}
    assert shown(result)["weight"] == 2


async def test_no_device_is_added_to_a_household_that_does_not_run(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    await hass.config_entries.async_unload(household.entry_id)
    result = await add(hass, household, "device")
    assert result["reason"] == "entry_not_loaded"


async def test_a_device_changes_hands(
    hass: HomeAssistant, household: MockConfigEntry, satellite: dr.DeviceEntry
) -> None:
    known = device(
        "kitchen", satellite.id, "left", workload="voice", quota_tokens=5, weight=2.0
    )
    hass.config_entries.async_add_subentry(household, subentry(known))
    result = await change(hass, household, only(household, "device"))
    assert result["step_id"] == "reconfigure"
    assert result["description_placeholders"] == {"device": "Kitchen"}
    assert "device_id" not in fields(result)
    assert shown(result)["member"] == "shared"
    assert shown(result)["quota"] == {"quota_tokens": 5, "quota_window": "day"}

    parent = only(household, "member").subentry_id
    result = await submit(
        hass, result, {"member": parent, "workload": "background", **SHARE}
    )
    assert result["reason"] == "reconfigure_successful"
    assert only(household, "device").data == {
        "device_id": satellite.id,
        "member": parent,
        "workload": "background",
        "weight": 1.0,
        "quota_window": "day",
    }


async def test_the_member_of_a_device_is_shown_again(
    hass: HomeAssistant, household: MockConfigEntry, satellite: dr.DeviceEntry
) -> None:
    parent = only(household, "member").subentry_id
    known = subentry(device("kitchen", satellite.id, parent))
    hass.config_entries.async_add_subentry(household, known)
    result = await change(hass, household, only(household, "device"))
    assert shown(result)["member"] == parent
