"""Adding a client of the gateway, changing it, and making it a new key."""

from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.fair_share.const import GATEWAY_PATH
from custom_components.fair_share.household.client_keys import client_of_key
from tests.flows.drive import SHARE, Result, add, change, fields, only, shown, submit


async def _added(
    hass: HomeAssistant, household: MockConfigEntry, **user_input: object
) -> tuple[str, Result]:
    """Add a client; return the key that is shown, and how it ended."""
    result = await add(hass, household, "client")
    result = await submit(hass, result, {"name": "Chat", **SHARE, **user_input})
    assert result["step_id"] == "show_key"
    key = shown(result)["key"]
    result = await submit(hass, result, {})
    assert result["type"] is FlowResultType.CREATE_ENTRY
    return key, result


def _owner(household: MockConfigEntry, key: str) -> str | None:
    clients = household.runtime_data.registry.clients.values()
    client = client_of_key(key, clients)
    return client and client.name


async def test_a_client_gets_a_key_that_is_shown_once(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    key, _ = await _added(hass, household)
    client = only(household, "client")
    assert client.title == "Chat"
    assert key.startswith("fs-")
    assert len(key) > 40
    assert key not in str(dict(client.data))
    assert client.data["key_hint"] == key[-4:]
    assert _owner(household, key) == "Chat"
    assert _owner(household, f"{key}x") is None


async def test_the_address_to_enter_is_shown(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await add(hass, household, "client")
    result = await submit(hass, result, {"name": "Chat", **SHARE})
    assert shown(result)["address"] == f"http://10.10.10.10:8123{GATEWAY_PATH}"
    hass.config.internal_url = "http://10.0.0.5:8123"
    result = await add(hass, household, "client")
    result = await submit(hass, result, {"name": "Chat", **SHARE})
    assert shown(result)["address"] == f"http://10.0.0.5:8123{GATEWAY_PATH}"
    hass.config.internal_url = hass.config.api = None
    result = await add(hass, household, "client")
    result = await submit(hass, result, {"name": "Chat", **SHARE})
    assert shown(result)["address"] == f"http://homeassistant.local:8123{GATEWAY_PATH}"


async def test_nothing_is_added_by_who_closes_the_dialog_before_the_key(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await add(hass, household, "client")
    result = await submit(hass, result, {"name": "Chat", **SHARE})
    hass.config_entries.subentries.async_abort(result["flow_id"])
    assert household.get_subentries_of_type("client") == []


async def test_a_client_belongs_to_a_member_a_device_or_everybody(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    parent = only(household, "member")
    result = await add(hass, household, "client")
    options = fields(result)["member"].config["options"]
    assert [option["value"] for option in options] == [parent.subentry_id, "shared"]
    await _added(hass, household, member=parent.subentry_id, workload="background")
    client = only(household, "client")
    registry = household.runtime_data.registry
    asker = registry.clients[client.subentry_id].asker
    assert asker.member_id == parent.subentry_id
    assert asker.workload == "background"
    assert registry.spec(client.subentry_id).parent_id == parent.subentry_id


async def test_a_new_key_ends_the_old_one_and_keeps_the_rest(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    old, _ = await _added(hass, household, requests_per_minute=7)
    before = dict(only(household, "client").data)
    result = await change(hass, household, only(household, "client"))
    assert result["menu_options"] == ["settings", "new_key"]
    result = await submit(hass, result, {"next_step_id": "new_key"})
    new = shown(result)["key"]
    assert _owner(household, old) == "Chat"
    result = await submit(hass, result, {})
    await hass.async_block_till_done()
    assert result["reason"] == "reconfigure_successful"
    assert (_owner(household, old), _owner(household, new)) == (None, "Chat")
    after = dict(only(household, "client").data)
    assert after["key_hash"] != before["key_hash"]
    changed = {"key_hash", "key_hint"}
    assert {k: v for k, v in after.items() if k not in changed} == {
        k: v for k, v in before.items() if k not in changed
    }


async def test_its_limits_are_changed_without_touching_the_key(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    key, _ = await _added(hass, household)
    result = await change(hass, household, only(household, "client"))
    result = await submit(hass, result, {"next_step_id": "settings"})
    changed = {**SHARE, "member": "shared", "workload": "task", "from_outside": True}
    await submit(hass, result, {**changed, "requests_per_minute": 5, "weight": 2.0})
    await hass.async_block_till_done()
    registry = household.runtime_data.registry
    client = client_of_key(key, registry.clients.values())
    assert client is not None
    assert (client.workload, client.requests_per_minute) == ("task", 5)
    assert client.from_outside
    assert client.spec.weight == 2.0


@pytest.mark.parametrize(
    ("user_input", "errors"),
    [
        ({"name": "  "}, {"name": "name_missing"}),
        (
            {"quota": {"quota_window": "steady", "quota_end": "stop"}},
            {"quota": "refill_missing"},
        ),
    ],
)
async def test_what_is_missing_is_said(
    hass: HomeAssistant,
    household: MockConfigEntry,
    user_input: dict[str, object],
    errors: dict[str, str],
) -> None:
    result = await add(hass, household, "client")
    result = await submit(hass, result, {"name": "Chat", **SHARE, **user_input})
    assert result["errors"] == errors
    result = await submit(hass, result, {"name": "Chat", **SHARE})
    assert result["step_id"] == "show_key"


async def test_a_steady_quota_needs_a_refill_when_it_is_changed_too(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    await _added(hass, household)
    result = await change(hass, household, only(household, "client"))
    result = await submit(hass, result, {"next_step_id": "settings"})
    steady = {"quota": {"quota_window": "steady", "quota_end": "stop"}}
    result = await submit(hass, result, {**SHARE, **steady})
    assert result["errors"] == {"quota": "refill_missing"}


async def test_a_client_whose_member_is_gone_belongs_to_everybody(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    parent = only(household, "member")
    await _added(hass, household, member=parent.subentry_id)
    hass.config_entries.async_remove_subentry(household, parent.subentry_id)
    await hass.async_block_till_done()
    client = only(household, "client")
    registry = household.runtime_data.registry
    assert registry.clients[client.subentry_id].member_id == "shared"
    result = await change(hass, household, client)
    result = await submit(hass, result, {"next_step_id": "settings"})
    assert shown(result)["member"] == "shared"


async def test_nothing_is_added_while_the_household_does_not_run(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    await hass.config_entries.async_unload(household.entry_id)
    result = await add(hass, household, "client")
    assert result["reason"] == "entry_not_loaded"
