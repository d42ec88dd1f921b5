"""Repairs: raised, shown, put right by their dialog, and gone."""

from typing import Any

from homeassistant.components.repairs import repairs_flow_manager
from homeassistant.config_entries import ConfigEntry, ConfigEntryDisabler
from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType
from homeassistant.helpers import (
    device_registry as dr,
    entity_registry as er,
    issue_registry as ir,
)
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.fair_share.const import DOMAIN
from custom_components.fair_share.engines.base import AuthError, UnreachableError
from custom_components.fair_share.household.runtime import Household
from tests.common import (
    device,
    household_entry,
    member,
    server,
    set_up,
    subentry,
    wrapped_agent,
)
from tests.fake_server import FakeServer
from tests.flow_texts import TEXTS, placeholders
from tests.platforms.conftest import Elapse, until

FEWER = "fewer_slots_server"
CAP = "context_cap_parent"
PERSON = "person_gone_parent"
DEVICE = "device_gone_phone"
AGENT = "agent_gone_wrapped"
BYPASSED = "bypassed_server"


@pytest.fixture(autouse=True)
async def _people(hass: HomeAssistant) -> None:
    persons = [{"id": "person_parent", "name": "Parent"}]
    assert await async_setup_component(hass, "person", {"person": persons})
    assert await async_setup_component(hass, "repairs", {})


@pytest.fixture
def phone(device_registry: dr.DeviceRegistry) -> dr.DeviceEntry:
    """A telephone that is there."""
    other = MockConfigEntry(domain="other")
    other.add_to_hass(device_registry.hass)
    return device_registry.async_get_or_create(
        config_entry_id=other.entry_id, identifiers={("other", "1")}, name="Phone"
    )


@pytest.fixture
async def right(
    hass: HomeAssistant, llama: FakeServer, phone: dr.DeviceEntry
) -> ConfigEntry[Household]:
    """A household with which nothing is wrong."""
    entry = household_entry(
        server(llama.url), member("parent"), device("phone", phone.id, "parent")
    )
    await set_up(hass, entry)
    return entry


def _issues(hass: HomeAssistant) -> set[str]:
    issues = ir.async_get(hass).issues
    return {
        issue_id
        for (domain, issue_id), issue in issues.items()
        if domain == DOMAIN and issue.active
    }


def _change(
    hass: HomeAssistant, entry: ConfigEntry, subentry_id: str, **data: Any
) -> None:
    part = entry.subentries[subentry_id]
    hass.config_entries.async_update_subentry(entry, part, data={**part.data, **data})


async def _seen(hass: HomeAssistant, entry: ConfigEntry[Household]) -> None:
    """Let a changed server be looked at."""
    await hass.async_block_till_done()
    servers = entry.runtime_data.servers
    await until(lambda: servers.get("server").capabilities is not None)


async def _open(hass: HomeAssistant, issue_id: str) -> Any:
    manager = repairs_flow_manager(hass)
    assert manager is not None
    result = await manager.async_init(DOMAIN, context={"issue_id": issue_id})
    _has_texts(hass, issue_id, result)
    return result


async def _answer(hass: HomeAssistant, result: Any, answer: dict[str, Any]) -> Any:
    manager = repairs_flow_manager(hass)
    assert manager is not None
    flow = manager.async_get(result["flow_id"])
    answered = await manager.async_configure(result["flow_id"], answer)
    _has_texts(hass, flow["context"]["issue_id"], answered)
    return answered


async def _choose(hass: HomeAssistant, result: Any, step: str) -> Any:
    return await _answer(hass, result, {"next_step_id": step})


def _has_texts(hass: HomeAssistant, issue_id: str, result: Any) -> None:
    """Every text is there that a step needs, and all that it names is filled."""
    issue = ir.async_get(hass).async_get_issue(DOMAIN, issue_id)
    part = f"issues.{issue.translation_key}" if issue else ""
    step = f"{part}.fix_flow.step.{result.get('step_id')}"
    shown = [f"{step}.title", f"{step}.description"]
    needed = {
        FlowResultType.FORM: lambda: (
            shown + [f"{step}.data.{k}" for k in _keys(result)]
        ),
        FlowResultType.MENU: lambda: (
            shown + [f"{step}.menu_options.{o}" for o in result["menu_options"]]
        ),
        FlowResultType.ABORT: lambda: [f"{part}.fix_flow.abort.{result['reason']}"],
        FlowResultType.CREATE_ENTRY: list,
    }[result["type"]]()
    given = set(result.get("description_placeholders") or {})
    for key in needed:
        assert placeholders(TEXTS[key]) <= given, key


def _keys(result: Any) -> list[str]:
    return [marker.schema for marker in result["data_schema"].schema]


async def test_nothing_is_raised_while_nothing_is_wrong(
    hass: HomeAssistant, right: ConfigEntry[Household], elapse: Elapse
) -> None:
    await elapse(61)
    assert _issues(hass) == set()


@pytest.mark.parametrize("key", ["slots", "patient_slots"])
async def test_more_answers_at_once_than_a_server_can_write_are_lowered(
    hass: HomeAssistant, right: ConfigEntry[Household], elapse: Elapse, key: str
) -> None:
    _change(hass, right, "server", **{key: 8})
    await _seen(hass, right)
    await elapse(6)
    assert _issues(hass) == {FEWER}
    result = await _open(hass, FEWER)
    assert result["description_placeholders"] == {
        "server": right.subentries["server"].title,
        "declared": "8",
        "slots": "2",
    }
    await _answer(hass, result, {})
    assert right.subentries["server"].data[key] == 2
    await _seen(hass, right)
    await elapse(6)
    await elapse(61)
    assert _issues(hass) == set()


async def test_a_server_that_can_write_more_again_needs_no_repair(
    hass: HomeAssistant,
    right: ConfigEntry[Household],
    llama: FakeServer,
    elapse: Elapse,
) -> None:
    _change(hass, right, "server", slots=8)
    await _seen(hass, right)
    await elapse(6)
    assert _issues(hass) == {FEWER}
    llama.slots = 8
    watched = right.runtime_data.servers.get("server")
    watched.look_again()
    await until(lambda: getattr(watched.capabilities, "slots", None) == 8)
    await elapse(6)
    assert _issues(hass) == set()


async def test_a_limit_that_no_server_can_hold_is_lowered(
    hass: HomeAssistant, right: ConfigEntry[Household], elapse: Elapse
) -> None:
    _change(hass, right, "parent", context_tokens=8000)
    await elapse(6)
    assert _issues(hass) == {CAP}
    result = await _open(hass, CAP)
    assert result["description_placeholders"] == {
        "name": "Parent",
        "cap": "8000",
        "context": "4096",
    }
    await _answer(hass, result, {})
    assert right.subentries["parent"].data["context_tokens"] == 4096
    await elapse(6)
    assert _issues(hass) == set()


async def test_a_limit_is_no_mistake_while_a_server_was_never_seen(
    hass: HomeAssistant, llama: FakeServer, elapse: Elapse
) -> None:
    away = server("http://127.0.0.1:1", subentry_id="away", slots=8)
    parts = (server(llama.url), away, member("parent", context_tokens=8000))
    await set_up(hass, household_entry(*parts))
    await elapse(61)
    assert _issues(hass) == set()


async def test_what_is_wrong_with_a_server_is_still_wrong_while_it_is_away(
    hass: HomeAssistant,
    right: ConfigEntry[Household],
    llama: FakeServer,
    elapse: Elapse,
) -> None:
    _change(hass, right, "parent", context_tokens=8000)
    await elapse(6)
    await llama.stop()
    right.runtime_data.servers.get("server").report(UnreachableError("gone"))
    await elapse(61)
    assert _issues(hass) == {CAP}
    _change(hass, right, "parent", context_tokens=4000)
    await elapse(6)
    assert _issues(hass) == set()


async def test_a_server_that_is_merely_away_raises_nothing(
    hass: HomeAssistant,
    right: ConfigEntry[Household],
    llama: FakeServer,
    elapse: Elapse,
) -> None:
    await llama.stop()
    right.runtime_data.servers.get("server").report(UnreachableError("gone"))
    await elapse(61)
    await elapse(600)
    assert _issues(hass) == set()


async def test_a_refused_key_is_asked_for_once_and_not_repaired_besides(
    hass: HomeAssistant, right: ConfigEntry[Household], elapse: Elapse
) -> None:
    right.runtime_data.servers.get("server").report(AuthError("no"))
    await elapse(6)
    await elapse(61)
    assert _issues(hass) == set()


async def test_a_member_whose_person_is_gone_becomes_another_person(
    hass: HomeAssistant,
    entity_registry: er.EntityRegistry,
    right: ConfigEntry[Household],
    elapse: Elapse,
) -> None:
    entity_registry.async_remove("person.parent")
    other = entity_registry.async_get_or_create("person", "person", "new")
    hass.states.async_set(other.entity_id, "home", {"friendly_name": "Guardian"})
    await elapse(1)
    assert _issues(hass) == {PERSON}
    result = await _open(hass, PERSON)
    assert result["menu_options"] == ["choose_person", "remove_member"]
    result = await _choose(hass, result, "choose_person")
    await _answer(hass, result, {"person": other.entity_id})
    changed = right.subentries["parent"]
    assert (changed.title, changed.unique_id) == ("Guardian", "new")
    assert changed.data["person_id"] == "new"
    await elapse(6)
    assert _issues(hass) == set()


async def test_a_member_whose_person_is_gone_can_be_removed(
    hass: HomeAssistant,
    entity_registry: er.EntityRegistry,
    right: ConfigEntry[Household],
    elapse: Elapse,
) -> None:
    entity_registry.async_remove("person.parent")
    await elapse(1)
    result = await _open(hass, PERSON)
    assert result["menu_options"] == ["remove_member"]
    result = await _choose(hass, result, "remove_member")
    assert result["step_id"] == "remove_member"
    await _answer(hass, result, {})
    assert "parent" not in right.subentries
    await elapse(6)
    assert _issues(hass) == set()


async def test_a_person_that_was_chosen_elsewhere_meanwhile_is_not_chosen_twice(
    hass: HomeAssistant,
    entity_registry: er.EntityRegistry,
    right: ConfigEntry[Household],
    elapse: Elapse,
) -> None:
    entity_registry.async_remove("person.parent")
    other = entity_registry.async_get_or_create("person", "person", "person_child")
    hass.states.async_set(other.entity_id, "home", {"friendly_name": "Child"})
    await elapse(1)
    result = await _choose(hass, await _open(hass, PERSON), "choose_person")
    hass.config_entries.async_add_subentry(right, subentry(member("child")))
    result = await _answer(hass, result, {"person": other.entity_id})
    assert result["reason"] == "already_configured"
    assert _issues(hass) == {PERSON}


async def test_a_person_whose_entity_nothing_fills_any_more_is_gone(
    hass: HomeAssistant, right: ConfigEntry[Household], elapse: Elapse
) -> None:
    hass.states.async_set("person.parent", "unavailable", {"restored": True})
    await elapse(61)
    assert _issues(hass) == {PERSON}
    hass.states.async_set("person.parent", "home", {})
    await elapse(61)
    assert _issues(hass) == set()


async def test_a_device_that_is_gone_is_replaced_by_another(
    hass: HomeAssistant,
    device_registry: dr.DeviceRegistry,
    right: ConfigEntry[Household],
    phone: dr.DeviceEntry,
    elapse: Elapse,
) -> None:
    new = device_registry.async_get_or_create(
        config_entry_id=phone.config_entry_id,
        identifiers={("other", "2")},
        name="New phone",
    )
    device_registry.async_remove_device(phone.id)
    await elapse(1)
    assert _issues(hass) == {DEVICE}
    result = await _open(hass, DEVICE)
    result = await _choose(hass, result, "choose_device")
    await _answer(hass, result, {"device_id": new.id})
    changed = right.subentries["phone"]
    assert (changed.title, changed.data["device_id"]) == ("New phone", new.id)
    assert changed.data["member"] == "parent"
    await elapse(6)
    assert _issues(hass) == set()


async def test_a_device_that_is_gone_can_be_removed(
    hass: HomeAssistant,
    device_registry: dr.DeviceRegistry,
    right: ConfigEntry[Household],
    phone: dr.DeviceEntry,
    elapse: Elapse,
) -> None:
    device_registry.async_remove_device(phone.id)
    await elapse(1)
    result = await _open(hass, DEVICE)
    assert result["menu_options"] == ["remove_device"]
    result = await _choose(hass, result, "remove_device")
    await _answer(hass, result, {})
    assert "phone" not in right.subentries
    await elapse(6)
    assert _issues(hass) == set()


async def test_a_device_that_was_removed_meanwhile_cannot_be_chosen(
    hass: HomeAssistant,
    device_registry: dr.DeviceRegistry,
    right: ConfigEntry[Household],
    phone: dr.DeviceEntry,
    elapse: Elapse,
) -> None:
    new = device_registry.async_get_or_create(
        config_entry_id=phone.config_entry_id, identifiers={("other", "2")}
    )
    device_registry.async_remove_device(phone.id)
    await elapse(1)
    result = await _choose(hass, await _open(hass, DEVICE), "choose_device")
    device_registry.async_remove_device(new.id)
    result = await _answer(hass, result, {"device_id": new.id})
    assert result["reason"] == "already_configured"


def _agent_of_others(hass: HomeAssistant, number: str) -> er.RegistryEntry:
    return er.async_get(hass).async_get_or_create(
        "conversation", "other", number, original_name=f"Agent {number}"
    )


@pytest.fixture
async def gone(
    hass: HomeAssistant, right: ConfigEntry[Household], elapse: Elapse
) -> er.RegistryEntry:
    """An agent of another integration that was wrapped, and then removed."""
    known = _agent_of_others(hass, "1")
    hass.config_entries.async_add_subentry(right, subentry(wrapped_agent(known.id)))
    await elapse(6)
    assert _issues(hass) == set()
    er.async_get(hass).async_remove(known.entity_id)
    await elapse(1)
    assert _issues(hass) == {AGENT}
    return known


@pytest.mark.usefixtures("gone")
async def test_another_agent_takes_the_place_of_one_that_is_gone(
    hass: HomeAssistant, right: ConfigEntry[Household], elapse: Elapse
) -> None:
    new, before = _agent_of_others(hass, "2"), right.subentries["wrapped"]
    result = await _choose(hass, await _open(hass, AGENT), "choose_agent")
    await _answer(hass, result, {"agent": new.id})
    changed = right.subentries["wrapped"]
    assert dict(changed.data) == {**before.data, "agent": new.id}
    assert (changed.title, changed.unique_id) == (before.title, f"wrapped:{new.id}")
    await elapse(6)
    assert _issues(hass) == set()


@pytest.mark.usefixtures("gone")
async def test_an_agent_that_was_removed_meanwhile_cannot_be_chosen(
    hass: HomeAssistant,
) -> None:
    new = _agent_of_others(hass, "2")
    result = await _choose(hass, await _open(hass, AGENT), "choose_agent")
    er.async_get(hass).async_remove(new.entity_id)
    result = await _answer(hass, result, {"agent": new.id})
    assert result["reason"] == "already_configured"


@pytest.mark.usefixtures("gone")
async def test_a_wrapped_agent_that_is_gone_can_be_removed(
    hass: HomeAssistant, right: ConfigEntry[Household], elapse: Elapse
) -> None:
    result = await _open(hass, AGENT)
    assert result["menu_options"] == ["remove_agent"]
    result = await _choose(hass, result, "remove_agent")
    await _answer(hass, result, {})
    assert "wrapped" not in right.subentries
    await elapse(6)
    assert _issues(hass) == set()


async def _bypass(
    hass: HomeAssistant, entry: ConfigEntry[Household], elapse: Elapse, minutes: int
) -> None:
    """Let a server report requests from elsewhere for so many minutes."""
    for _ in range(minutes):
        entry.runtime_data.servers.get("server").foreign = 1
        await elapse(60)


async def test_others_who_go_on_to_use_a_server_are_told_of_until_seen_to(
    hass: HomeAssistant, right: ConfigEntry[Household], elapse: Elapse
) -> None:
    await _bypass(hass, right, elapse, 4)
    assert _issues(hass) == set()
    await _bypass(hass, right, elapse, 3)
    assert _issues(hass) == {BYPASSED}
    result = await _open(hass, BYPASSED)
    assert result["menu_options"] == ["moved", "ignore"]
    result = await _choose(hass, result, "moved")
    await _answer(hass, result, {})
    await _bypass(hass, right, elapse, 2)
    assert _issues(hass) == set()
    await _bypass(hass, right, elapse, 6)
    assert _issues(hass) == {BYPASSED}


async def test_others_who_left_are_forgotten(
    hass: HomeAssistant, right: ConfigEntry[Household], elapse: Elapse
) -> None:
    await _bypass(hass, right, elapse, 7)
    for _ in range(20):
        right.runtime_data.servers.get("server").foreign = 0
        await elapse(60)
    assert _issues(hass) == set()


async def test_others_who_are_ignored_stay_ignored(
    hass: HomeAssistant, right: ConfigEntry[Household], elapse: Elapse
) -> None:
    await _bypass(hass, right, elapse, 7)
    result = await _choose(hass, await _open(hass, BYPASSED), "ignore")
    assert result["reason"] == "ignored"
    for _ in range(20):
        right.runtime_data.servers.get("server").foreign = 0
        await elapse(60)
    await _bypass(hass, right, elapse, 7)
    issue = ir.async_get(hass).async_get_issue(DOMAIN, BYPASSED)
    assert issue is not None
    assert issue.dismissed_version


async def test_what_is_wrong_is_raised_again_after_a_new_start(
    hass: HomeAssistant, right: ConfigEntry[Household], elapse: Elapse
) -> None:
    _change(hass, right, "parent", context_tokens=8000)
    await elapse(6)
    ir.async_ignore_issue(hass, DOMAIN, CAP, ignore=True)
    assert await hass.config_entries.async_reload(right.entry_id)
    await elapse(6)
    issue = ir.async_get(hass).async_get_issue(DOMAIN, CAP)
    assert issue is not None
    assert issue.dismissed_version
    ir.async_ignore_issue(hass, DOMAIN, CAP, ignore=False)
    assert await hass.config_entries.async_unload(right.entry_id)
    result = await _open(hass, CAP)
    assert (result["type"], result["reason"]) == (
        FlowResultType.ABORT,
        "entry_not_loaded",
    )


async def test_nothing_is_left_of_a_household_that_is_deleted_or_switched_off(
    hass: HomeAssistant, right: ConfigEntry[Household], elapse: Elapse
) -> None:
    _change(hass, right, "parent", context_tokens=8000)
    await elapse(6)
    await hass.config_entries.async_set_disabled_by(
        right.entry_id, ConfigEntryDisabler.USER
    )
    assert _issues(hass) == set()
    await hass.config_entries.async_set_disabled_by(right.entry_id, None)
    await elapse(6)
    assert _issues(hass) == {CAP}
    await hass.config_entries.async_remove(right.entry_id)
    assert _issues(hass) == set()


async def test_an_issue_whose_subject_is_gone_is_done_with(
    hass: HomeAssistant, right: ConfigEntry[Household], elapse: Elapse
) -> None:
    _change(hass, right, "parent", context_tokens=8000)
    await elapse(6)
    result = await _open(hass, CAP)
    hass.config_entries.async_remove_subentry(right, "parent")
    result = await _answer(hass, result, {})
    assert result["type"] is FlowResultType.CREATE_ENTRY
    await elapse(6)
    assert _issues(hass) == set()
