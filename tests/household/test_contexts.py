"""Contexts of automations are remembered, within limits."""

from datetime import timedelta

from freezegun.api import FrozenDateTimeFactory
from homeassistant.core import Context, HomeAssistant
import pytest

from custom_components.fair_share.household.contexts import AutomationContexts


@pytest.fixture(name="contexts")
async def fixture_contexts(hass: HomeAssistant) -> AutomationContexts:
    contexts = AutomationContexts(hass)
    contexts.async_listen()
    return contexts


def trigger(hass: HomeAssistant, entity_id: str = "automation.night") -> str:
    """Trigger an automation and return the id of its context."""
    context = Context()
    hass.bus.async_fire(
        "automation_triggered", {"entity_id": entity_id}, context=context
    )
    return context.id


async def test_a_context_is_remembered_for_a_day(
    hass: HomeAssistant, contexts: AutomationContexts, freezer: FrozenDateTimeFactory
) -> None:
    context_id = trigger(hass)
    freezer.tick(timedelta(hours=23))
    assert contexts.entity_for(context_id) == "automation.night"
    freezer.tick(timedelta(hours=2))
    assert contexts.entity_for(context_id) is None


async def test_the_oldest_of_very_many_contexts_is_forgotten(
    hass: HomeAssistant, contexts: AutomationContexts
) -> None:
    ids = [trigger(hass) for _ in range(4097)]
    assert contexts.entity_for(ids[0]) is None
    assert contexts.entity_for(ids[1]) == "automation.night"
    assert contexts.entity_for(ids[-1]) == "automation.night"


async def test_nothing_is_remembered_after_the_end(hass: HomeAssistant) -> None:
    contexts = AutomationContexts(hass)
    stop = contexts.async_listen()
    stop()
    assert contexts.entity_for(trigger(hass)) is None
