"""Changing the rules of the household."""

from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType, InvalidData
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from tests.flows.drive import shown

CHANGED = {
    "policy": "equal_tokens",
    "guests": {"guest_weight": 0.5, "guest_quota_tokens": 1000},
    "queue": {"queue_limit": 20, "queue_limit_class": 5},
    "costs": {"cost_uncached_prompt": 1, "cost_cached_prompt": 0, "cost_output": 3},
}


async def test_the_usual_rules_are_shown_first(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await hass.config_entries.options.async_init(household.entry_id)
    assert result["step_id"] == "init"
    assert shown(dict(result)) == {
        "policy": "equal_tokens",
        "guests": {"guest_weight": 1.0, "guest_quota_tokens": None},
        "queue": {"queue_limit": 200, "queue_limit_class": 50},
        "costs": {
            "cost_uncached_prompt": 1.0,
            "cost_cached_prompt": 0.1,
            "cost_output": 2.0,
        },
    }


async def test_changed_rules_are_stored_flat_and_shown_again(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await hass.config_entries.options.async_init(household.entry_id)
    result = await hass.config_entries.options.async_configure(
        result["flow_id"], CHANGED
    )
    assert result["type"] is FlowResultType.CREATE_ENTRY
    assert household.options == {
        "policy": "equal_tokens",
        "guest_weight": 0.5,
        "guest_quota_tokens": 1000,
        "queue_limit": 20,
        "queue_limit_class": 5,
        "cost_uncached_prompt": 1.0,
        "cost_cached_prompt": 0.0,
        "cost_output": 3.0,
    }
    result = await hass.config_entries.options.async_init(household.entry_id)
    assert shown(dict(result)) == CHANGED


async def test_a_policy_that_does_not_exist_is_refused(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await hass.config_entries.options.async_init(household.entry_id)
    with pytest.raises(InvalidData):
        await hass.config_entries.options.async_configure(
            result["flow_id"], {**CHANGED, "policy": "chance"}
        )
