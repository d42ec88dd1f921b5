"""Adding and changing an agent."""

from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType
from homeassistant.helpers import llm
from pytest_homeassistant_custom_component.common import MockConfigEntry

from tests.flows.drive import add, change, fields, only, shown, submit

PLAIN = {"prompt": "Hi", "workload": "chat", "answers": {"output_tokens": 100}}


async def test_an_agent_is_added(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await add(hass, household, "agent")
    assert result["step_id"] == "user"
    assert shown(result) == {
        "name": "Fair Share",
        "prompt": llm.DEFAULT_INSTRUCTIONS_PROMPT,
        "llm_hass_api": ["assist"],
        "workload": "chat",
        "answers": {"output_tokens": 1024, "temperature": None, "model": None},
    }
    assert fields(result)["answers"]["model"].config["options"] == ["fake-model"]

    result = await submit(
        hass,
        result,
        {
            "name": " Housekeeper ",
            "prompt": "Be brief.",
            "llm_hass_api": ["assist"],
            "workload": "voice",
            "answers": {"output_tokens": 200, "temperature": 0.2, "model": "other"},
        },
    )
    assert result["type"] is FlowResultType.CREATE_ENTRY
    added = only(household, "agent")
    assert (added.title, added.unique_id) == ("Housekeeper", None)
    assert added.data == {
        "prompt": "Be brief.",
        "llm_hass_api": ["assist"],
        "workload": "voice",
        "output_tokens": 200,
        "temperature": 0.2,
        "model": "other",
    }


async def test_agents_without_a_name_are_told_apart_by_number(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    for name in ({}, {}, {"name": "  "}):
        await submit(hass, await add(hass, household, "agent"), {**PLAIN, **name})
    titles = [a.title for a in household.get_subentries_of_type("agent")]
    assert titles == ["Fair Share", "Fair Share 2", "Fair Share 3"]


async def test_no_agent_is_added_to_a_household_that_does_not_run(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    await hass.config_entries.async_unload(household.entry_id)
    result = await add(hass, household, "agent")
    assert result["reason"] == "entry_not_loaded"


async def test_an_agent_is_changed(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    await submit(
        hass,
        await add(hass, household, "agent"),
        {**PLAIN, "llm_hass_api": ["assist"], "answers": {"temperature": 1}},
    )
    result = await change(hass, household, only(household, "agent"))
    assert result["step_id"] == "reconfigure"
    assert shown(result) == {
        "prompt": "Hi",
        "llm_hass_api": ["assist"],
        "workload": "chat",
        "answers": {"output_tokens": 1024, "temperature": 1, "model": None},
    }
    result = await submit(hass, result, {**PLAIN, "llm_hass_api": []})
    assert result["reason"] == "reconfigure_successful"
    assert only(household, "agent").data == {
        "prompt": "Hi",
        "workload": "chat",
        "output_tokens": 100,
    }


async def test_a_way_of_control_that_no_longer_exists_is_not_shown(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    await submit(hass, await add(hass, household, "agent"), PLAIN)
    agent = only(household, "agent")
    hass.config_entries.async_update_subentry(
        household, agent, data={**agent.data, "llm_hass_api": ["gone", "assist"]}
    )
    result = await change(hass, household, agent)
    assert shown(result)["llm_hass_api"] == ["assist"]
