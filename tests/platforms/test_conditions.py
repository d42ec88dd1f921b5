"""The conditions that are made for quotas and the household, in running automations."""

from typing import Any

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant, ServiceCall
from homeassistant.helpers import area_registry as ar, device_registry as dr
from homeassistant.helpers.condition import async_get_all_descriptions
import pytest
from pytest_homeassistant_custom_component.common import async_mock_service

from custom_components.fair_share.condition import CONDITIONS
from tests.platforms.automating import automate
from tests.platforms.conftest import Elapse, Talk, Talking, found_device

EXHAUSTED = "binary_sensor.parent_quota_used_up"


@pytest.fixture
def notified(hass: HomeAssistant) -> list[ServiceCall]:
    """What was notified."""
    return async_mock_service(hass, "notify", "parent")


@pytest.fixture
def targets(
    area_registry: ar.AreaRegistry,
    device_registry: dr.DeviceRegistry,
    entry: ConfigEntry,
) -> dict[str, dict[str, Any]]:
    """Ways to say that Parent is meant, or the household."""
    parent = found_device(device_registry, entry, "parent")
    household = found_device(device_registry, entry, entry.entry_id)
    study = area_registry.async_create("Study")
    hall = area_registry.async_create("Hall")
    device_registry.async_update_device(parent.id, area_id=study.id)
    device_registry.async_update_device(household.id, area_id=hall.id)
    return {
        "entity": {"entity_id": EXHAUSTED},
        "device": {"device_id": parent.id},
        "area": {"area_id": study.id},
        "running": {"entity_id": "sensor.fair_share_household_running_requests"},
        "household": {"device_id": household.id},
        "hall": {"area_id": hall.id},
        "child": {"device_id": found_device(device_registry, entry, "child").id},
        "both": {
            "device_id": [
                parent.id,
                found_device(device_registry, entry, "child").id,
            ]
        },
    }


type Targets = dict[str, dict[str, Any]]


async def _asked(
    hass: HomeAssistant, notified: list[ServiceCall], elapse: Elapse
) -> bool:
    """Whether the automation acts now."""
    before = len(notified)
    hass.bus.async_fire("asked")
    await elapse(0)
    return len(notified) > before


async def _automate(
    hass: HomeAssistant, name: str, target: dict[str, Any], **options: Any
) -> None:
    condition = {
        "condition": f"fair_share.{name}",
        "target": target,
        "options": options,
    }
    await automate(
        hass,
        triggers=[{"trigger": "event", "event_type": "asked"}],
        conditions=[condition],
    )


async def _use_up(talk: Talk, elapse: Elapse) -> None:
    await talk("user_parent", "word " * 60)
    await talk("user_parent", "other " * 60)
    await elapse(6)


@pytest.mark.parametrize("target", ["entity", "device", "area", "both"])
async def test_whoever_used_their_quota_up_is_over_it(
    hass: HomeAssistant,
    notified: list[ServiceCall],
    targets: Targets,
    talk: Talk,
    elapse: Elapse,
    target: str,
) -> None:
    await _automate(hass, "is_over_quota", targets[target])
    assert not await _asked(hass, notified, elapse)
    await _use_up(talk, elapse)
    assert await _asked(hass, notified, elapse)


@pytest.mark.parametrize(
    ("target", "behavior"), [("child", "any"), ("child", "all"), ("both", "all")]
)
async def test_whoever_has_some_left_is_not_over_their_quota(
    hass: HomeAssistant,
    notified: list[ServiceCall],
    targets: Targets,
    talk: Talk,
    elapse: Elapse,
    target: str,
    behavior: str,
) -> None:
    await _automate(hass, "is_over_quota", targets[target], behavior=behavior)
    await _use_up(talk, elapse)
    assert not await _asked(hass, notified, elapse)


async def test_it_can_be_asked_whether_a_quota_is_used_up_for_some_time(
    hass: HomeAssistant,
    notified: list[ServiceCall],
    targets: Targets,
    talk: Talk,
    elapse: Elapse,
) -> None:
    lasting = {"for": {"minutes": 5}}
    await _automate(hass, "is_over_quota", targets["device"], **lasting)
    await _use_up(talk, elapse)
    assert not await _asked(hass, notified, elapse)
    await elapse(300)
    assert await _asked(hass, notified, elapse)


@pytest.mark.parametrize("target", ["running", "household", "hall"])
async def test_a_household_is_busy_while_answers_are_written(
    hass: HomeAssistant,
    notified: list[ServiceCall],
    targets: Targets,
    two_talk: Talking,
    elapse: Elapse,
    target: str,
) -> None:
    await _automate(hass, "is_busy", targets[target])
    await elapse(6)
    assert await _asked(hass, notified, elapse)
    await two_talk.end()
    await elapse(6)
    assert not await _asked(hass, notified, elapse)


async def test_a_household_is_busy_for_some_time_from_its_first_answer_on(
    hass: HomeAssistant,
    notified: list[ServiceCall],
    targets: Targets,
    two_talk: Talking,
    elapse: Elapse,
) -> None:
    lasting = {"for": {"seconds": 20}}
    await _automate(hass, "is_busy", targets["household"], **lasting)
    await elapse(6)
    assert not await _asked(hass, notified, elapse)
    await elapse(21)
    assert await _asked(hass, notified, elapse)
    await two_talk.end()


async def test_a_member_alone_is_no_household(
    hass: HomeAssistant,
    notified: list[ServiceCall],
    targets: Targets,
    two_talk: Talking,
    elapse: Elapse,
) -> None:
    await _automate(hass, "is_busy", targets["device"])
    await elapse(6)
    assert not await _asked(hass, notified, elapse)
    await two_talk.end()


@pytest.mark.parametrize(
    ("name", "target"), [("is_over_quota", "area"), ("is_busy", "hall")]
)
async def test_nobody_is_busy_or_over_a_quota_while_nothing_is_known(
    hass: HomeAssistant,
    entry: ConfigEntry,
    notified: list[ServiceCall],
    targets: Targets,
    talk: Talk,
    elapse: Elapse,
    name: str,
    target: str,
) -> None:
    await _automate(hass, name, targets[target])
    await _use_up(talk, elapse)
    assert await hass.config_entries.async_unload(entry.entry_id)
    await elapse(1)
    assert not await _asked(hass, notified, elapse)


async def test_a_quota_is_still_used_up_after_a_new_start(
    hass: HomeAssistant,
    entry: ConfigEntry,
    notified: list[ServiceCall],
    targets: Targets,
    talk: Talk,
    elapse: Elapse,
) -> None:
    await _automate(hass, "is_over_quota", targets["area"])
    await _use_up(talk, elapse)
    assert await hass.config_entries.async_reload(entry.entry_id)
    await elapse(6)
    assert await _asked(hass, notified, elapse)


async def test_the_ui_offers_every_condition(
    hass: HomeAssistant, entry: ConfigEntry
) -> None:
    descriptions = await async_get_all_descriptions(hass)
    offered = {
        name.removeprefix("fair_share."): description
        for name, description in descriptions.items()
        if name.startswith("fair_share.")
    }
    assert set(offered) == set(CONDITIONS)
    for description in offered.values():
        assert description is not None
        (entity,) = description["target"]["entity"]
        assert entity["integration"] == "fair_share"
