"""Automations made from blueprints, with the inputs that the documentation shows."""

from pathlib import Path
import re
from typing import Any

from homeassistant.core import CoreState, HomeAssistant, ServiceCall, State
from homeassistant.setup import async_setup_component
from homeassistant.util.yaml import parse_yaml

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "blueprints" / "automation" / "fair_share"
FILES = sorted(FOLDER.glob("*.yaml"))
PAGE = (ROOT / "docs" / "automations.md").read_text()
SWITCH = "switch.fair_share_household_pause_background_work"


def documented(name: str) -> dict[str, Any]:
    """Return the only configuration of a blueprint that the documentation shows."""
    blocks = re.findall(r"```yaml\n(use_blueprint:.*?)```", PAGE, re.DOTALL)
    shown = [parse_yaml(block)["use_blueprint"] for block in blocks]  # type: ignore[index,call-overload]
    (found,) = (use for use in shown if use["path"] == f"fair-share/{name}.yaml")
    inputs: dict[str, Any] = found["input"]
    return inputs


async def automate(hass: HomeAssistant, name: str, **changes: Any) -> None:
    """Set up the documented automation, with inputs changed or, ``None``, left out."""
    inputs = documented(name) | changes
    config = {
        "id": "a",
        "alias": "a",
        "use_blueprint": {
            "path": f"fair-share/{name}.yaml",
            "input": {k: v for k, v in inputs.items() if v is not None},
        },
    }
    assert await async_setup_component(hass, "automation", {"automation": config})
    await hass.async_block_till_done()
    state = state_of(hass, "automation.a")
    assert state.state == "on", state.attributes


async def restart(hass: HomeAssistant, name: str, **changes: Any) -> None:
    """Start Home Assistant with the documented automation."""
    hass.set_state(CoreState.not_running)
    await automate(hass, name, **changes)
    await hass.async_start()
    await hass.async_block_till_done()


def state_of(hass: HomeAssistant, entity_id: str) -> State:
    """Return the state of an entity that is there."""
    state = hass.states.get(entity_id)
    assert state is not None, entity_id
    return state


def told(calls: list[ServiceCall]) -> list[tuple[str, str]]:
    """Return to which telephones what was sent."""
    return [(*call.data["entity_id"], call.data["message"]) for call in calls]
