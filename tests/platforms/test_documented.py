"""The automations in the documentation are run as they are printed there."""

from pathlib import Path
import re
from typing import Any

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
from homeassistant.util.yaml import parse_yaml
import pytest
from pytest_homeassistant_custom_component.common import async_mock_service

from custom_components.fair_share.household.runtime import Household
from tests.fake_server import FakeServer, answer
from tests.platforms.conftest import Elapse

PAGE = Path(__file__).parents[2] / "docs" / "automations.md"


def documented(word: str) -> dict[str, Any]:
    """Return the only automation of the page that has this word in it."""
    blocks = re.findall(r"```yaml\n(triggers:.*?)```", PAGE.read_text(), re.DOTALL)
    (found,) = (block for block in blocks if word in block)
    automation = parse_yaml(found)
    assert isinstance(automation, dict)
    return {"alias": "documented", **automation}


async def run(hass: HomeAssistant, word: str, *, trigger: bool = True) -> None:
    """Set an automation up, and let it run."""
    automation = {"automation": documented(word)}
    assert await async_setup_component(hass, "automation", automation)
    calls = [{"entity_id": "automation.documented"}] * trigger
    for call in calls:
        await hass.services.async_call("automation", "trigger", call, blocking=True)
        await hass.services.async_call("automation", "turn_off", call, blocking=True)
    await hass.async_block_till_done()


@pytest.mark.parametrize(
    ("state", "paused"), [("playing", {"background"}), ("idle", set())]
)
async def test_a_film_pauses_background_work(
    hass: HomeAssistant, household: Household, state: str, paused: set[str]
) -> None:
    hass.states.async_set("media_player.living_room", state)
    await run(hass, "media_player.living_room")
    assert household.settings.paused_workloads == paused


async def test_a_school_report_brings_tokens(
    hass: HomeAssistant, entry: ConfigEntry[Household]
) -> None:
    child = entry.subentries["child"]
    hass.config_entries.async_update_subentry(
        entry, child, data={**child.data, "quota_tokens": 100}
    )
    await run(hass, "input_button.school_report")
    assert entry.runtime_data.node_status("child").window.limit_tokens == 2100


async def test_the_morning_brings_advice(
    hass: HomeAssistant, household: Household, llama: FakeServer
) -> None:
    told = async_mock_service(hass, "notify", "mobile_app_parent")
    llama.default = answer('{"advice": "Take a coat.", "umbrella": true}')
    await run(hass, "umbrella")
    assert [call.data["message"] for call in told] == ["Take a coat."]
    assert household.node_status("child").requests == 1


async def test_a_threshold_is_told_to_the_parent(
    hass: HomeAssistant, entry: ConfigEntry[Household], elapse: Elapse
) -> None:
    told = async_mock_service(hass, "notify", "mobile_app_parent")
    child = entry.subentries["child"]
    hass.config_entries.async_update_subentry(
        entry, child, data={**child.data, "quota_tokens": 100}
    )
    await run(hass, "event.child_events", trigger=False)
    await elapse(6)
    household = entry.runtime_data
    household.queue.scheduler._tree.nodes["child"].window.count(85)  # noqa: SLF001
    household.updates.touch("child")
    await elapse(6)
    assert [call.data["message"] for call in told] == [
        "Child has used 85 of 100 tokens."
    ]
