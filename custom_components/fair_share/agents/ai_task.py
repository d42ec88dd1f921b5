"""An AI task: from its instructions to text or data."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from homeassistant.components.ai_task import GenDataTask
from homeassistant.components.conversation import (
    AssistantContent,
    ChatLog,
    SystemContent,
    UserContent,
)
from homeassistant.core import Context

from ..admission.model import Rejected
from ..engines.base import ClientFaultError, EngineError
from .answers import MAX_ANSWERS, DeltaDict, ModelAnswers, async_take_in
from .errors import AgentError, explain
from .memory import Sent
from .settings import AgentSettings
from .stream import AnswerReader
from .structure import Structure, StructureError

if TYPE_CHECKING:
    from ..household.runtime import Household

_RESPONSE_FORMAT = "response_format"


class TaskRun:
    """One AI task, in as many requests as it takes.

    Data that does not have the wanted structure is given back to the model once, with
    what is wrong about it. What comes out has the structure, or nothing comes out.
    """

    def __init__(
        self,
        household: Household,
        settings: AgentSettings,
        *,
        task: GenDataTask,
        chat_log: ChatLog,
        context: Context,
        entity_id: str,
    ) -> None:
        """Run a task for whoever called under ``context``."""
        self._chat_log = chat_log
        self._entity_id = entity_id
        self._structure = None if task.structure is None else Structure(task.structure)
        instructions = [settings.prompt] if settings.prompt else []
        if self._structure is not None:
            instructions.append(self._structure.instruction())
            wanted = {_RESPONSE_FORMAT: self._structure.response_format()}
            settings = replace(settings, parameters={**settings.parameters, **wanted})
        self._instruct(instructions)
        self._answers = ModelAnswers(
            household,
            settings,
            asker=household.identity.resolve(context, None, None),
            # How urgent a task is was chosen for it, whoever has it done.
            workload=settings.workload,
            chat_log=chat_log,
            sent=Sent(),
        )

    async def async_run(self) -> Any:  # noqa: ANN401 - whatever the structure says
        """Return text, or data of the wanted structure. Raises ``AgentError``."""
        try:
            text = await self._async_text()
            if self._structure is None:
                return text
            return await self._async_data(self._structure, text)
        except (Rejected, EngineError) as err:
            raise explain(err) from err

    async def _async_data(self, structure: Structure, text: str) -> Any:  # noqa: ANN401
        try:
            return structure.read(text)
        except StructureError as err:
            correction = structure.correction(err)
        self._chat_log.async_add_user_content(UserContent(correction))
        text = await self._async_text()
        try:
            return structure.read(text)
        except StructureError:
            # What is wrong would repeat what the model said, and end in logs.
            raise AgentError("not_structured") from None

    async def _async_text(self) -> str:
        """Return the model's text after all its calls of tools."""
        for _ in range(MAX_ANSWERS):
            reader = await self._async_answer()
            if not self._chat_log.unresponded_tool_results:
                break
        if self._structure is not None and reader.was_cut:
            raise AgentError("no_room_for_answer")
        if not reader.has_text:
            raise AgentError("no_answer")
        return cast("AssistantContent", self._chat_log.content[-1]).content or ""

    async def _async_answer(self) -> AnswerReader:
        try:
            return await self._async_take()
        except ClientFaultError:
            # Not every server can be held to a shape; it is asked for in words too.
            if not self._answers.requests.drop(_RESPONSE_FORMAT):
                raise
        return await self._async_take()

    async def _async_take(self) -> AnswerReader:
        reader = self._answers.reader()
        await async_take_in(self._chat_log, self._entity_id, self._message(reader))
        return reader

    async def _message(self, reader: AnswerReader) -> AsyncGenerator[DeltaDict]:
        yield {"role": "assistant"}
        async with aclosing(self._answers.deltas(reader)) as deltas:
            async for delta in deltas:
                yield delta

    def _instruct(self, instructions: list[str]) -> None:
        """Add to what Home Assistant tells the model before a task."""
        system = cast("SystemContent", self._chat_log.content[0])
        text = "\n\n".join([system.content, *instructions])
        self._chat_log.content[0] = SystemContent(text)
