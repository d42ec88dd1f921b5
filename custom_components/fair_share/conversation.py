"""Conversation agents: one entity for each agent of the household."""

from typing import Any, Literal, override

from homeassistant.components.conversation import (
    ChatLog,
    ConversationEntity,
    ConversationEntityFeature,
    ConversationInput,
    ConversationResult,
    ConverseError,
)
from homeassistant.config_entries import ConfigSubentry
from homeassistant.const import MATCH_ALL
from homeassistant.core import CALLBACK_TYPE, Event, HomeAssistant, callback
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .admission.model import Workload
from .agents.memory import ConversationMemory
from .agents.one_at_a_time import OneAtATime
from .agents.opening import async_opening
from .agents.settings import AgentSettings
from .agents.spoken import async_is_spoken_to
from .agents.turn import Turn
from .agents.wrapped import (
    WrappedSettings,
    WrappedTurn,
    async_follow_agent,
    async_wrapped_agent,
)
from .const import DOMAIN, SUBENTRY_AGENT, SUBENTRY_WRAPPED_AGENT
from .engines.surrogates import well_formed
from .household.openings import Opening
from .household.runtime import FairShareConfigEntry
from .subentry_entities import Make, SubentryEntity, async_add_subentry_entities

PARALLEL_UPDATES = 0

_LISTENING_S = 30.0
"""For so long after a satellite began to listen its question is expected."""


async def async_setup_entry(
    hass: HomeAssistant,
    entry: FairShareConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Add an entity for each agent, now and whenever one is added."""
    makers: dict[str, Make] = {
        SUBENTRY_AGENT: AgentEntity,
        SUBENTRY_WRAPPED_AGENT: WrappedAgentEntity,
    }
    async_add_subentry_entities(hass, entry, async_add_entities, makers)


class AgentEntity(SubentryEntity, ConversationEntity):
    """An agent that asks the model through the household's queue."""

    _attr_supports_streaming = True

    def __init__(
        self, entry: FairShareConfigEntry, subentry: ConfigSubentry, via_device_id: str
    ) -> None:
        """Take over how the agent was set up."""
        super().__init__(entry, subentry, via_device_id)
        self._memory = ConversationMemory()
        self._one_at_a_time = OneAtATime()
        self._satellite_device_id: str | None = None
        self._settings = self._read(subentry)

    @property
    @override
    def supported_languages(self) -> list[str] | Literal["*"]:
        """Whatever the model understands."""
        return MATCH_ALL

    @callback
    @override
    def async_apply(self, subentry: ConfigSubentry) -> None:
        """Take over a change of the agent; a running turn is not disturbed."""
        self._settings = self._read(subentry)
        self.async_write_ha_state()

    def _read(self, subentry: ConfigSubentry) -> AgentSettings:
        settings = AgentSettings.from_data(subentry.data)
        self._attr_supported_features = (
            ConversationEntityFeature.CONTROL
            if settings.llm_apis
            else ConversationEntityFeature(0)
        )
        return settings

    @override
    async def async_added_to_hass(self) -> None:
        """Have servers keep what a spoken question to this agent begins with."""
        await super().async_added_to_hass()
        self.async_on_remove(
            self._household.warm_up.async_add_source(self._async_spoken_opening)
        )

    @override
    async def async_prepare(self, language: str | None = None) -> None:
        """Get ready for a spoken question: a satellite has begun to listen."""
        await super().async_prepare(language)
        self._household.queue.expect(Workload.VOICE, _LISTENING_S)
        if opening := await self._async_opening(language):
            self._household.warm_up.async_prepare(opening)

    async def _async_spoken_opening(self) -> Opening | None:
        if async_is_spoken_to(self.hass, self.entity_id, self._settings.workload):
            return await self._async_opening(None)
        return None

    async def _async_opening(self, language: str | None) -> Opening | None:
        return await async_opening(
            self.hass,
            self._settings,
            device_id=self._satellite_device_id,
            language=language or self.hass.config.language,
        )

    @override
    async def async_process(self, user_input: ConversationInput) -> ConversationResult:
        """Answer a sentence when those before it in the conversation are answered."""
        user_input.text = well_formed(user_input.text)
        async with self._one_at_a_time.turn(user_input.conversation_id):
            return await super().async_process(user_input)

    @override
    async def _async_handle_message(
        self, user_input: ConversationInput, chat_log: ChatLog
    ) -> ConversationResult:
        """Answer a sentence."""
        settings = self._settings
        if user_input.satellite_id:
            self._satellite_device_id = user_input.device_id
        self._one_at_a_time.catch_up(chat_log)
        try:
            await chat_log.async_provide_llm_data(
                user_input.as_llm_context(DOMAIN),
                list(settings.llm_apis),
                settings.prompt,
                user_input.extra_system_prompt,
            )
        except ConverseError as err:
            return err.as_conversation_result()
        turn = Turn(self._household, settings, self._memory, user_input, chat_log)
        try:
            return await turn.async_run()
        finally:
            self._one_at_a_time.note(chat_log)


class WrappedAgentEntity(SubentryEntity, ConversationEntity):
    """An agent of another integration, asked when its turn has come in the queue."""

    def __init__(
        self, entry: FairShareConfigEntry, subentry: ConfigSubentry, via_device_id: str
    ) -> None:
        """Take over how the agent was set up."""
        super().__init__(entry, subentry, via_device_id)
        self._one_at_a_time = OneAtATime()
        self._settings = WrappedSettings.from_data(subentry.data)
        self._languages: list[str] | Literal["*"] = MATCH_ALL
        self._unfollow: CALLBACK_TYPE | None = None

    @property
    @override
    def supported_languages(self) -> list[str] | Literal["*"]:
        """What the agent understands."""
        return self._languages

    @callback
    @override
    def async_apply(self, subentry: ConfigSubentry) -> None:
        """Take over a change; a running turn is not disturbed."""
        self._settings = WrappedSettings.from_data(subentry.data)
        self._async_follow()

    @override
    async def async_added_to_hass(self) -> None:
        """Be able to do what the agent is."""
        await super().async_added_to_hass()
        self._async_follow()

    @override
    async def async_will_remove_from_hass(self) -> None:
        """Follow the agent no more."""
        if self._unfollow:
            self._unfollow()

    @callback
    def _async_follow(self, _event: Event[Any] | None = None) -> None:
        """Look at the agent, now and whenever it changes, is renamed or removed."""
        if self._unfollow:
            self._unfollow()
        self._unfollow = async_follow_agent(
            self.hass,
            self._settings,
            on_state=self._async_look,
            on_registry=self._async_follow,
        )
        self._async_look()

    @callback
    def _async_look(self, _event: Event[Any] | None = None) -> None:
        agent = async_wrapped_agent(self.hass, self._settings)
        self._attr_available = agent is not None and agent.available
        if agent is not None:
            self._languages = agent.supported_languages
            self._attr_supports_streaming = agent.supports_streaming
            self._attr_supported_features = ConversationEntityFeature(
                agent.supported_features or 0
            )
        self.async_write_ha_state()

    @override
    async def async_prepare(self, language: str | None = None) -> None:
        """Get ready for a spoken question: a satellite has begun to listen."""
        self._household.queue.expect(Workload.VOICE, _LISTENING_S)
        if agent := async_wrapped_agent(self.hass, self._settings):
            await agent.async_prepare(language)

    @override
    async def async_process(self, user_input: ConversationInput) -> ConversationResult:
        """Answer a sentence when those before it in the conversation are answered."""
        async with self._one_at_a_time.turn(user_input.conversation_id):
            return await super().async_process(user_input)

    @override
    async def _async_handle_message(
        self, user_input: ConversationInput, chat_log: ChatLog
    ) -> ConversationResult:
        """Have the agent answer a sentence."""
        self._one_at_a_time.catch_up(chat_log)
        turn = WrappedTurn(self._household, self._settings, user_input, chat_log)
        try:
            return await turn.async_run()
        finally:
            self._one_at_a_time.note(chat_log)
