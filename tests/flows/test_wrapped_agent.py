"""The dialog for putting an agent of another integration behind the queue."""

from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType
from homeassistant.helpers import entity_registry as er
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from tests.common import agent, subentry
from tests.flows.drive import add, change, fields, only, shown, submit

PLAIN = {"server": "server", "workload": "chat"}


@pytest.fixture(autouse=True)
async def _conversation(hass: HomeAssistant) -> None:
    """Home Assistant's own agent is there."""
    assert await async_setup_component(hass, "conversation", {})


@pytest.fixture
def other(entity_registry: er.EntityRegistry) -> er.RegistryEntry:
    """An agent of another integration."""
    return entity_registry.async_get_or_create(
        "conversation", "ollama", "1", suggested_object_id="ollama"
    )


async def test_an_agent_is_wrapped(
    hass: HomeAssistant, household: MockConfigEntry, other: er.RegistryEntry
) -> None:
    hass.states.async_set("conversation.ollama", "unknown", {"friendly_name": "Ollama"})
    result = await add(hass, household, "wrapped_agent")
    assert result["step_id"] == "user"
    assert shown(result) == {
        "agent": None,
        "name": None,
        "server": None,
        "workload": "chat",
    }
    (option,) = fields(result)["agent"].config["options"]
    assert option == {"value": other.id, "label": "Ollama (conversation.ollama)"}
    servers = [each["value"] for each in fields(result)["server"].config["options"]]
    assert servers == ["server", "outside"]

    result = await submit(hass, result, {"agent": other.id, **PLAIN})
    assert result["type"] is FlowResultType.CREATE_ENTRY
    added = only(household, "wrapped_agent")
    assert added.title == "Ollama (Fair Share)"
    assert added.unique_id == f"wrapped:{other.id}"
    assert added.data == {"agent": other.id, **PLAIN}


async def test_it_can_have_another_name(
    hass: HomeAssistant, household: MockConfigEntry, other: er.RegistryEntry
) -> None:
    result = await add(hass, household, "wrapped_agent")
    await submit(hass, result, {"agent": other.id, "name": " Queued ", **PLAIN})
    assert only(household, "wrapped_agent").title == "Queued"


@pytest.mark.usefixtures("other")
async def test_neither_ours_nor_home_assistants_own_nor_what_is_switched_off_is_offered(
    hass: HomeAssistant,
    household: MockConfigEntry,
    entity_registry: er.EntityRegistry,
) -> None:
    hass.config_entries.async_add_subentry(household, subentry(agent()))
    await hass.async_block_till_done()
    entity_registry.async_get_or_create(
        "conversation", "off", "1", disabled_by=er.RegistryEntryDisabler.USER
    )
    entity_registry.async_get_or_create("light", "hue", "1")
    assert hass.states.get("conversation.fair_share") is not None
    assert hass.states.get("conversation.home_assistant") is not None
    result = await add(hass, household, "wrapped_agent")
    labels = [each["label"] for each in fields(result)["agent"].config["options"]]
    assert labels == ["conversation.ollama (conversation.ollama)"]


async def test_without_any_other_agent_there_is_nothing_to_add(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await add(hass, household, "wrapped_agent")
    assert result["reason"] == "no_agent"


async def test_an_agent_is_wrapped_once(
    hass: HomeAssistant,
    household: MockConfigEntry,
    entity_registry: er.EntityRegistry,
    other: er.RegistryEntry,
) -> None:
    entity_registry.async_get_or_create("conversation", "openai", "1")
    first, second = [await add(hass, household, "wrapped_agent") for _ in range(2)]
    await submit(hass, first, {"agent": other.id, **PLAIN})
    result = await submit(hass, second, {"agent": other.id, **PLAIN})
    assert result["reason"] == "already_configured"
    result = await add(hass, household, "wrapped_agent")
    (option,) = fields(result)["agent"].config["options"]
    assert option["value"] != other.id


async def test_an_agent_that_went_meanwhile_is_told(
    hass: HomeAssistant,
    household: MockConfigEntry,
    entity_registry: er.EntityRegistry,
    other: er.RegistryEntry,
) -> None:
    result = await add(hass, household, "wrapped_agent")
    entity_registry.async_remove(other.entity_id)
    result = await submit(hass, result, {"agent": other.id, **PLAIN})
    assert result["errors"] == {"agent": "agent_not_found"}


async def test_none_is_added_to_a_household_that_does_not_run(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    await hass.config_entries.async_unload(household.entry_id)
    result = await add(hass, household, "wrapped_agent")
    assert result["reason"] == "entry_not_loaded"


async def test_its_server_and_urgency_are_changed(
    hass: HomeAssistant, household: MockConfigEntry, other: er.RegistryEntry
) -> None:
    result = await add(hass, household, "wrapped_agent")
    await submit(hass, result, {"agent": other.id, **PLAIN})
    result = await change(hass, household, only(household, "wrapped_agent"))
    assert shown(result) == PLAIN
    new = {"server": "outside", "workload": "task"}
    result = await submit(hass, result, new)
    assert result["reason"] == "reconfigure_successful"
    assert only(household, "wrapped_agent").data == {"agent": other.id, **new}


async def test_a_server_that_was_removed_is_none_of_the_households(
    hass: HomeAssistant, household: MockConfigEntry, other: er.RegistryEntry
) -> None:
    result = await add(hass, household, "wrapped_agent")
    await submit(hass, result, {"agent": other.id, **PLAIN})
    hass.config_entries.async_remove_subentry(household, "server")
    await hass.async_block_till_done()
    result = await change(hass, household, only(household, "wrapped_agent"))
    assert shown(result)["server"] == "outside"
