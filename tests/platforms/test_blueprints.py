"""The blueprints run as automations on the real sensors."""

from pathlib import Path
import shutil
from typing import Any

from homeassistant.components.automation.config import (
    AUTOMATION_BLUEPRINT_SCHEMA as SCHEMA,
)
from homeassistant.components.blueprint import Blueprint
from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant, ServiceCall
from homeassistant.setup import async_setup_component
from homeassistant.util.yaml import load_yaml_dict
import pytest
from pytest_homeassistant_custom_component.common import async_mock_service

from tests.platforms.conftest import Elapse, Talk

FOLDER = Path(__file__).parents[2] / "blueprints"
QUOTA_NEARLY_USED = "fair_share/quota_nearly_used.yaml"


@pytest.fixture
def hass_config_dir(hass_tmp_config_dir: str) -> str:
    """Use a folder that holds our blueprints."""
    target = Path(hass_tmp_config_dir) / "blueprints"
    shutil.copytree(FOLDER, target, dirs_exist_ok=True)
    return hass_tmp_config_dir


@pytest.fixture
def notified(hass: HomeAssistant) -> list[ServiceCall]:
    """What was notified."""
    return async_mock_service(hass, "notify", "parent")


async def automate(hass: HomeAssistant, path: str, **inputs: Any) -> None:
    """Set an automation up from a blueprint."""
    config = {"use_blueprint": {"path": path, "input": inputs}, "id": "a", "alias": "a"}
    assert await async_setup_component(hass, "automation", {"automation": config})
    await hass.async_block_till_done()
    state = hass.states.get("automation.a")
    assert state is not None
    assert state.state == "on"


NOTIFY = [
    {
        "action": "notify.parent",
        "data": {"message": "{{ who }}: {{ left }} {{ unit }} until {{ resets_at }}"},
    }
]


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.yaml")), ids=lambda p: p.stem)
def test_a_blueprint_says_where_it_comes_from_and_what_it_needs(path: Path) -> None:
    blueprint = Blueprint(load_yaml_dict(str(path)), schema=SCHEMA)
    where = path.relative_to(FOLDER.parent).as_posix()
    assert blueprint.metadata["source_url"] == (
        f"https://github.com/fair-share/fair-share/blob/main/{where}"
    )
    assert blueprint.metadata["homeassistant"]["min_version"] == "2026.10.0"
    assert blueprint.validate() is None


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.yaml")), ids=lambda p: p.stem)
def test_a_blueprint_offers_entities_of_fair_share_alone(path: Path) -> None:
    inputs = load_yaml_dict(str(path))["blueprint"]["input"].values()
    filters = [
        option
        for field in inputs
        for option in field["selector"].get("entity", {}).get("filter", [])
    ]
    assert filters
    assert {option["integration"] for option in filters} == {"fair_share"}


@pytest.mark.parametrize(
    ("entity_id", "message"),
    [
        ("sensor.parent_quota_remaining", "Parent: 47 tokens until 2026-12-01 00:00"),
        (
            "sensor.parent_quota_remaining_in_percent",
            "Parent: 47 % until 2026-12-01 00:00",
        ),
    ],
)
async def test_a_quota_that_runs_low_is_told_once(
    hass: HomeAssistant,
    notified: list[ServiceCall],
    talk: Talk,
    elapse: Elapse,
    entity_id: str,
    message: str,
) -> None:
    await automate(
        hass, QUOTA_NEARLY_USED, quota=[entity_id], threshold=50, actions=NOTIFY
    )
    await talk("user_parent", "word " * 43)  # with role and answer: 48 tokens
    await elapse(6)
    assert notified == []

    await talk("user_parent", "")
    await elapse(6)
    assert [call.data["message"] for call in notified] == [message]

    await talk("user_parent")
    await elapse(6)
    assert len(notified) == 1


async def test_a_quota_is_told_again_in_the_next_period(
    hass: HomeAssistant, notified: list[ServiceCall], talk: Talk, elapse: Elapse
) -> None:
    await automate(
        hass,
        QUOTA_NEARLY_USED,
        quota=["sensor.parent_quota_remaining"],
        threshold=50,
        actions=NOTIFY,
    )
    for _ in range(2):
        await talk("user_parent", "word " * 60)
        await elapse(6)
        await elapse(24 * 3600)
        await elapse(6)
    assert len(notified) == 2


async def test_a_restart_is_no_news(
    hass: HomeAssistant,
    entry: ConfigEntry,
    notified: list[ServiceCall],
    talk: Talk,
    elapse: Elapse,
) -> None:
    await talk("user_parent", "word " * 60)
    await elapse(6)
    await automate(
        hass,
        QUOTA_NEARLY_USED,
        quota=["sensor.parent_quota_remaining"],
        threshold=50,
        actions=NOTIFY,
    )
    assert await hass.config_entries.async_reload(entry.entry_id)
    await elapse(6)
    state = hass.states.get("automation.a")
    assert state is not None
    assert state.attributes["last_triggered"] is None
    assert notified == []


async def test_without_actions_of_ones_own_a_notification_is_shown(
    hass: HomeAssistant, talk: Talk, elapse: Elapse
) -> None:
    shown = async_mock_service(hass, "persistent_notification", "create")
    await automate(
        hass, QUOTA_NEARLY_USED, quota=["sensor.parent_quota_remaining_in_percent"]
    )
    await talk("user_parent", "word " * 80)
    await elapse(6)
    assert len(shown) == 1
    assert (
        shown[0].data["message"].startswith("Parent has 15 % of the quota left, until")
    )
