"""The dialog for adding and changing AI tasks."""

from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry
import voluptuous as vol

from tests.flows.drive import add, change, fields, only, shown, submit

PLAIN = {"workload": "background", "answers": {"output_tokens": 100}}


async def test_ai_tasks_are_added(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await add(hass, household, "ai_task")
    assert result["step_id"] == "user"
    assert shown(result) == {
        "name": "Fair Share tasks",
        "prompt": None,
        "workload": "background",
        "answers": {"output_tokens": 1024, "temperature": None, "model": None},
    }
    workloads = fields(result)["workload"].config["options"]
    assert workloads == ["background", "task", "chat"]

    result = await submit(
        hass,
        result,
        {
            "name": " Describer ",
            "prompt": "In German.",
            "workload": "task",
            "answers": {"output_tokens": 200, "temperature": 0.2, "model": "other"},
        },
    )
    assert result["type"] is FlowResultType.CREATE_ENTRY
    await hass.async_block_till_done()
    added = only(household, "ai_task")
    assert added.title == "Describer"
    assert added.data == {
        "prompt": "In German.",
        "workload": "task",
        "output_tokens": 200,
        "temperature": 0.2,
        "model": "other",
    }
    assert hass.states.get("ai_task.describer") is not None


async def test_those_without_a_name_are_told_apart_by_number(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    for name in ({}, {"name": "  "}):
        await submit(hass, await add(hass, household, "ai_task"), {**PLAIN, **name})
    titles = [task.title for task in household.get_subentries_of_type("ai_task")]
    assert titles == ["Fair Share tasks", "Fair Share tasks 2"]


async def test_a_task_is_never_as_urgent_as_somebody_who_speaks(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await add(hass, household, "ai_task")
    with pytest.raises(vol.Invalid):
        await submit(hass, result, {**PLAIN, "workload": "voice"})


async def test_none_is_added_to_a_household_that_does_not_run(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    await hass.config_entries.async_unload(household.entry_id)
    result = await add(hass, household, "ai_task")
    assert result["reason"] == "entry_not_loaded"


async def test_ai_tasks_are_changed(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    first = {**PLAIN, "prompt": "In German.", "answers": {"temperature": 1}}
    await submit(hass, await add(hass, household, "ai_task"), first)
    result = await change(hass, household, only(household, "ai_task"))
    assert result["step_id"] == "reconfigure"
    assert shown(result) == {
        "prompt": "In German.",
        "workload": "background",
        "answers": {"output_tokens": 1024, "temperature": 1, "model": None},
    }
    result = await submit(hass, result, {**PLAIN, "workload": "chat"})
    assert result["reason"] == "reconfigure_successful"
    assert only(household, "ai_task").data == {
        "workload": "chat",
        "output_tokens": 100,
    }
