"""The rules that can be changed from a dashboard: policy and reserved share."""

from homeassistant.config_entries import ConfigEntry
from homeassistant.const import EntityCategory
from homeassistant.core import HomeAssistant, State
from homeassistant.exceptions import ServiceValidationError
from homeassistant.helpers import device_registry as dr, entity_registry as er
import pytest

from custom_components.fair_share.admission.model import DEFAULT_PROFILES, Workload
from custom_components.fair_share.admission.policies import OFFERED
from custom_components.fair_share.household.runtime import Household
from tests.platforms.conftest import Elapse, Talking, found_device

POLICY = "select.fair_share_household_fairness"
SHARE = "number.fair_share_household_kept_for_background_work"


async def choose(hass: HomeAssistant, policy: str) -> None:
    """Choose a policy."""
    target = {"entity_id": POLICY, "option": policy}
    await hass.services.async_call("select", "select_option", target, blocking=True)


async def keep(hass: HomeAssistant, share: float) -> None:
    """Keep so many percent for background work."""
    target = {"entity_id": SHARE, "value": share}
    await hass.services.async_call("number", "set_value", target, blocking=True)


def shown(hass: HomeAssistant, entity_id: str) -> State:
    """Return the state of an entity."""
    state = hass.states.get(entity_id)
    assert state is not None
    return state


@pytest.mark.parametrize("entity_id", [POLICY, SHARE])
async def test_a_rule_is_a_setting_of_the_households_device(
    entry: ConfigEntry,
    entity_registry: er.EntityRegistry,
    device_registry: dr.DeviceRegistry,
    entity_id: str,
) -> None:
    found = entity_registry.async_get(entity_id)
    assert found is not None
    device = found_device(device_registry, entry, "household_entry")
    assert found.device_id == device.id
    assert found.entity_category is EntityCategory.CONFIG
    assert found.disabled_by is None


async def test_every_policy_that_is_offered_can_be_chosen(
    hass: HomeAssistant, household: Household
) -> None:
    assert shown(hass, POLICY).state == "equal_tokens"
    assert shown(hass, POLICY).attributes["options"] == list(OFFERED)
    for policy in OFFERED:
        await choose(hass, policy)
        assert household.settings.policy == policy
        assert shown(hass, POLICY).state == policy


async def test_a_policy_that_does_not_exist_is_refused(
    hass: HomeAssistant, household: Household
) -> None:
    with pytest.raises(ServiceValidationError):
        await choose(hass, "chance")
    assert household.settings.policy == "equal_tokens"


async def test_the_reserved_share_is_in_percent(
    hass: HomeAssistant, household: Household
) -> None:
    state = shown(hass, SHARE)
    assert state.state == "5.0"
    limits = {key: state.attributes[key] for key in ("min", "max", "step")}
    assert limits == {"min": 0.0, "max": 90.0, "step": 1.0}
    assert state.attributes["unit_of_measurement"] == "%"
    await keep(hass, 29)
    assert shown(hass, SHARE).state == "29.0"
    assert household.settings.background_share == 0.29


async def test_more_than_can_be_reserved_is_refused(
    hass: HomeAssistant, household: Household
) -> None:
    with pytest.raises(ServiceValidationError):
        await keep(hass, 91)
    assert household.settings.background_share == 0.05


async def test_a_change_of_rules_loses_nothing_that_waits_or_runs(
    hass: HomeAssistant, household: Household, two_talk: Talking
) -> None:
    await choose(hass, "latency_first")
    await keep(hass, 40)
    assert (household.status().running, household.status().waiting) == (2, 1)
    answers = await two_talk.end()
    assert [isinstance(answer, list) for answer in answers] == [True] * 3
    assert household.node_status("household").requests == 3


async def test_the_rules_survive_a_restart(
    hass: HomeAssistant, entry: ConfigEntry[Household]
) -> None:
    await choose(hass, "equal_waiting")
    await keep(hass, 12)
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    assert shown(hass, POLICY).state == "equal_waiting"
    assert shown(hass, SHARE).state == "12.0"
    assert entry.runtime_data.settings.policy == "equal_waiting"
    assert entry.runtime_data.settings.background_share == 0.12


async def test_a_rule_leaves_the_other_options_alone(
    hass: HomeAssistant, entry: ConfigEntry[Household]
) -> None:
    before = {"queue_limit": 7, "workloads": {"chat": {"band": 0}}}
    hass.config_entries.async_update_entry(entry, options=before)
    await choose(hass, "latency_first")
    assert entry.options == {**before, "policy": "latency_first"}
    usual = DEFAULT_PROFILES[Workload.VOICE]
    assert entry.runtime_data.settings.profiles[Workload.VOICE] == usual
    assert entry.runtime_data.settings.profiles[Workload.CHAT].band == 0


async def test_the_rules_of_the_dialog_are_shown(
    hass: HomeAssistant, entry: ConfigEntry, elapse: Elapse
) -> None:
    options = {"policy": "latency_first", "background_share_percent": 2.5}
    hass.config_entries.async_update_entry(entry, options=options)
    await elapse(6)
    assert shown(hass, POLICY).state == "latency_first"
    assert shown(hass, SHARE).state == "2.5"


async def test_the_rules_are_there_while_the_server_is_away(
    hass: HomeAssistant, entry: ConfigEntry, household: Household
) -> None:
    hass.config_entries.async_remove_subentry(entry, "server")
    await hass.async_block_till_done()
    await choose(hass, "equal_waiting")
    assert shown(hass, POLICY).state == "equal_waiting"
