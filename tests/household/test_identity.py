"""Every way to ask, and who is charged for it."""

from collections.abc import Awaitable, Callable
from typing import Any

from homeassistant.auth.models import User
from homeassistant.components.websocket_api.connection import current_connection
from homeassistant.core import Context, HomeAssistant, ServiceCall
from homeassistant.helpers import device_registry as dr, entity_registry as er
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry, MockUser
from pytest_homeassistant_custom_component.typing import (
    MockHAClientWebSocket,
    WebSocketGenerator,
)

from custom_components.fair_share.admission.model import Workload
from custom_components.fair_share.household.identity import (
    Asker,
    IdentityResolver,
    IdentityRule,
)
from custom_components.fair_share.household.registry import Registry
from tests.common import device, household_entry, member

SATELLITE = "assist_satellite.kitchen"

ANNA = Asker("parent", "parent/direct", None, None, IdentityRule.USER)
BEN = Asker("child", "child/direct", None, None, IdentityRule.USER)
ANNAS_PHONE = Asker("parent", "phone", "phone", Workload.CHAT, IdentityRule.DEVICE)
ANNAS_SPEAKER = Asker("parent", "desk", "desk", Workload.VOICE, IdentityRule.DEVICE)
KITCHEN = Asker("shared", "kitchen", "kitchen", Workload.VOICE, IdentityRule.DEVICE)
GUEST = Asker("guest", "guest/direct", None, None, IdentityRule.GUEST)
GUEST_VOICE = Asker("guest", "guest/direct", None, Workload.VOICE, IdentityRule.GUEST)


def automated(entity_id: str) -> Asker:
    return Asker(
        "shared",
        f"shared/{entity_id}",
        None,
        Workload.BACKGROUND,
        IdentityRule.AUTOMATION,
    )


@pytest.fixture(name="parent")
def fixture_parent(hass_admin_user: MockUser) -> User:
    """The user of Parent, who is an administrator and logged in."""
    return hass_admin_user


@pytest.fixture(name="people", autouse=True)
async def fixture_people(
    hass: HomeAssistant, hass_storage: dict[str, Any], parent: User
) -> None:
    """Two persons: Parent has a user, Child has none."""
    people = [("parent", parent.id), ("child", None)]
    hass_storage["person"] = {
        "version": 2,
        "data": {
            "items": [
                {
                    "id": f"person_{name}",
                    "name": name.capitalize(),
                    "user_id": user_id,
                    "device_trackers": [],
                }
                for name, user_id in people
            ]
        },
    }
    assert await async_setup_component(hass, "person", {})


@pytest.fixture(name="resolver")
async def fixture_resolver(hass: HomeAssistant) -> IdentityResolver:
    """A household of two members and three devices that listens to automations."""
    entry = household_entry(
        member("parent"),
        member("child", user_ids=("bens_tablet",)),
        device("kitchen", "d_kitchen"),
        device("desk", "d_desk", "parent"),
        device("phone", "d_phone", "parent", workload="chat"),
    )
    resolver = IdentityResolver(hass, Registry(hass, entry))
    resolver.async_listen()
    return resolver


@pytest.fixture(name="asked")
def fixture_asked(hass: HomeAssistant, resolver: IdentityResolver) -> list[Asker]:
    """Who called the action ``test.ask``, in order."""
    asked: list[Asker] = []

    async def ask(call: ServiceCall) -> None:
        asked.append(resolver.resolve(call.context, None, None))

    hass.services.async_register("test", "ask", ask)
    return asked


@pytest.fixture(name="websocket")
async def fixture_websocket(
    hass: HomeAssistant, hass_ws_client: WebSocketGenerator
) -> MockHAClientWebSocket:
    """Parent's browser."""
    return await hass_ws_client(hass)


type Act = Callable[..., Awaitable[None]]


@pytest.fixture(name="click")
def fixture_click(hass: HomeAssistant, websocket: MockHAClientWebSocket) -> Act:
    """Let Parent call an action in her browser."""

    async def click(domain: str, service: str, **data: Any) -> None:
        await websocket.send_json_auto_id(
            {
                "type": "call_service",
                "domain": domain,
                "service": service,
                "service_data": data,
            }
        )
        assert (await websocket.receive_json())["success"]
        await hass.async_block_till_done()

    return click


async def automation(hass: HomeAssistant, *actions: dict[str, Any]) -> None:
    """Set up ``automation.night``, started by the event ``night``."""
    config = {
        "id": "night",
        "alias": "night",
        "triggers": {"trigger": "event", "event_type": "night"},
        "actions": list(actions),
    }
    assert await async_setup_component(hass, "automation", {"automation": [config]})


async def script(hass: HomeAssistant, *actions: dict[str, Any]) -> None:
    """Set up ``script.sum_up``."""
    config = {"sum_up": {"sequence": list(actions)}}
    assert await async_setup_component(hass, "script", {"script": config})


# ---- satellites ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device_id", "asker"),
    [
        pytest.param("d_kitchen", KITCHEN, id="shared"),
        pytest.param("d_desk", ANNAS_SPEAKER, id="a member's"),
        pytest.param("d_new", GUEST_VOICE, id="unknown"),
        pytest.param(None, GUEST_VOICE, id="without a device"),
    ],
)
def test_a_satellite_is_charged_by_its_device(
    resolver: IdentityResolver, device_id: str | None, asker: Asker
) -> None:
    assert resolver.resolve(Context(), device_id, SATELLITE) == asker


def test_a_satellite_never_inherits_the_user_of_an_announcement(
    resolver: IdentityResolver, parent: User
) -> None:
    context = Context(user_id=parent.id)
    assert resolver.resolve(context, "d_kitchen", SATELLITE) == KITCHEN
    assert resolver.resolve(context, "d_new", SATELLITE) == GUEST_VOICE


async def test_a_telephone_is_charged_by_its_device_and_not_by_the_user_of_voip(
    hass: HomeAssistant, resolver: IdentityResolver
) -> None:
    voip = await hass.auth.async_create_system_user("Voice over IP")
    context = Context(user_id=voip.id)
    assert resolver.resolve(context, "d_kitchen", SATELLITE) == KITCHEN
    assert resolver.resolve(context, "d_new", SATELLITE) == GUEST_VOICE


async def test_a_satellite_that_names_no_device_is_looked_up(
    hass: HomeAssistant,
    entity_registry: er.EntityRegistry,
    device_registry: dr.DeviceRegistry,
) -> None:
    wyoming = MockConfigEntry(domain="wyoming")
    wyoming.add_to_hass(hass)
    speaker = device_registry.async_get_or_create(
        config_entry_id=wyoming.entry_id, identifiers={("wyoming", "speaker")}
    )
    satellite = entity_registry.async_get_or_create(
        "assist_satellite", "wyoming", "speaker", device_id=speaker.id
    )
    entry = household_entry(device("kitchen", speaker.id))
    resolver = IdentityResolver(hass, Registry(hass, entry))

    assert resolver.resolve(Context(), None, satellite.entity_id) == KITCHEN


def test_a_delayed_voice_command_is_charged_by_the_device_it_was_spoken_to(
    resolver: IdentityResolver,
) -> None:
    assert resolver.resolve(Context(), "d_kitchen", None) == KITCHEN
    assert resolver.resolve(Context(), "d_new", None) == GUEST


# ---- people ----------------------------------------------------------------------


def test_a_user_is_charged_as_the_member_with_their_person(
    resolver: IdentityResolver, parent: User
) -> None:
    assert resolver.resolve(Context(user_id=parent.id), None, None) == ANNA


def test_a_further_user_of_a_member_is_charged_as_the_member(
    resolver: IdentityResolver,
) -> None:
    assert resolver.resolve(Context(user_id="bens_tablet"), None, None) == BEN


@pytest.mark.parametrize(
    ("device_id", "asker"),
    [
        pytest.param("d_phone", ANNAS_PHONE, id="their own"),
        pytest.param("d_kitchen", ANNA, id="a shared one"),
        pytest.param("d_new", ANNA, id="an unknown one"),
    ],
)
def test_a_users_device_refines_who_they_are_and_never_overrules_it(
    resolver: IdentityResolver, parent: User, device_id: str, asker: Asker
) -> None:
    assert resolver.resolve(Context(user_id=parent.id), device_id, None) == asker


def test_a_user_cannot_be_somebody_else_by_naming_their_device(
    resolver: IdentityResolver,
) -> None:
    context = Context(user_id="bens_tablet")
    assert resolver.resolve(context, "d_phone", None) == BEN


@pytest.mark.parametrize(
    "device_id",
    [
        pytest.param(None, id="none"),
        pytest.param("d_kitchen", id="a shared one"),
        pytest.param("d_phone", id="a member's phone"),
        pytest.param("d_desk", id="a member's satellite"),
    ],
)
def test_a_user_who_is_no_member_is_a_guest_whatever_device_they_name(
    resolver: IdentityResolver, device_id: str | None
) -> None:
    context = Context(user_id="nobody")
    assert resolver.resolve(context, device_id, None) == GUEST


async def test_a_person_without_a_member_is_a_guest(
    hass: HomeAssistant, parent: User
) -> None:
    resolver = IdentityResolver(hass, Registry(hass, household_entry()))
    assert resolver.resolve(Context(user_id=parent.id), None, None) == GUEST


async def test_an_action_from_the_browser_is_its_users(
    asked: list[Asker], click: Act
) -> None:
    await click("test", "ask")
    assert asked == [ANNA]


async def test_a_user_that_moves_to_another_person_is_charged_there(
    resolver: IdentityResolver, websocket: MockHAClientWebSocket, parent: User
) -> None:
    context = Context(user_id=parent.id)
    for person_id, user_id in (("person_parent", None), ("person_child", parent.id)):
        await websocket.send_json_auto_id(
            {"type": "person/update", "person_id": person_id, "user_id": user_id}
        )
        assert (await websocket.receive_json())["success"]
    assert resolver.resolve(context, None, None) == BEN


async def test_the_user_of_a_removed_person_is_a_guest(
    resolver: IdentityResolver, websocket: MockHAClientWebSocket, parent: User
) -> None:
    await websocket.send_json_auto_id(
        {"type": "person/delete", "person_id": "person_parent"}
    )
    assert (await websocket.receive_json())["success"]
    assert resolver.resolve(Context(user_id=parent.id), None, None) == GUEST


async def test_a_removed_user_is_a_guest(
    hass: HomeAssistant, resolver: IdentityResolver, parent: User
) -> None:
    await hass.auth.async_remove_user(parent)
    await hass.async_block_till_done()
    assert resolver.resolve(Context(user_id=parent.id), None, None) == GUEST


# ---- automations and scripts -------------------------------------------------------


async def test_an_automation_is_charged_as_itself(
    hass: HomeAssistant, asked: list[Asker]
) -> None:
    await automation(hass, {"action": "test.ask"})
    hass.bus.async_fire("night")
    await hass.async_block_till_done()
    assert asked == [automated("automation.night")]


async def test_an_automation_is_not_charged_to_the_person_who_set_it_off(
    hass: HomeAssistant, asked: list[Asker], parent: User
) -> None:
    await automation(hass, {"action": "test.ask"})
    hass.bus.async_fire("night", context=Context(user_id=parent.id))
    await hass.async_block_till_done()
    assert asked == [automated("automation.night")]


async def test_the_connection_that_leaks_into_an_automation_is_not_believed(
    hass: HomeAssistant, asked: list[Asker], click: Act, parent: User
) -> None:
    connected: list[str | None] = []

    async def look(_call: ServiceCall) -> None:
        connection = current_connection.get()
        connected.append(connection.user.id if connection else None)

    hass.services.async_register("test", "look", look)
    await automation(hass, {"action": "test.look"}, {"action": "test.ask"})

    await click("automation", "trigger", entity_id="automation.night")

    assert connected == [parent.id]
    assert asked == [automated("automation.night")]


async def test_a_script_of_nobody_is_charged_as_itself(
    hass: HomeAssistant, asked: list[Asker]
) -> None:
    await script(hass, {"action": "test.ask"})
    await hass.services.async_call("script", "sum_up", blocking=True)
    assert asked == [automated("script.sum_up")]


async def test_a_script_that_a_person_starts_is_theirs(
    hass: HomeAssistant, asked: list[Asker], click: Act
) -> None:
    await script(hass, {"action": "test.ask"})
    await click("script", "sum_up")
    assert asked == [ANNA]


@pytest.mark.parametrize("action", ["script.sum_up", "script.turn_on"])
async def test_a_script_inside_an_automation_is_the_automations(
    hass: HomeAssistant, asked: list[Asker], action: str
) -> None:
    await script(hass, {"action": "test.ask"})
    await automation(
        hass,
        {"action": action, "data": {"entity_id": "script.sum_up"}},
        {"action": "test.ask"},
    )
    hass.bus.async_fire("night")
    await hass.async_block_till_done()
    assert asked == [automated("automation.night")] * 2


async def test_an_automation_from_before_our_start_is_known_by_its_state(
    hass: HomeAssistant, resolver: IdentityResolver
) -> None:
    context = Context()
    hass.states.async_set("automation.old", "on", context=context)
    hass.states.async_set("light.hall", "on", context=Context())
    assert resolver.resolve(context, None, None) == automated("automation.old")


async def test_an_action_of_nobody_is_a_guests(
    hass: HomeAssistant, asked: list[Asker]
) -> None:
    await hass.services.async_call("test", "ask", blocking=True)
    assert asked == [GUEST]
