"""Answers of the model, one after the other, as long as it calls tools."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from homeassistant.components.conversation import (
    AssistantContent,
    AssistantContentDeltaDict,
    ChatLog,
    ToolResultContentDeltaDict,
)

from ..admission.model import Workload
from ..engines.base import Usage, WasThinking
from ..household.asker import Asker
from ..household.generation import Ask
from ..household.outside_work import holds_only_slot
from .calls import CallJudge, Judged
from .errors import AgentError
from .memory import Sent
from .requests import RequestBuilder
from .settings import AgentSettings
from .stream import AnswerReader
from .tools import Toolbox

if TYPE_CHECKING:
    from ..household.runtime import Household

type DeltaDict = AssistantContentDeltaDict | ToolResultContentDeltaDict

MAX_ANSWERS = 10
"""With so many answers that only want to call tools a turn is stopped."""


class ModelAnswers:
    """Asks the model for the answers of one turn, each in a request to the household.

    All requests but the first continue the turn, so they keep its place. ``called``
    tells whether the latest answer wanted to call tools.
    """

    def __init__(
        self,
        household: Household,
        settings: AgentSettings,
        *,
        asker: Asker,
        workload: Workload,
        chat_log: ChatLog,
        sent: Sent,
    ) -> None:
        """Ask for ``asker`` with what is in the chat log."""
        self._household = household
        self._asker = asker
        self._workload = workload
        self._chat_log = chat_log
        self._toolbox = Toolbox(chat_log.llm_api)
        self._judge = CallJudge(self._toolbox)
        self._asked = 0
        self.called = False
        self.requests = RequestBuilder(
            household,
            settings,
            household.registry.caps_for(asker),
            self._toolbox.definitions,
            sent,
        )

    def reader(self) -> AnswerReader:
        """Return a reader for the next answer."""
        return AnswerReader(self._toolbox.names)

    async def deltas(self, reader: AnswerReader) -> AsyncGenerator[DeltaDict]:
        """Yield one answer; its calls at the end, when the server is free again.

        Raises ``Rejected``, ``EngineError``, and ``AgentError`` when it is of no use.
        """
        if holds_only_slot(self._household):
            raise AgentError("agent_in_the_way")
        ask = Ask(
            asker=self._asker,
            workload=self._workload,
            request=await self.requests.async_build(self._chat_log),
            conversation_id=self._chat_log.conversation_id,
            continues_turn=self._asked > 0,
        )
        self._asked += 1
        async with self._household.generate(ask) as deltas:
            async for delta in deltas:
                if isinstance(delta, WasThinking) and reader.has_text:
                    # Ends the message that has begun; then it can be changed.
                    yield {"role": "assistant"}
                    self._take_back_text()
                if piece := reader.feed(delta):
                    yield piece
        if piece := reader.finish():
            yield piece
        self._trace(reader.usage)
        if reader.ran_out_of_room:
            raise AgentError("no_room_for_answer")
        judged = self._judge.judge(reader.calls, reader.printed)
        if judged.any and self._asked >= MAX_ANSWERS:
            raise AgentError("too_many_steps", {"steps": str(MAX_ANSWERS)})
        self.called = judged.any
        for call in _calls(judged):
            yield call

    def _take_back_text(self) -> None:
        """Make thinking of the latest text in the chat log."""
        latest = cast("AssistantContent", self._chat_log.content[-1])
        thoughts = f"{latest.thinking_content or ''}{latest.content or ''}"
        self._chat_log.content[-1] = replace(
            latest, content=None, thinking_content=thoughts
        )

    def _trace(self, usage: Usage | None) -> None:
        if usage is None:
            return
        stats = {
            "input_tokens": usage.prompt_tokens,
            "cached_input_tokens": usage.cached_tokens,
            "output_tokens": usage.output_tokens,
        }
        self._chat_log.async_trace({"stats": stats})


async def async_take_in(
    chat_log: ChatLog, agent_id: str, deltas: AsyncGenerator[DeltaDict]
) -> None:
    """Take one answer into the chat log, and make its calls."""
    # Closing both by hand gives the slot back at once, whatever ended the answer.
    async with (
        aclosing(deltas),
        aclosing(chat_log.async_add_delta_content_stream(agent_id, deltas)) as contents,
    ):
        async for _ in contents:
            pass


def _calls(judged: Judged) -> Iterator[DeltaDict]:
    if judged.any:
        refused = [refused.call for refused in judged.refused]
        yield {"tool_calls": [*judged.made, *refused]}
    for refusal in judged.refused:
        yield {
            "role": "tool_result",
            "tool_call_id": refusal.call.id,
            "tool_name": refusal.call.tool_name,
            "result": refusal.result,
        }
