"""Adding and changing a server of a household."""

from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType
from pytest_homeassistant_custom_component.common import MockConfigEntry

from tests.fake_server import FakeServer
from tests.flows.drive import add, change, fields, only, progress, shown, submit


async def test_a_second_server_is_added(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    async with FakeServer("vllm", context_tokens=2048) as second:
        result = await add(hass, household, "server")
        assert (result["step_id"], set(fields(result))) == ("user", {"url", "api_key"})
        result = await submit(hass, result, {"url": second.url})
        usual = {"patient_slots": None, "scheduling": "none"}
        assert result["step_id"] == "server"
        assert shown(result) == {"slots": 4, "more": usual}
        more = {"patient_slots": 2, "scheduling": "priority"}
        result = await submit(hass, result, {"slots": 6, "more": more})
    assert result["type"] is FlowResultType.CREATE_ENTRY
    added = list(household.get_subentries_of_type("server"))[-1]
    assert (added.title, added.unique_id) == (
        f"fake-model (127.0.0.1:{second.port})",
        second.url,
    )
    assert added.data == {
        "url": second.url,
        "kind": "vllm",
        "model": "fake-model",
        "slots": 6,
        "patient_slots": 2,
        "scheduling": "priority",
    }


async def test_a_server_that_does_not_answer_is_not_added(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    async with FakeServer() as second:
        pass
    result = await submit(
        hass, await add(hass, household, "server"), {"url": second.url}
    )
    assert (result["step_id"], result["errors"]) == ("user", {"base": "cannot_connect"})


async def test_a_server_that_is_still_loading_is_added_afterwards(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    async with FakeServer() as second:
        second.loading = True
        result = await add(hass, household, "server")
        result = await submit(hass, result, {"url": second.url})
        assert result["type"] is FlowResultType.SHOW_PROGRESS
        async with progress(hass):
            second.loading = False
        result = await submit(hass, result)
        assert result["step_id"] == "server"
        result = await submit(hass, result, {})
    assert result["type"] is FlowResultType.CREATE_ENTRY


async def test_the_same_server_is_not_added_twice(
    hass: HomeAssistant, household: MockConfigEntry, llama: FakeServer
) -> None:
    result = await submit(
        hass, await add(hass, household, "server"), {"url": f"{llama.url}/"}
    )
    assert (result["type"], result["reason"]) == (
        FlowResultType.ABORT,
        "already_configured",
    )


async def test_a_server_added_in_two_dialogs_at_once_is_added_once(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    async with FakeServer() as second:
        first = await add(hass, household, "server")
        other = await add(hass, household, "server")
        first = await submit(hass, first, {"url": second.url})
        other = await submit(hass, other, {"url": second.url})
        first = await submit(hass, first, {})
        other = await submit(hass, other, {})
    assert first["type"] is FlowResultType.CREATE_ENTRY
    assert (other["type"], other["reason"]) == (
        FlowResultType.ABORT,
        "already_configured",
    )


async def test_nothing_is_added_to_a_household_that_does_not_run(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    await hass.config_entries.async_unload(household.entry_id)
    result = await add(hass, household, "server")
    assert (result["type"], result["reason"]) == (
        FlowResultType.ABORT,
        "entry_not_loaded",
    )


async def test_a_server_moves_to_another_address(
    hass: HomeAssistant, household: MockConfigEntry, llama: FakeServer
) -> None:
    async with FakeServer(models=("new",)) as moved:
        result = await change(hass, household, only(household, "server"))
        assert result["step_id"] == "reconfigure"
        assert shown(result) == {"url": llama.url, "api_key": None}
        result = await submit(hass, result, {"url": moved.url})
        result = await submit(hass, result, {})
    assert result["reason"] == "reconfigure_successful"
    changed = only(household, "server")
    assert (changed.unique_id, changed.title) == (
        moved.url,
        f"new (127.0.0.1:{moved.port})",
    )
    assert changed.data == {
        "url": moved.url,
        "kind": "llama_cpp",
        "model": "new",
        "memory": "shared",
    }


async def test_a_stored_key_is_kept_unless_another_is_given(
    hass: HomeAssistant, household: MockConfigEntry, llama: FakeServer
) -> None:
    llama.api_key = "second"
    server = only(household, "server")
    result = await change(hass, household, server)
    result = await submit(hass, result, {"url": llama.url, "api_key": "second"})
    await submit(hass, result, {})
    assert only(household, "server").data["api_key"] == "second"

    result = await change(hass, household, server)
    assert shown(result)["api_key"] is None
    result = await submit(hass, result, {"url": llama.url})
    await submit(hass, result, {})
    assert only(household, "server").data["api_key"] == "second"


async def test_a_server_that_was_renamed_keeps_its_name(
    hass: HomeAssistant, household: MockConfigEntry, llama: FakeServer
) -> None:
    server = only(household, "server")
    hass.config_entries.async_update_subentry(household, server, title="Cellar")
    llama.models = ("new",)
    result = await change(hass, household, server)
    result = await submit(hass, result, {"url": llama.url})
    await submit(hass, result, {})
    assert only(household, "server").title == "Cellar"


async def test_what_was_declared_before_is_shown_again(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    server = only(household, "server")
    async with FakeServer("someone", models=("a", "b")) as moved:
        more = {"patient_slots": 3, "scheduling": "cluster"}
        declared = {"model": "b", "slots": 9, "context_tokens": 1234, "more": more}
        for _ in range(2):
            result = await change(hass, household, server)
            result = await submit(hass, result, {"url": moved.url})
            await submit(hass, result, declared)
        assert shown(result) == declared
        told = result["description_placeholders"]
        assert (told["slots"], told["context"]) == ("9", "1234")


async def test_the_memory_that_was_declared_before_is_among_what_was_found(
    hass: HomeAssistant, household: MockConfigEntry, llama: FakeServer
) -> None:
    server = only(household, "server")
    result = await change(hass, household, server)
    result = await submit(hass, result, {"url": llama.url})
    assert result["description_placeholders"]["memory"] == "not known"
    await submit(hass, result, {"memory": "separate"})
    result = await change(hass, household, server)
    result = await submit(hass, result, {"url": llama.url})
    assert result["description_placeholders"]["memory"] == "each answer has its own"


async def test_how_many_wait_for_nobody_is_found_out_again_once_the_field_is_empty(
    hass: HomeAssistant, household: MockConfigEntry, llama: FakeServer
) -> None:
    server = only(household, "server")
    for more in ({"patient_slots": 1}, {}):
        result = await change(hass, household, server)
        result = await submit(hass, result, {"url": llama.url})
        assert "scheduling" not in fields(result)["more"]
        await submit(hass, result, {"more": more})
        stored = only(household, "server").data
        assert {k: stored[k] for k in more} == more
    assert "patient_slots" not in stored
