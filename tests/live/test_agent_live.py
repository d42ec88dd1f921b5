"""The agent against a real llama.cpp server with a real model."""

from collections.abc import Iterator
from typing import Any

from homeassistant.components import conversation
from homeassistant.components.conversation import (
    AssistantContent,
    ToolResultContent,
    UserContent,
    trace,
)
from homeassistant.core import Context, HomeAssistant
from homeassistant.helpers import llm
from homeassistant.helpers.chat_session import ChatSession
from homeassistant.setup import async_setup_component
import pytest

from demo.embedded_engine import EmbeddedEngine
from tests.agents.conftest import AGENT, API, TURN_ON, HouseApi, is_error, speech
from tests.common import agent, household_entry, server

pytestmark = pytest.mark.live


@pytest.fixture
async def _house(
    hass: HomeAssistant, socket_enabled: None, embedded_engine: EmbeddedEngine
) -> None:
    """Two agents on the engine, one of them with tools."""
    assert await async_setup_component(hass, "homeassistant", {})
    assert await async_setup_component(hass, "conversation", {})
    llm.async_register_api(hass, HouseApi(hass=hass, id=API, name="House"))
    helper = agent("helper", llm_hass_api=[API]) | {"title": "Helper"}
    entry = household_entry(
        server(embedded_engine.url), agent(prompt="You are kind. " * 20), helper
    )
    entry.add_to_hass(hass)
    assert await hass.config_entries.async_setup(entry.entry_id)
    await hass.async_block_till_done()


@pytest.fixture(autouse=True)
def _traces() -> Iterator[None]:
    yield
    trace.async_clear_traces()


def stats() -> dict[str, Any]:
    """Return the tokens of the latest request."""
    events = trace.async_get_traces()[-1].as_dict()["events"]
    details = [event["data"] for event in events if event["data"]]
    return [data["stats"] for data in details if "stats" in data][-1]


@pytest.mark.usefixtures("_house")
async def test_a_conversation_is_read_from_the_cache_when_it_goes_on(
    hass: HomeAssistant,
) -> None:
    cached = []
    for text in ("Hello!", "And who are you?", "Thank you."):
        result = await conversation.async_converse(
            hass, text, "table", Context(), agent_id=AGENT
        )
        assert not is_error(result)
        assert speech(result)
        cached.append(stats()["cached_input_tokens"])
    assert cached[2] > cached[1] > 80
    assert stats()["input_tokens"] - cached[2] < 80


@pytest.mark.usefixtures("_house")
async def test_a_model_reads_a_history_with_calls(hass: HomeAssistant) -> None:
    call = llm.ToolInput(TURN_ON, {"name": "寝室"}, "a", external=True)
    with conversation.async_get_chat_log(hass, ChatSession("table")) as chat_log:
        chat_log.async_add_user_content(UserContent("Turn on the lamp"))
        for content in (
            AssistantContent(AGENT, tool_calls=[call]),
            ToolResultContent(AGENT, "a", TURN_ON, llm.ToolResult({"done": True})),
            AssistantContent(AGENT, "It is on."),
        ):
            chat_log.async_add_assistant_content_without_tools(content)
        result = await conversation.async_converse(
            hass, "Thanks", "table", Context(), agent_id="conversation.helper"
        )
    assert speech(result)
    assert stats()["output_tokens"] > 0
