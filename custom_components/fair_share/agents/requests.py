"""From a chat log to a request that fits."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from homeassistant.components.conversation import ChatLog
from homeassistant.util import dt as dt_util

from ..admission.model import Caps
from ..engines.base import GenerationRequest
from ..engines.media import Medium, takes
from .attachments import async_load_attached
from .history import first_turn_to_send, most_tokens
from .memory import Sent
from .prompt import Prompt, build, note_question
from .settings import AgentSettings

if TYPE_CHECKING:
    from ..household.runtime import Household


class RequestBuilder:
    """Builds the requests of one turn."""

    def __init__(
        self,
        household: Household,
        settings: AgentSettings,
        caps: Caps,
        tools: Sequence[Mapping[str, Any]],
        sent: Sent,
    ) -> None:
        """Keep what is the same for all requests of the turn."""
        self._household = household
        self._settings = settings
        self._parameters = dict(settings.parameters)
        self._caps = caps
        self._tools = tools
        self._sent = sent
        self._is_noted = False
        self._output_tokens = min(
            settings.output_tokens, caps.output_tokens or settings.output_tokens
        )

    async def async_build(self, chat_log: ChatLog) -> GenerationRequest:
        """Return the request for the next answer, without turns that do not fit.

        Raises ``Rejected`` (too long) if the newest turn alone does not fit, and
        ``AgentError`` if something is attached that can't be sent.
        """
        attached = await async_load_attached(
            self._household.hass, chat_log.content, self._taken()
        )
        if not self._is_noted:
            note_question(chat_log.content, self._sent.notes, dt_util.now())
            self._is_noted = True
        prompt = build(chat_log.content, self._sent.notes, attached)
        await self._async_trim(prompt)
        return self._request(prompt, self._sent.first_turn)

    def drop(self, parameter: str) -> bool:
        """Send a parameter no more; return whether it was sent until now."""
        return self._parameters.pop(parameter, None) is not None

    async def _async_trim(self, prompt: Prompt) -> None:
        if (budget := self._budget_tokens()) is None:
            return

        async def count(first_turn: int) -> int:
            request = self._request(prompt, first_turn)
            return await self._household.count_tokens(request)

        self._sent.first_turn = await first_turn_to_send(
            most_tokens([*prompt.system, *self._tools]),
            [most_tokens(turn) for turn in prompt.turns],
            budget,
            count,
            self._sent.first_turn,
        )

    def _budget_tokens(self) -> int | None:
        """Return how long a prompt may be; ``None`` if nothing limits it.

        Room for the answer is kept, but at most a quarter of all.
        """
        limits = (self._caps.context_tokens, self._household.context_limit())
        context = min((limit for limit in limits if limit is not None), default=None)
        if context is None:
            return None
        return context - max(1, min(self._output_tokens, context // 4))

    def _request(self, prompt: Prompt, first_turn: int) -> GenerationRequest:
        return GenerationRequest(
            messages=prompt.messages(first_turn),
            max_output_tokens=self._output_tokens,
            model=self._settings.model,
            tools=self._tools,
            parameters=self._parameters,
        )

    def _taken(self) -> frozenset[Medium]:
        """Return what any server takes beside text."""
        views = self._household.servers.statuses()
        known = [view.capabilities for view in views if view.capabilities is not None]
        return frozenset(
            medium for medium in Medium if any(takes(each, medium) for each in known)
        )
