"""One turn of a conversation: asking the model until it has answered."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from datetime import datetime
from typing import TYPE_CHECKING

from homeassistant.components.conversation import (
    AssistantContentDeltaDict,
    ChatLog,
    ConversationInput,
    ConversationResult,
    ToolResultContent,
    UserContent,
    async_get_result_from_chat_log,
)

from ..admission.model import Rejected
from ..engines.base import EngineError
from .answers import MAX_ANSWERS, DeltaDict, ModelAnswers, async_take_in
from .errors import AgentError, async_done, explain
from .memory import ConversationMemory
from .settings import AgentSettings
from .stream import AnswerReader

if TYPE_CHECKING:
    from ..household.runtime import Household


class Turn:
    """A question of a person and everything until its answer.

    Whatever goes wrong, the person is told in a sentence, and what was already said or
    done stays in the chat log.
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
        questions = sum(isinstance(c, UserContent) for c in chat_log.content)
        self._answers = ModelAnswers(
            household,
            settings,
            asker=self._asker,
            workload=self._asker.workload or settings.workload,
            chat_log=chat_log,
            sent=memory.of(chat_log.conversation_id, is_new=questions == 1),
        )
        self._failure: AgentError | None = None

    async def async_run(self) -> ConversationResult:
        """Return the answer, or the sentence that says why there is none."""
        try:
            for _ in range(MAX_ANSWERS):
                await async_take_in(
                    self._chat_log, self._user_input.agent_id, self._told()
                )
                if not self._chat_log.unresponded_tool_results:
                    break
        except AgentError as error:
            self._failure = error
            error.log(self._user_input.agent_id)
        if self._failure is None:
            return self._result()
        return await self._failure.async_result(
            self._household.hass,
            self._user_input.language,
            self._chat_log.conversation_id,
        )

    def _result(self) -> ConversationResult:
        """Return the answer.

        After a question Home Assistant hands the next sentence to whoever asked. An
        agent that controls nothing does not keep it: it may be a command.
        """
        result = async_get_result_from_chat_log(self._user_input, self._chat_log)
        if self._chat_log.llm_api is None:
            result.continue_conversation = False
        return result

    async def _told(self) -> AsyncGenerator[DeltaDict]:
        """Yield an answer and, if it fails, a sentence that says so.

        Raises ``AgentError`` if it fails before anything of the turn is in the chat
        log: then there is nothing to remember of it.
        """
        reader = self._answers.reader()
        begun = False
        try:
            async with aclosing(self._answer(reader)) as deltas:
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

    async def _answer(self, reader: AnswerReader) -> AsyncGenerator[DeltaDict]:
        async with aclosing(self._answers.deltas(reader)) as deltas:
            async for delta in deltas:
                yield delta
        if not self._answers.called and not reader.has_text:
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
