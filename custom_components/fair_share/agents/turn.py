"""One turn of a conversation: asking the model until it has answered."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, cast

from homeassistant.components.conversation import (
    AssistantContent,
    AssistantContentDeltaDict,
    ChatLog,
    ConversationInput,
    ConversationResult,
    ToolResultContent,
    ToolResultContentDeltaDict,
    UserContent,
    async_get_result_from_chat_log,
)
from homeassistant.helpers import intent

from ..admission.model import Rejected
from ..engines.base import EngineError, Usage, WasThinking
from ..household.generation import Ask
from .calls import CallJudge, Judged
from .errors import AgentError, async_done, explain
from .memory import ConversationMemory
from .requests import RequestBuilder
from .settings import AgentSettings
from .stream import AnswerReader
from .tools import Toolbox

if TYPE_CHECKING:
    from ..household.runtime import Household

type DeltaDict = AssistantContentDeltaDict | ToolResultContentDeltaDict

MAX_ANSWERS = 10
"""With so many answers that only want to call tools a turn is stopped."""


class Turn:
    """A question of a person and everything until its answer.

    Every answer of the model is one request to the household; all but the first
    continue the turn, so they keep its place. Whatever goes wrong, the person is told
    in a sentence, and what was already said or done stays in the chat log.
    """

    def __init__(
        self,
        household: Household,
        settings: AgentSettings,
        memory: ConversationMemory,
        user_input: ConversationInput,
        chat_log: ChatLog,
    ) -> None:
        """Find out who asks, once for the whole turn."""
        self._household = household
        self._user_input = user_input
        self._chat_log = chat_log
        self._begin = len(chat_log.content)
        self._asker = household.identity.resolve(
            user_input.context, user_input.device_id, user_input.satellite_id
        )
        self._workload = self._asker.workload or settings.workload
        self._toolbox = Toolbox(chat_log.llm_api)
        self._judge = CallJudge(self._toolbox)
        questions = sum(isinstance(c, UserContent) for c in chat_log.content)
        self._requests = RequestBuilder(
            household,
            settings,
            household.registry.caps_for(self._asker),
            self._toolbox.definitions,
            memory.of(chat_log.conversation_id, is_new=questions == 1),
        )
        self._failure: AgentError | None = None

    async def async_run(self) -> ConversationResult:
        """Return the answer, or the sentence that says why there is none."""
        try:
            for number in range(1, MAX_ANSWERS + 1):
                await self._async_answer(number)
                if not self._chat_log.unresponded_tool_results:
                    break
        except AgentError as error:
            self._failure = error
            error.log(self._user_input.agent_id)
        if self._failure is None:
            return self._result()
        language = self._user_input.language
        sentence = await self._failure.async_sentence(self._household.hass, language)
        response = intent.IntentResponse(language=language)
        response.async_set_error(intent.IntentResponseErrorCode.UNKNOWN, sentence)
        return ConversationResult(response, self._chat_log.conversation_id)

    def _result(self) -> ConversationResult:
        """Return the answer.

        After a question Home Assistant hands the next sentence to whoever asked. An
        agent that controls nothing does not keep it: it may be a command.
        """
        result = async_get_result_from_chat_log(self._user_input, self._chat_log)
        if self._chat_log.llm_api is None:
            result.continue_conversation = False
        return result

    async def _async_answer(self, number: int) -> None:
        """Take one answer of the model into the chat log, and make its calls."""
        # Closing both by hand gives the slot back at once, whatever ended the answer.
        async with (
            aclosing(self._told(number)) as deltas,
            aclosing(
                self._chat_log.async_add_delta_content_stream(
                    self._user_input.agent_id, deltas
                )
            ) as contents,
        ):
            async for _ in contents:
                pass

    async def _told(self, number: int) -> AsyncGenerator[DeltaDict]:
        """Yield an answer and, if it fails, a sentence that says so.

        Raises ``AgentError`` if it fails before anything of the turn is in the chat
        log: then there is nothing to remember of it.
        """
        reader = AnswerReader(self._toolbox.names)
        begun = False
        try:
            async with aclosing(self._answer(reader, number)) as deltas:
                async for delta in deltas:
                    if not begun:
                        begun = True
                        yield {"role": "assistant"}
                    yield delta
        except (Rejected, EngineError, AgentError) as err:
            error = self._explained(err, reader)
            if not begun and len(self._chat_log.content) == self._begin:
                raise error from err
            if not begun:
                yield {"role": "assistant"}
            async for delta in self._excuse(error, reader):
                yield delta

    async def _answer(
        self, reader: AnswerReader, number: int
    ) -> AsyncGenerator[DeltaDict]:
        """Yield one answer; its calls at the end, when the server is free again."""
        ask = Ask(
            asker=self._asker,
            workload=self._workload,
            request=await self._requests.async_build(self._chat_log),
            conversation_id=self._chat_log.conversation_id,
            continues_turn=number > 1,
        )
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
        if judged.any and number == MAX_ANSWERS:
            raise AgentError("too_many_steps", {"steps": str(MAX_ANSWERS)})
        for call in _calls(judged):
            yield call
        if not judged.any and not reader.has_text:
            yield {"content": await self._confirmation()}

    async def _excuse(
        self, error: AgentError, reader: AnswerReader
    ) -> AsyncGenerator[AssistantContentDeltaDict]:
        """Yield what is left of an answer that failed, and why it did."""
        if piece := reader.finish():
            yield piece
        if not reader.has_text:
            self._failure = error
        error.log(self._user_input.agent_id)
        sentence = await error.async_sentence(
            self._household.hass, self._user_input.language
        )
        yield {"content": f"{reader.gap}{sentence}"}

    def _take_back_text(self) -> None:
        """Make thinking of the latest text in the chat log."""
        latest = cast("AssistantContent", self._chat_log.content[-1])
        thoughts = f"{latest.thinking_content or ''}{latest.content or ''}"
        self._chat_log.content[-1] = replace(
            latest, content=None, thinking_content=thoughts
        )

    async def _confirmation(self) -> str:
        """Return what to say for a model that says nothing.

        Raises ``AgentError`` if there is nothing to confirm.
        """
        done = any(
            isinstance(content, ToolResultContent) and not content.result.error
            for content in self._chat_log.content[self._begin :]
        )
        if not done:
            raise AgentError("no_answer")
        return await async_done(self._household.hass, self._user_input.language)

    def _explained(
        self, error: Rejected | EngineError | AgentError, reader: AnswerReader
    ) -> AgentError:
        if isinstance(error, AgentError):
            return error
        if isinstance(error, EngineError) and reader.has_text:
            return AgentError("answer_cut", detail=error.detail)
        return explain(error, self._quota_resets_at())

    def _quota_resets_at(self) -> datetime | None:
        nodes = (self._asker.source_id, self._asker.member_id)
        with suppress(KeyError):
            windows = [self._household.node_status(node).window for node in nodes]
            resets = [w.resets_at for w in windows if w.remaining_tokens == 0]
            return max(resets, default=None)
        return None

    def _trace(self, usage: Usage | None) -> None:
        if usage is None:
            return
        stats = {
            "input_tokens": usage.prompt_tokens,
            "cached_input_tokens": usage.cached_tokens,
            "output_tokens": usage.output_tokens,
        }
        self._chat_log.async_trace({"stats": stats})


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
