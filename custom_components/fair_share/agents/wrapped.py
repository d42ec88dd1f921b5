"""A turn that an agent of another integration takes, in the household's queue."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from homeassistant.components.conversation import (
    ChatLog,
    ConversationEntity,
    ConversationInput,
    ConversationResult,
)
from homeassistant.components.conversation.agent_manager import async_get_agent
from homeassistant.core import (
    CALLBACK_TYPE,
    Event,
    EventStateChangedData,
    HomeAssistant,
    callback,
)
from homeassistant.helpers import entity_registry as er
from homeassistant.helpers.event import (
    async_track_entity_registry_updated_event,
    async_track_state_change_event,
)

from ..admission.model import Rejected, Workload
from ..const import (
    CONF_AGENT,
    CONF_SERVER,
    CONF_WORKLOAD,
    DEFAULT_OUTPUT_TOKENS,
    OUTSIDE_SERVER,
)
from ..household.outside_work import (
    OutsideWork,
    Spending,
    admitted,
    holds_only_slot,
)
from .errors import AgentError, explain
from .wrapped_cost import Cost, TurnCost

if TYPE_CHECKING:
    from ..household.runtime import Household

_asking: ContextVar[frozenset[str]] = ContextVar(
    "fair_share_asking", default=frozenset()
)
"""The agents that are being asked, by their ids in the entity registry."""


@dataclass(frozen=True, slots=True)
class WrappedSettings:
    """The data of a ``wrapped_agent`` subentry.

    ``agent`` is the id of the agent in the entity registry, which outlives a change of
    its entity id. ``server_id`` is the server of the household that it uses, ``None``
    if it uses none of them.
    """

    agent: str
    server_id: str | None
    workload: Workload

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Read the data of a subentry."""
        server_id = data.get(CONF_SERVER, OUTSIDE_SERVER)
        return cls(
            agent=data[CONF_AGENT],
            server_id=None if server_id == OUTSIDE_SERVER else server_id,
            workload=Workload(data.get(CONF_WORKLOAD, Workload.CHAT)),
        )


@callback
def async_wrapped_agent(
    hass: HomeAssistant, settings: WrappedSettings
) -> ConversationEntity | None:
    """Return the agent that answers, ``None`` if it is not there."""
    entry = er.async_get(hass).entities.get_entry(settings.agent)
    agent = async_get_agent(hass, entry.entity_id) if entry else None
    return agent if isinstance(agent, ConversationEntity) else None


@callback
def async_follow_agent(
    hass: HomeAssistant,
    settings: WrappedSettings,
    *,
    on_state: Callable[[Event[EventStateChangedData]], None],
    on_registry: Callable[[Event[er.EventEntityRegistryUpdatedData]], None],
) -> CALLBACK_TYPE:
    """Tell when the agent has changed or was renamed; return what ends it."""
    entry = er.async_get(hass).entities.get_entry(settings.agent)
    if entry is None:
        return lambda: None
    unsubs = (
        async_track_state_change_event(hass, entry.entity_id, on_state),
        async_track_entity_registry_updated_event(hass, entry.entity_id, on_registry),
    )

    def unfollow() -> None:
        for unsub in unsubs:
            unsub()

    return unfollow


class WrappedTurn:
    """A question of a person that somebody else's agent answers.

    The agent gets it in the same conversation: it finds what was said before, and what
    it answers reaches the person as it comes.
    """

    def __init__(
        self,
        household: Household,
        settings: WrappedSettings,
        user_input: ConversationInput,
        chat_log: ChatLog,
    ) -> None:
        """Take a question that is the latest in the chat log."""
        self._household = household
        self._settings = settings
        self._user_input = user_input
        self._chat_log = chat_log
        self._cost = TurnCost(chat_log)

    async def async_run(self) -> ConversationResult:
        """Return the agent's answer, or a sentence that says why there is none.

        Raises whatever the agent raises.
        """
        try:
            return await self._async_answer()
        except (Rejected, AgentError) as err:
            error = err if isinstance(err, AgentError) else explain(err)
        error.log(self._user_input.agent_id)
        return await error.async_result(
            self._household.hass,
            self._user_input.language,
            self._chat_log.conversation_id,
        )

    async def _async_answer(self) -> ConversationResult:
        asked = _asking.get()
        if self._settings.agent in asked:
            raise AgentError("agent_asks_itself")
        if self._settings.server_id is not None and holds_only_slot(self._household):
            raise AgentError("agent_in_the_way")
        # Nobody waits for an agent that is not there, or gone by then.
        self._agent()
        async with admitted(self._household, self._work()) as spending:
            agent = self._agent()
            outside = _asking.set(asked | {self._settings.agent})
            try:
                return await self._async_ask(agent, spending)
            finally:
                _asking.reset(outside)

    async def _async_ask(
        self, agent: ConversationEntity, spending: Spending
    ) -> ConversationResult:
        agent.async_set_context(self._user_input.context)
        question = replace(
            self._user_input,
            agent_id=agent.entity_id,
            conversation_id=self._chat_log.conversation_id,
        )
        try:
            with self._cost.watch(agent.entity_id):
                result = await agent.internal_async_process(question)
        except BaseException:
            _book(spending, self._cost.broken_off())
            raise
        _book(spending, self._cost.in_all(_speech(result)))
        return result

    def _agent(self) -> ConversationEntity:
        """Return the agent. Raises ``AgentError`` if it can't answer."""
        agent = async_wrapped_agent(self._household.hass, self._settings)
        if agent is None or not agent.available:
            raise AgentError("agent_away")
        return agent

    def _work(self) -> OutsideWork:
        household = self._household
        asker = household.identity.resolve(
            self._user_input.context,
            self._user_input.device_id,
            self._user_input.satellite_id,
        )
        server_id = self._settings.server_id
        return OutsideWork(
            asker=asker,
            workload=asker.workload or self._settings.workload,
            # Once it is no server of the household any more, it has no slots for it.
            server_id=server_id if server_id in household.entry.subentries else None,
            prompt_tokens=self._cost.expected_prompt(),
            output_tokens=DEFAULT_OUTPUT_TOKENS,
        )


def _book(spending: Spending, cost: Cost) -> None:
    spending.spent(
        prompt=cost.prompt,
        cached=cost.cached,
        output=cost.output,
        estimated=cost.estimated,
    )


def _speech(result: ConversationResult) -> str:
    plain = result.response.speech.get("plain") or {}
    return str(plain.get("speech") or "")
