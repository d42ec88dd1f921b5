"""AI tasks against a real llama.cpp server with a real model."""

from collections.abc import Iterator

from homeassistant.components import ai_task as core
from homeassistant.components.conversation import trace
from homeassistant.core import HomeAssistant
from homeassistant.helpers import selector
from homeassistant.helpers.aiohttp_client import async_get_clientsession
from homeassistant.setup import async_setup_component
import probatio
import pytest

from custom_components.fair_share.admission.model import Outcome
from custom_components.fair_share.agents.structure import Structure
from custom_components.fair_share.household.runtime import Household
from demo.embedded_engine import EmbeddedEngine
from tests.common import ai_task, household_entry, server, set_up

pytestmark = pytest.mark.live

SELECTORS = {
    "select": {"options": ["grün", "blau"], "multiple": True},
    "constant": {"value": True, "label": "a"},
    "attribute": {"entity_id": "sun.sun"},
    "number": {"min": 0, "max": 1},
    "state": {"entity_id": "sun.sun"},
    "object": {
        "fields": {
            "name": {"selector": {"text": {}}, "required": True},
            "lit": {"selector": {"boolean": {}}},
        },
        "multiple": True,
    },
}
"""What selectors need that need something; all others need nothing."""


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant, socket_enabled: None) -> None:
    assert await async_setup_component(hass, "homeassistant", {})


@pytest.fixture(autouse=True)
def _traces() -> Iterator[None]:
    yield
    trace.async_clear_traces()


def known_selectors() -> dict[str, selector.Selector]:
    """Return every selector that a structure can have."""
    found = {}
    for kind in selector.SELECTORS:
        try:
            found[kind] = selector.selector({kind: SELECTORS.get(kind, {})})
        except probatio.Invalid:
            continue
    return found


async def test_the_engine_can_be_held_to_every_selector(
    hass: HomeAssistant, embedded_engine: EmbeddedEngine
) -> None:
    session = async_get_clientsession(hass)
    url = f"{embedded_engine.url}/v1/chat/completions"
    refused = {}
    for kind, field in known_selectors().items():
        structure = Structure(probatio.Schema({probatio.Required("field"): field}))
        body = {
            "messages": [{"role": "user", "content": "Hi"}],
            "max_tokens": 1,
            "response_format": structure.response_format(),
        }
        async with session.post(url, json=body) as response:
            if response.status != 200:
                refused[kind] = await response.text()
    assert refused == {}


async def test_a_real_answer_has_the_structure(
    hass: HomeAssistant, embedded_engine: EmbeddedEngine
) -> None:
    entry = household_entry(
        server(embedded_engine.url), ai_task(prompt="", output_tokens=200)
    )
    await set_up(hass, entry)
    household: Household = entry.runtime_data
    schema = probatio.Schema(
        {
            probatio.Required("colour"): selector.selector(
                {"select": {"options": ["grün", "blau"]}}
            ),
            probatio.Required("lit"): selector.selector({"boolean": {}}),
            probatio.Optional("count"): probatio.All(int, probatio.Range(min=-(2**70))),
        }
    )
    result = await core.async_generate_data(
        hass,
        task_name="lamp",
        entity_id="ai_task.tasks",
        instructions="The lamp in the hall is green, and it is on.",
        structure=schema,
    )
    assert result.data["colour"] in ("grün", "blau")
    assert result.data["lit"] in (True, False)
    # It was held to it at once: not refused, and not told to correct itself.
    assert [r.outcome for r in household.records()] == [Outcome.FINISHED]
