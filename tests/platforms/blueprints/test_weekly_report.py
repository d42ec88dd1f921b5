"""Who used what is told once a week."""

from typing import Any

from homeassistant.components.recorder.services import SERVICE_GET_STATISTICS_SCHEMA
from homeassistant.config_entries import ConfigEntry
from homeassistant.core import (
    HomeAssistant,
    ServiceCall,
    ServiceResponse,
    SupportsResponse,
)
import pytest

from tests.platforms.blueprints.from_blueprint import PAGE, automate, told
from tests.platforms.conftest import Elapse, Talk

NAME = "weekly_report"
CHILD, PARENT = "sensor.child_tokens_served", "sensor.parent_tokens_served"


@pytest.fixture
def asked_for(hass: HomeAssistant, entry: ConfigEntry) -> list[dict[str, Any]]:
    """What the recorder was asked for; it has 9 tokens of Child and 6 of Parent."""
    asked_for: list[dict[str, Any]] = []

    async def statistics(call: ServiceCall) -> ServiceResponse:
        asked_for.append(dict(call.data))
        return {
            "statistics": {
                CHILD: [{"change": 4.0}, {"change": 5.0}],
                PARENT: [{"change": 6.0}],
            }
        }

    hass.services.async_register(
        "recorder",
        "get_statistics",
        statistics,
        SERVICE_GET_STATISTICS_SCHEMA,
        SupportsResponse.ONLY,
    )
    return asked_for


async def test_it_is_told_on_the_day_at_the_time(
    hass: HomeAssistant,
    sent: list[ServiceCall],
    asked_for: list[dict[str, Any]],
    talk: Talk,
    elapse: Elapse,
) -> None:
    await talk("user_child", "hello my dear friend")
    await talk("user_parent")
    await automate(hass, NAME)
    await elapse(20 * 3600)  # Tuesday, 08:00
    assert sent == []
    await elapse(6 * 24 * 3600)
    ((target, message),) = told(sent)
    assert target == "notify.parent_phone"
    assert f"```\n{message}\n```" in PAGE
    (query,) = asked_for
    assert str(query["start_time"]) == "2026-11-30 00:00:00-08:00"
    assert str(query["end_time"]) == "2026-12-07 00:00:00-08:00"
    assert query["statistic_ids"] == [CHILD, PARENT]


async def test_nothing_used_is_told_too(
    hass: HomeAssistant,
    shown: list[ServiceCall],
    asked_for: list[dict[str, Any]],
    elapse: Elapse,
) -> None:
    quiet = "sensor.guests_tokens_served"
    await automate(hass, NAME, day="tue", served=[quiet], targets=None, actions=None)
    await elapse(20 * 3600)
    (call,) = shown
    assert call.data["title"] == "Fair Share: who used what"
    assert "- Guests: 0 tokens (0 %)\n- Together: 0 tokens" in call.data["message"]
