"""Repairing the way to a server: new key, new address."""

from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.fair_share.const import DOMAIN
from tests.common import server, subentry
from tests.fake_server import FakeServer
from tests.flows.drive import Result, fields, go_on, only, progress, repair, shown


async def _reauth(
    hass: HomeAssistant, household: MockConfigEntry, server_id: str
) -> Result:
    household.async_start_reauth(hass, data={"server_id": server_id})
    await hass.async_block_till_done()
    (flow,) = hass.config_entries.flow.async_progress_by_handler(DOMAIN)
    return await go_on(hass, dict(flow))


async def test_a_new_key_is_asked_for_until_the_server_takes_it(
    hass: HomeAssistant, household: MockConfigEntry, llama: FakeServer
) -> None:
    llama.api_key = "new"
    refused = only(household, "server")
    before = dict(refused.data)

    result = await _reauth(hass, household, refused.subentry_id)
    assert result["step_id"] == "reauth_confirm"
    assert result["description_placeholders"]["server"] == refused.title

    result = await go_on(hass, result, {"api_key": "wrong"})
    assert result["step_id"] == "reauth_confirm"
    assert result["errors"] == {"base": "invalid_auth"}

    result = await go_on(hass, result, {"api_key": "new"})
    assert result["type"] is FlowResultType.ABORT
    assert result["reason"] == "reauth_successful"
    assert only(household, "server").data == {**before, "api_key": "new"}


async def test_a_copied_key_is_stored_without_the_blanks_around_it(
    hass: HomeAssistant, household: MockConfigEntry, llama: FakeServer
) -> None:
    llama.api_key = "new"
    refused = only(household, "server")
    result = await _reauth(hass, household, refused.subentry_id)
    result = await go_on(hass, result, {"api_key": " new\n"})
    assert result["type"] is FlowResultType.ABORT
    assert only(household, "server").data["api_key"] == "new"


@pytest.mark.parametrize("key", ["new\r\nX: y", "n\0w", "n\ud800w", "n\tw", "  "])
async def test_a_key_that_no_server_can_take_is_asked_for_again(
    hass: HomeAssistant, household: MockConfigEntry, llama: FakeServer, key: str
) -> None:
    llama.api_key = "new"
    refused = only(household, "server")
    result = await _reauth(hass, household, refused.subentry_id)
    result = await go_on(hass, result, {"api_key": key})
    assert result["errors"] == {"base": "invalid_auth"}


async def test_a_new_key_is_stored_once_the_server_has_loaded(
    hass: HomeAssistant, household: MockConfigEntry, llama: FakeServer
) -> None:
    llama.loading = True
    result = await _reauth(hass, household, only(household, "server").subentry_id)
    result = await go_on(hass, result, {"api_key": "new"})
    assert result["type"] is FlowResultType.SHOW_PROGRESS
    async with progress(hass):
        llama.loading = False
    result = await go_on(hass, result)
    assert result["reason"] == "reauth_successful"
    assert only(household, "server").data["api_key"] == "new"


async def test_no_key_is_asked_for_of_a_server_that_is_gone(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await household.start_reauth_flow(hass)
    assert result["type"] is FlowResultType.ABORT
    assert result["reason"] == "server_removed"


async def test_the_only_server_is_reconfigured_without_a_choice(
    hass: HomeAssistant, household: MockConfigEntry, llama: FakeServer
) -> None:
    result = await repair(hass, household)
    assert result["step_id"] == "address"
    assert shown(result) == {"url": llama.url, "api_key": None}

    async with FakeServer("vllm", context_tokens=2048, models=("org/new",)) as moved:
        result = await go_on(hass, result, {"url": moved.url, "api_key": "k"})
        assert set(fields(result)) == {"slots", "more"}
        result = await go_on(hass, result, {"slots": 8})
    assert result["reason"] == "reconfigure_successful"
    changed = only(household, "server")
    assert (changed.title, changed.unique_id) == (
        f"new (127.0.0.1:{moved.port})",
        moved.url,
    )
    assert changed.data == {
        "url": moved.url,
        "api_key": "k",
        "kind": "vllm",
        "model": "org/new",
        "slots": 8,
        "scheduling": "none",
    }


async def test_of_several_servers_one_is_chosen(
    hass: HomeAssistant, household: MockConfigEntry, llama: FakeServer
) -> None:
    async with FakeServer() as second:
        other = subentry(server(second.url, subentry_id="second"))
        hass.config_entries.async_add_subentry(household, other)
        result = await repair(hass, household)
        assert result["step_id"] == "reconfigure"
        labels = [o["label"] for o in fields(result)["server"].config["options"]]
        assert labels == [s.title for s in household.get_subentries_of_type("server")]

        result = await go_on(hass, result, {"server": "second"})
        assert (result["step_id"], shown(result)["url"]) == ("address", second.url)
        result = await go_on(hass, result, {"url": llama.url})
    assert (result["type"], result["reason"]) == (
        FlowResultType.ABORT,
        "already_configured",
    )


async def test_a_server_that_was_removed_meanwhile_is_told(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    other = subentry(server("http://127.0.0.1:1", subentry_id="second"))
    hass.config_entries.async_add_subentry(household, other)
    result = await repair(hass, household)
    hass.config_entries.async_remove_subentry(household, "second")
    result = await go_on(hass, result, {"server": "second"})
    assert (result["type"], result["reason"]) == (
        FlowResultType.ABORT,
        "server_removed",
    )


async def test_a_household_without_a_server_says_so(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    gone = only(household, "server").subentry_id
    hass.config_entries.async_remove_subentry(household, gone)
    result = await repair(hass, household)
    assert (result["type"], result["reason"]) == (FlowResultType.ABORT, "no_server")
