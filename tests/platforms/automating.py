"""Running automations for tests, and what they did."""

from typing import Any

from homeassistant.core import HomeAssistant, ServiceCall
from homeassistant.setup import async_setup_component

NOTIFY = {
    "action": "notify.parent",
    "data": {"message": "{{ trigger.entity_id | default('asked') }}"},
}


async def automate(
    hass: HomeAssistant,
    *,
    triggers: list[dict[str, Any]],
    conditions: list[dict[str, Any]] | None = None,
) -> None:
    """Set an automation up that tells which entity has triggered it."""
    config = {
        "id": "a",
        "alias": "a",
        "triggers": triggers,
        "conditions": conditions or [],
        "actions": [NOTIFY],
    }
    assert await async_setup_component(hass, "automation", {"automation": config})
    await hass.async_block_till_done()
    state = hass.states.get("automation.a")
    assert state is not None
    assert state.state == "on"


def messages(notified: list[ServiceCall]) -> list[str]:
    """Return what was told."""
    return [call.data["message"] for call in notified]
