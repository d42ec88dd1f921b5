"""An agent of another integration: it asks a server by itself, past any queue."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
import json
from typing import Any

from homeassistant.components import conversation
from homeassistant.components.conversation import ChatLog, ConversationInput
from homeassistant.config_entries import ConfigEntry, ConfigFlow
from homeassistant.core import HomeAssistant
from homeassistant.helpers import entity_registry as er
from homeassistant.helpers.aiohttp_client import async_get_clientsession
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback
from pytest_homeassistant_custom_component.common import (
    MockConfigEntry,
    MockModule,
    MockPlatform,
    mock_config_flow,
    mock_integration,
    mock_platform,
)

OTHER = "conversation.other"


class OtherAgent(conversation.ConversationEntity):
    """Streams from a server into the chat log, as Home Assistant's own agents do."""

    _attr_supports_streaming = True
    _attr_supported_features = conversation.ConversationEntityFeature.CONTROL

    def __init__(self, url: str, name: str = "other") -> None:
        self.entity_id = f"conversation.{name}"
        self._attr_unique_id = name
        self._attr_name = name.capitalize()
        self.url = url
        self.first: Callable[[], Awaitable[object]] | None = None
        self.tells = True
        self.languages = ["de", "en"]
        self.asked: list[ConversationInput] = []
        self.prepared: list[str | None] = []

    @property
    def supported_languages(self) -> list[str]:
        return self.languages

    async def async_prepare(self, language: str | None = None) -> None:
        self.prepared.append(language)

    async def _async_handle_message(
        self, user_input: ConversationInput, chat_log: ChatLog
    ) -> conversation.ConversationResult:
        self.asked.append(user_input)
        if self.first is not None:
            await self.first()
        await chat_log.async_provide_llm_data(
            user_input.as_llm_context("other"), None, "You are another."
        )
        stream = chat_log.async_add_delta_content_stream(
            user_input.agent_id, self._deltas(chat_log)
        )
        async for _ in stream:
            pass
        return conversation.async_get_result_from_chat_log(user_input, chat_log)

    async def _deltas(
        self, chat_log: ChatLog
    ) -> AsyncGenerator[conversation.AssistantContentDeltaDict]:
        messages = [
            {"role": content.role, "content": content.content}
            for content in chat_log.content
        ]
        body = {"messages": messages, "stream": True, "model": "fake-model"}
        body["stream_options"] = {"include_usage": True}
        yield {"role": "assistant"}
        session = async_get_clientsession(self.hass)
        url = f"{self.url}/v1/chat/completions"
        async with session.post(url, json=body, raise_for_status=True) as response:
            async for line in response.content:
                data = line.decode().removeprefix("data: ").strip()
                if not data or data == "[DONE]":
                    continue
                chunk: dict[str, Any] = json.loads(data)
                if self.tells and (usage := chunk.get("usage")):
                    chat_log.async_trace({"stats": _stats(usage)})
                for choice in chunk["choices"]:
                    if text := choice["delta"].get("content"):
                        yield {"content": text}


def _stats(usage: dict[str, Any]) -> dict[str, int]:
    return {
        "input_tokens": usage["prompt_tokens"],
        "cached_input_tokens": usage["prompt_tokens_details"]["cached_tokens"],
        "output_tokens": usage["completion_tokens"],
    }


class _OtherFlow(ConfigFlow):
    """An integration has one."""


@asynccontextmanager
async def other_integration(
    hass: HomeAssistant, agent: OtherAgent, *more: OtherAgent
) -> AsyncIterator[er.RegistryEntry]:
    """Set up an integration with this agent; give it as the registry knows it.

    When the integration is set up once more it has another one like it.
    """
    agents = iter([agent, OtherAgent(agent.url)])

    async def async_setup_entry(hass: HomeAssistant, entry: ConfigEntry) -> bool:
        await hass.config_entries.async_forward_entry_setups(entry, ["conversation"])
        return True

    async def async_unload_entry(hass: HomeAssistant, entry: ConfigEntry) -> bool:
        return await hass.config_entries.async_unload_platforms(entry, ["conversation"])

    async def async_setup_platform_entry(
        _hass: HomeAssistant,
        _entry: ConfigEntry,
        async_add_entities: AddConfigEntryEntitiesCallback,
    ) -> None:
        async_add_entities([next(agents), *more])

    module = MockModule(
        "other",
        async_setup_entry=async_setup_entry,
        async_unload_entry=async_unload_entry,
    )
    mock_integration(hass, module)
    mock_platform(hass, "other.config_flow")
    platform = MockPlatform(async_setup_entry=async_setup_platform_entry)
    mock_platform(hass, "other.conversation", platform)
    entry = MockConfigEntry(domain="other", entry_id="other_entry")
    entry.add_to_hass(hass)
    with mock_config_flow("other", _OtherFlow):
        assert await hass.config_entries.async_setup(entry.entry_id)
        await hass.async_block_till_done()
        known = er.async_get(hass).async_get(agent.entity_id)
        assert known is not None
        yield known
