"""The actions that change quotas, hold requests back and cancel them."""

from collections.abc import Mapping
import json
from typing import Any

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import Context, HomeAssistant
from homeassistant.exceptions import (
    HomeAssistantError,
    ServiceValidationError,
    Unauthorized,
    UnknownUser,
)
from homeassistant.helpers import device_registry as dr
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockUser
import voluptuous as vol

from custom_components.fair_share.admission.model import Rejected, Rule
from custom_components.fair_share.const import CONF_USER_IDS
from custom_components.fair_share.household.runtime import Household
from tests.fake_server import FakeServer, answer
from tests.platforms.conftest import (
    Elapse,
    Show,
    Talk,
    Talking,
    found_device,
    until,
)


async def act(
    hass: HomeAssistant, action: str, *, context: Context | None = None, **data: Any
) -> dict[str, Any]:
    """Call an action that answers, and check that its answer is plain JSON."""
    response = await hass.services.async_call(
        "fair_share",
        action,
        data,
        blocking=True,
        return_response=True,
        context=context,
    )
    return json.loads(json.dumps(response, allow_nan=False))


async def order(
    hass: HomeAssistant, action: str, *, context: Context | None = None, **data: Any
) -> None:
    """Call an action without wanting an answer."""
    await hass.services.async_call(
        "fair_share", action, data, blocking=True, context=context
    )


@pytest.fixture
def devices(
    entry: ConfigEntry, device_registry: dr.DeviceRegistry
) -> Mapping[str, str]:
    """The ids of the devices that people choose from a list."""
    identifiers = {
        "parent": "parent",
        "child": "child",
        "phone": "phone",
        "guest": "household_entry_guest",
        "shared": "household_entry_shared",
    }
    return {
        name: found_device(device_registry, entry, identifier).id
        for name, identifier in identifiers.items()
    }


@pytest.fixture
def child(
    hass: HomeAssistant, entry: ConfigEntry, hass_read_only_user: MockUser
) -> Context:
    """Child's own account, which is no administrator's."""
    subentry = entry.subentries["child"]
    users = [hass_read_only_user.id, "user_child"]
    hass.config_entries.async_update_subentry(
        entry, subentry, data={**subentry.data, CONF_USER_IDS: users}
    )
    return Context(user_id=hass_read_only_user.id)


# ---- quotas ------------------------------------------------------------------------


async def test_a_quota_can_be_set_for_several_at_once(
    hass: HomeAssistant, entry: ConfigEntry, devices: Mapping[str, str]
) -> None:
    response = await act(
        hass,
        "set_quota",
        device_id=[devices["child"], devices["phone"], devices["guest"]],
        tokens=500,
        window="week",
        at_end="finish",
    )
    told = [(q["name"], q["limit_tokens"], q["window"]) for q in response["quotas"]]
    assert told == [
        ("Child", 500, "week"),
        ("Phone", 500, "week"),
        ("Guests", 500, "week"),
    ]
    stored = {"quota_tokens": 500, "quota_window": "week", "quota_end": "finish"}
    assert stored.items() <= entry.subentries["child"].data.items()
    assert entry.subentries["child"].data["weight"] == 2.0
    guest = {f"guest_{key}": value for key, value in stored.items()}
    assert guest.items() <= entry.options.items()


async def test_a_quota_that_was_set_is_there_after_a_restart(
    hass: HomeAssistant, entry: ConfigEntry[Household], devices: Mapping[str, str]
) -> None:
    await order(hass, "set_quota", device_id=devices["child"], tokens=500)
    await order(hass, "set_quota", device_id=devices["guest"], tokens=60)
    assert await hass.config_entries.async_reload(entry.entry_id)
    status = entry.runtime_data.node_status
    assert status("child").window.limit_tokens == 500
    assert status("guest").window.limit_tokens == 60


async def test_no_tokens_are_no_quota(
    hass: HomeAssistant, entry: ConfigEntry, devices: Mapping[str, str]
) -> None:
    response = await act(hass, "set_quota", device_id=devices["parent"], tokens=0)
    assert response["quotas"][0]["limit_tokens"] is None
    assert "quota_tokens" not in entry.subentries["parent"].data


async def test_a_steady_quota_needs_its_refill(
    hass: HomeAssistant, household: Household, devices: Mapping[str, str]
) -> None:
    steady = {"device_id": devices["child"], "tokens": 500, "window": "steady"}
    with pytest.raises(ServiceValidationError, match="an hour brings back for Child"):
        await act(hass, "set_quota", **steady)
    assert household.node_status("child").window.limit_tokens is None
    response = await act(hass, "set_quota", refill_per_hour=50, **steady)
    assert response["quotas"][0]["refill_per_hour"] == 50
    # What is stored already need not be said again.
    await act(hass, "set_quota", device_id=devices["child"], tokens=700)
    assert household.node_status("child").window.refill_per_s == 50 / 3600


async def test_tokens_can_be_granted_to_who_has_used_them_up(
    hass: HomeAssistant,
    llama: FakeServer,
    household: Household,
    talk: Talk,
    devices: Mapping[str, str],
) -> None:
    llama.default = answer(*["word"] * 64)
    await talk("user_parent")
    with pytest.raises(Rejected):
        await talk("user_parent")

    response = await act(hass, "grant_tokens", device_id=devices["parent"], tokens=200)

    assert response["quotas"][0]["limit_tokens"] == 300
    assert response["quotas"][0]["remaining_tokens"] > 150
    await talk("user_parent")


async def test_granted_tokens_survive_a_restart(
    hass: HomeAssistant, entry: ConfigEntry[Household], devices: Mapping[str, str]
) -> None:
    await order(hass, "grant_tokens", device_id=devices["parent"], tokens=200)
    assert await hass.config_entries.async_reload(entry.entry_id)
    window = entry.runtime_data.node_status("parent").window
    assert window.limit_tokens == 300
    assert entry.subentries["parent"].data["quota_tokens"] == 100


async def test_tokens_are_not_granted_to_who_has_no_quota(
    hass: HomeAssistant, household: Household, devices: Mapping[str, str]
) -> None:
    both = [devices["parent"], devices["child"]]
    with pytest.raises(ServiceValidationError, match="Child has no quota"):
        await order(hass, "grant_tokens", device_id=both, tokens=10)
    assert household.node_status("parent").window.limit_tokens == 100


async def test_a_period_can_begin_anew_and_totals_stay(
    hass: HomeAssistant,
    household: Household,
    talk: Talk,
    devices: Mapping[str, str],
    show: Show,
    elapse: Elapse,
) -> None:
    await talk("user_parent")
    await elapse(6)
    response = await act(hass, "reset_usage", device_id=devices["parent"])
    assert response["quotas"][0]["used_tokens"] == 0
    await elapse(6)
    assert show("parent_tokens_window") == "0"
    assert show("parent_quota_remaining") == "100"
    assert show("parent_tokens_served") == "6"
    assert household.node_status("parent").charge > 0


async def test_what_belongs_to_all_can_have_no_quota(
    hass: HomeAssistant, entry: ConfigEntry, devices: Mapping[str, str]
) -> None:
    with pytest.raises(ServiceValidationError, match="Shared cannot have a quota"):
        await order(hass, "set_quota", device_id=devices["shared"], tokens=10)


# ---- pause and resume --------------------------------------------------------------


async def test_a_paused_member_waits_until_they_are_resumed(
    hass: HomeAssistant,
    household: Household,
    talk: Talk,
    devices: Mapping[str, str],
    show: Show,
    elapse: Elapse,
) -> None:
    response = await act(hass, "pause", device_id=devices["parent"])
    assert response == {"paused": ["Parent"], "paused_workloads": []}
    waiting = hass.async_create_background_task(
        talk("user_parent", device_id="d_phone"), "talk"
    )
    await until(lambda: household.status().waiting == 1)
    await talk("user_child")
    assert household.status().requests[0].rule is Rule.PAUSED
    await elapse(6)
    assert show("parent_member_state") == "paused"
    assert show("phone_member_state") == "paused"
    assert show("child_member_state") == "idle"

    response = await act(hass, "resume", device_id=devices["parent"])
    assert response == {"paused": [], "paused_workloads": []}
    assert await waiting
    await elapse(6)
    assert show("parent_member_state") == "idle"


async def test_the_queue_tells_what_is_paused_and_why_something_waits(
    hass: HomeAssistant, household: Household, talk: Talk, devices: Mapping[str, str]
) -> None:
    both = [devices["phone"], devices["guest"]]
    await order(hass, "pause", device_id=both, workload=["background", "task"])
    task = hass.async_create_background_task(talk(None), "talk")
    await until(lambda: household.status().waiting == 1)
    queue = await act(hass, "get_queue")
    assert queue["paused"] == ["Guests", "Phone"]
    assert queue["paused_workloads"] == ["background", "task"]
    assert queue["requests"][0]["reason"] == "paused"
    assert queue["expected_wait_s"]["voice"] == 0
    await order(hass, "resume")
    await task
    assert (await act(hass, "get_queue"))["paused"] == []


async def test_what_runs_may_end_unless_it_is_to_be_interrupted(
    hass: HomeAssistant, household: Household, two_talk: Talking
) -> None:
    await order(hass, "pause", workload="chat")
    assert household.status().running == 2
    two_talk.gate.set()
    await until(lambda: household.status().running == 0)
    assert household.status().requests[0].rule is Rule.PAUSED
    await order(hass, "resume", workload="chat")
    answers = await two_talk.end()
    assert [isinstance(each, list) for each in answers] == [True] * 3


async def test_a_pause_survives_a_restart(
    hass: HomeAssistant,
    entry: ConfigEntry[Household],
    devices: Mapping[str, str],
    show: Show,
) -> None:
    await order(hass, "pause", device_id=devices["child"], workload="task")
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    rules = entry.runtime_data.settings
    assert rules.paused_nodes == {"child"}
    assert rules.paused_workloads == {"task"}
    assert show("child_member_state") == "paused"


async def test_a_pause_of_nothing_is_a_mistake(
    hass: HomeAssistant, entry: ConfigEntry
) -> None:
    with pytest.raises(ServiceValidationError, match="Choose members"):
        await order(hass, "pause")
    with pytest.raises(vol.Invalid):
        await order(hass, "pause", workload="hurry")


# ---- cancel ------------------------------------------------------------------------


async def test_a_waiting_and_a_running_request_can_be_cancelled(
    hass: HomeAssistant, household: Household, two_talk: Talking
) -> None:
    first, _, waiting = household.status().requests
    await order(hass, "cancel_request", request_id=waiting.request_id)
    await order(hass, "cancel_request", request_id=first.request_id)
    answers = await two_talk.end()
    assert [isinstance(each, list) for each in answers] == [False, True, False]
    assert "cancelled" in str(answers[0])
    assert "cancelled" in str(answers[2])


async def test_members_may_cancel_their_own_requests_only(
    hass: HomeAssistant, household: Household, two_talk: Talking, child: Context
) -> None:
    parents, childs, _ = household.status().requests
    with pytest.raises(Unauthorized, match="requests of your own"):
        await order(
            hass, "cancel_request", request_id=parents.request_id, context=child
        )
    await order(hass, "cancel_request", request_id=childs.request_id, context=child)
    answers = await two_talk.end()
    assert [isinstance(each, list) for each in answers] == [True, False, True]


async def test_what_is_not_there_any_more_cannot_be_cancelled(
    hass: HomeAssistant, entry: ConfigEntry, child: Context
) -> None:
    with pytest.raises(ServiceValidationError, match="no request 4711"):
        await order(hass, "cancel_request", request_id="4711")
    with pytest.raises(Unauthorized):  # is not even told that
        await order(hass, "cancel_request", request_id="4711", context=child)


# ---- who may -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "data"),
    [
        ("grant_tokens", {"tokens": 1000}),
        ("set_quota", {"tokens": 1000}),
        ("reset_usage", {}),
        ("pause", {}),
        ("resume", {}),
    ],
)
async def test_a_child_cannot_give_itself_more(
    hass: HomeAssistant,
    household: Household,
    child: Context,
    hass_admin_user: MockUser,
    devices: Mapping[str, str],
    action: str,
    data: dict[str, Any],
) -> None:
    data = {**data, "device_id": devices["parent"]}
    before = household.node_status("parent").window
    with pytest.raises(Unauthorized, match="Only administrators") as refused:
        await order(hass, action, context=child, **data)
    assert refused.value.translation_key == "administrators_only"
    assert household.node_status("parent").window == before
    with pytest.raises(UnknownUser):
        await order(hass, action, context=Context(user_id="nobody"), **data)
    await order(hass, action, context=Context(user_id=hass_admin_user.id), **data)
    await order(hass, action, context=Context(parent_id=child.id), **data)


@pytest.mark.parametrize(
    ("domain", "service", "entity_id", "data"),
    [
        ("number", "set_value", "number.child_quota", {"value": 9000}),
        ("number", "set_value", "number.child_weight", {"value": 9}),
        (
            "number",
            "set_value",
            "number.fair_share_household_kept_for_background_work",
            {"value": 9},
        ),
        (
            "select",
            "select_option",
            "select.fair_share_household_fairness",
            {"option": "latency_first"},
        ),
        ("switch", "turn_on", "switch.fair_share_household_pause_background_work", {}),
        ("switch", "turn_off", "switch.fair_share_household_pause_background_work", {}),
    ],
)
async def test_nor_can_it_by_an_entity(
    hass: HomeAssistant,
    hass_admin_user: MockUser,
    hass_owner_user: MockUser,
    entry: ConfigEntry,
    domain: str,
    service: str,
    entity_id: str,
    data: dict[str, Any],
) -> None:
    somebody = await hass.auth.async_create_user("Somebody", group_ids=["system-users"])
    state = hass.states.get(entity_id)
    assert state is not None
    target = {"entity_id": entity_id, **data}
    with pytest.raises(Unauthorized, match="Only administrators"):
        await hass.services.async_call(
            domain, service, target, blocking=True, context=Context(user_id=somebody.id)
        )
    assert hass.states.get(entity_id) == state
    admin = Context(user_id=hass_admin_user.id)
    await hass.services.async_call(
        domain, service, target, blocking=True, context=admin
    )


@pytest.mark.parametrize(
    ("action", "data"),
    [
        ("generate", {"prompt": "hello"}),
        ("cancel_request", {"request_id": "r"}),
        ("pause", {"workload": "background"}),
        ("resume", {}),
        ("grant_tokens", {"device_id": "d", "tokens": 1}),
    ],
)
async def test_an_action_without_a_household_says_so(
    hass: HomeAssistant, action: str, data: dict[str, Any]
) -> None:
    assert await async_setup_component(hass, "fair_share", {})
    with pytest.raises(HomeAssistantError):
        await hass.services.async_call(
            "fair_share",
            action,
            data,
            blocking=True,
            return_response=action == "generate",
        )
