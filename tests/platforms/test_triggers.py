"""The triggers that are made for quotas and queues, in running automations."""

import asyncio
from typing import Any

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant, ServiceCall
from homeassistant.helpers import (
    area_registry as ar,
    device_registry as dr,
    entity_registry as er,
)
from homeassistant.helpers.trigger import async_get_all_descriptions
import pytest
from pytest_homeassistant_custom_component.common import async_mock_service

from custom_components.fair_share.household.runtime import Household
from custom_components.fair_share.trigger import TRIGGERS
from tests.fake_server import FakeServer, answer
from tests.platforms.automating import automate, messages
from tests.platforms.conftest import (
    Elapse,
    Talk,
    Talking,
    found_device,
    streaming,
    until,
)

REMAINING = "sensor.parent_quota_remaining_in_percent"
EXHAUSTED = "binary_sensor.parent_quota_used_up"
BELOW_HALF = {"threshold": {"type": "below", "value": {"number": 50}}}


@pytest.fixture
def notified(hass: HomeAssistant) -> list[ServiceCall]:
    """What was notified."""
    return async_mock_service(hass, "notify", "parent")


@pytest.fixture
def parent_id(device_registry: dr.DeviceRegistry, entry: ConfigEntry) -> str:
    """The device of Parent."""
    return found_device(device_registry, entry, "parent").id


@pytest.fixture
def household_id(device_registry: dr.DeviceRegistry, entry: ConfigEntry) -> str:
    """The device of the household."""
    return found_device(device_registry, entry, entry.entry_id).id


@pytest.fixture
def targets(
    area_registry: ar.AreaRegistry,
    device_registry: dr.DeviceRegistry,
    parent_id: str,
    household_id: str,
) -> dict[str, dict[str, Any]]:
    """Ways to say that Parent is meant, or the household."""
    study = area_registry.async_create("Study")
    device_registry.async_update_device(parent_id, area_id=study.id)
    hall = area_registry.async_create("Hall")
    device_registry.async_update_device(household_id, area_id=hall.id)
    return {
        "percent": {"entity_id": REMAINING},
        "exhausted": {"entity_id": EXHAUSTED},
        "state": {"entity_id": "sensor.parent_state"},
        "queue": {"entity_id": "sensor.fair_share_household_queue_depth"},
        "device": {"device_id": parent_id},
        "area": {"area_id": study.id},
        "household": {"device_id": household_id},
        "hall": {"area_id": hall.id},
    }


type Targets = dict[str, dict[str, Any]]


def _on(name: str, target: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    return [{"trigger": f"fair_share.{name}", "target": target, "options": options}]


@pytest.mark.parametrize("target", ["percent", "device", "area"])
async def test_a_quota_that_crosses_a_threshold_triggers_once(
    hass: HomeAssistant,
    notified: list[ServiceCall],
    targets: Targets,
    talk: Talk,
    elapse: Elapse,
    target: str,
) -> None:
    triggers = _on("quota_crossed_threshold", targets[target], **BELOW_HALF)
    await automate(hass, triggers=triggers)
    await talk("user_parent", "word " * 43)  # with role and answer: 48 tokens of 100
    await elapse(6)
    assert messages(notified) == []
    await talk("user_parent", "")
    await elapse(6)
    assert messages(notified) == [REMAINING]
    await talk("user_parent")
    await talk("user_child", "word " * 60)
    await elapse(6)
    assert messages(notified) == [REMAINING]


@pytest.mark.parametrize("target", ["exhausted", "device", "area"])
async def test_a_quota_that_is_used_up_triggers(
    hass: HomeAssistant,
    notified: list[ServiceCall],
    targets: Targets,
    talk: Talk,
    elapse: Elapse,
    target: str,
) -> None:
    await automate(hass, triggers=_on("quota_exhausted", targets[target]))
    await talk("user_parent", "word " * 60)
    await elapse(6)
    assert messages(notified) == []
    await talk("user_parent", "other " * 60)
    await elapse(6)
    assert messages(notified) == [EXHAUSTED]


@pytest.fixture
async def waiting(
    hass: HomeAssistant,
    llama: FakeServer,
    household: Household,
    talk: Talk,
    notified: list[ServiceCall],
) -> Any:
    """Let Child hold both slots and Parent wait; what is called does so."""
    gate = asyncio.Event()
    llama.default = answer("one", gate, " two")
    tasks: list[asyncio.Task[Any]] = []

    async def begin() -> None:
        for user, running, waits in (
            ("user_child", 1, 0),
            ("user_child", 2, 0),
            ("user_parent", 2, 1),
        ):
            asked = hass.async_create_background_task(talk(user), f"talk {user}")
            tasks.append(asked)
            await until(lambda r=running: len(streaming(household)) == r)
            await until(lambda w=waits: household.status().waiting == w)

    async def end() -> None:
        gate.set()
        await asyncio.gather(*tasks)

    yield begin, end
    gate.set()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("name", "target", "told"),
    [
        ("queue_became_busy", "queue", "sensor.fair_share_household_queue_depth"),
        ("queue_became_busy", "household", "sensor.fair_share_household_queue_depth"),
        ("queue_became_busy", "hall", "sensor.fair_share_household_queue_depth"),
        ("queue_became_busy", "device", "sensor.parent_queue_depth"),
        ("member_waiting", "state", "sensor.parent_state"),
        ("member_waiting", "device", "sensor.parent_state"),
        ("member_waiting", "area", "sensor.parent_state"),
    ],
)
async def test_what_waits_for_some_time_triggers_once(
    hass: HomeAssistant,
    notified: list[ServiceCall],
    targets: Targets,
    waiting: Any,
    elapse: Elapse,
    name: str,
    target: str,
    told: str,
) -> None:
    begin, end = waiting
    await elapse(6)
    await automate(
        hass, triggers=_on(name, targets[target], **{"for": {"seconds": 20}})
    )
    await begin()
    await elapse(6)
    await elapse(10)
    assert messages(notified) == []
    await elapse(10)
    assert messages(notified) == [told]
    await elapse(20)
    await end()
    await elapse(6)
    assert messages(notified) == [told]


@pytest.mark.parametrize(
    ("name", "target"),
    [("queue_became_busy", "household"), ("member_waiting", "device")],
)
async def test_a_wait_that_ends_in_time_triggers_nothing(
    hass: HomeAssistant,
    notified: list[ServiceCall],
    targets: Targets,
    waiting: Any,
    elapse: Elapse,
    name: str,
    target: str,
) -> None:
    begin, end = waiting
    await elapse(6)
    await automate(
        hass, triggers=_on(name, targets[target], **{"for": {"seconds": 20}})
    )
    await begin()
    await elapse(10)
    await end()
    await elapse(6)
    await elapse(60)
    assert messages(notified) == []


async def test_somebody_who_is_served_meanwhile_is_not_waiting(
    hass: HomeAssistant,
    notified: list[ServiceCall],
    targets: Targets,
    two_talk: Talking,
    elapse: Elapse,
) -> None:
    await automate(hass, triggers=_on("member_waiting", targets["device"]))
    await elapse(6)
    await elapse(30)
    assert messages(notified) == []
    await two_talk.end()


async def test_nothing_triggers_because_of_a_new_start(
    hass: HomeAssistant,
    entry: ConfigEntry,
    notified: list[ServiceCall],
    targets: Targets,
    talk: Talk,
    elapse: Elapse,
) -> None:
    await talk("user_parent", "word " * 60)
    await talk("user_parent", "other " * 60)
    await elapse(6)
    everything = [
        *_on("quota_crossed_threshold", targets["area"], **BELOW_HALF),
        *_on("quota_exhausted", targets["area"]),
        *_on("queue_became_busy", targets["hall"]),
        *_on("member_waiting", targets["area"]),
    ]
    await automate(hass, triggers=everything)
    assert await hass.config_entries.async_unload(entry.entry_id)
    await elapse(60)
    assert hass.states.get(EXHAUSTED).state == "unavailable"  # type: ignore[union-attr]
    assert await hass.config_entries.async_setup(entry.entry_id)
    await elapse(60)
    assert hass.states.get(EXHAUSTED).state == "on"  # type: ignore[union-attr]
    assert messages(notified) == []


async def test_a_quota_that_is_used_up_after_a_new_start_triggers(
    hass: HomeAssistant,
    entry: ConfigEntry,
    notified: list[ServiceCall],
    targets: Targets,
    talk: Talk,
    elapse: Elapse,
) -> None:
    await talk("user_parent", "word " * 60)
    await automate(hass, triggers=_on("quota_exhausted", targets["device"]))
    assert await hass.config_entries.async_reload(entry.entry_id)
    await elapse(6)
    assert messages(notified) == []
    subentry = entry.subentries["parent"]
    hass.config_entries.async_update_subentry(
        entry, subentry, data={**subentry.data, "quota_tokens": 20}
    )
    await elapse(6)
    assert messages(notified) == [EXHAUSTED]


async def test_an_entity_of_another_integration_is_not_looked_at(
    hass: HomeAssistant,
    entity_registry: er.EntityRegistry,
    notified: list[ServiceCall],
    parent_id: str,
    elapse: Elapse,
) -> None:
    other = entity_registry.async_get_or_create(
        "binary_sensor",
        "other",
        "1",
        device_id=parent_id,
        translation_key="quota_exhausted",
    )
    await automate(hass, triggers=_on("quota_exhausted", {"device_id": parent_id}))
    for state in ("off", "on"):
        hass.states.async_set(other.entity_id, state)
        await elapse(1)
    assert messages(notified) == []


async def test_a_renamed_entity_triggers_as_before(
    hass: HomeAssistant,
    entity_registry: er.EntityRegistry,
    notified: list[ServiceCall],
    parent_id: str,
    talk: Talk,
    elapse: Elapse,
) -> None:
    renamed = "binary_sensor.mine"
    entity_registry.async_update_entity(EXHAUSTED, new_entity_id=renamed)
    await hass.async_block_till_done()
    await automate(hass, triggers=_on("quota_exhausted", {"device_id": parent_id}))
    await talk("user_parent", "word " * 60)
    await talk("user_parent", "other " * 60)
    await elapse(6)
    assert messages(notified) == [renamed]


async def test_the_ui_offers_every_trigger(
    hass: HomeAssistant, entry: ConfigEntry
) -> None:
    descriptions = await async_get_all_descriptions(hass)
    offered = {
        name.removeprefix("fair_share."): description
        for name, description in descriptions.items()
        if name.startswith("fair_share.")
    }
    assert set(offered) == set(TRIGGERS)
    for description in offered.values():
        assert description is not None
        (entity,) = description["target"]["entity"]
        assert entity["integration"] == "fair_share"
