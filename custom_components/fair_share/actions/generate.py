"""The action that has the model answer, in the queue and for a member."""

from collections.abc import Mapping
from dataclasses import dataclass
import json
from typing import Any

from homeassistant.const import ATTR_DEVICE_ID
from homeassistant.core import ServiceCall
from homeassistant.exceptions import HomeAssistantError
from homeassistant.util.json import JsonObjectType
import voluptuous as vol

from ..admission.model import Rejected, Workload
from ..agents.errors import AgentError, explain
from ..agents.structure import Structure, StructureError
from ..const import CONF_WORKLOAD, DEFAULT_OUTPUT_TOKENS, DOMAIN
from ..engines.base import (
    ClientFaultError,
    Content,
    EngineError,
    Finish,
    FinishReason,
    GenerationRequest,
    Usage,
    WasThinking,
)
from ..engines.surrogates import well_formed
from ..household.asker import Asker
from ..household.generation import Ask, Receipt
from ..household.permission import NotAllowed, async_is_free
from ..household.runtime import Household
from .schemas import HOUSEHOLD, MOST_TOKENS
from .structure import structure
from .targets import asker_for

_PROMPT = "prompt"
_INSTRUCTIONS = "instructions"
_STRUCTURE = "structure"
_MAX_TOKENS = "max_tokens"

GENERATE = {
    **HOUSEHOLD,
    vol.Required(_PROMPT): vol.All(str, vol.Length(min=1)),
    vol.Optional(_INSTRUCTIONS): str,
    vol.Optional(ATTR_DEVICE_ID): str,
    vol.Optional(CONF_WORKLOAD): vol.Coerce(Workload),
    vol.Optional(_STRUCTURE): structure,
    vol.Optional(_MAX_TOKENS, default=DEFAULT_OUTPUT_TOKENS): vol.All(
        vol.Coerce(int), vol.Range(1, MOST_TOKENS)
    ),
}


@dataclass(frozen=True, slots=True)
class _Answer:
    text: str
    usage: Usage
    finish: FinishReason
    request_id: str


async def async_generate(household: Household, call: ServiceCall) -> JsonObjectType:
    """Have the model answer a prompt, charged to who is named or who calls.

    Raises ``HomeAssistantError`` with a translated sentence when there is no answer,
    or none of the wanted shape after it was asked to correct it once.
    """
    job = _Job(household, await _async_asker(household, call), call.data)
    try:
        return await job.async_run()
    except (Rejected, EngineError) as err:
        raise explain(err) from err


async def _async_asker(household: Household, call: ServiceCall) -> Asker:
    """Return who is charged. Raises ``NotAllowed`` for others than the caller."""
    caller = household.identity.resolve(call.context, None, None)
    if (device_id := call.data.get(ATTR_DEVICE_ID)) is None:
        return caller
    asker = asker_for(household, device_id)
    if asker.member_id != caller.member_id and not await async_is_free(
        household.hass, call.context
    ):
        raise NotAllowed(call.context, "own_share_only")
    return asker


class _Job:
    """One call, in as many requests as it takes."""

    def __init__(
        self, household: Household, asker: Asker, data: Mapping[str, Any]
    ) -> None:
        self._household = household
        self._asker = asker
        self._workload = data.get(CONF_WORKLOAD) or asker.workload or Workload.TASK
        self._max_tokens: int = data[_MAX_TOKENS]
        self._structure: Structure | None = data.get(_STRUCTURE)
        self._parameters: dict[str, Any] = {}
        instructions = [data[_INSTRUCTIONS]] if data.get(_INSTRUCTIONS) else []
        if self._structure is not None:
            instructions.append(self._structure.instruction())
            self._parameters["response_format"] = self._structure.response_format()
        self._messages: list[Mapping[str, Any]] = []
        if instructions:
            self._say("system", "\n\n".join(instructions))
        self._say("user", data[_PROMPT])
        self._answers: list[_Answer] = []

    async def async_run(self) -> JsonObjectType:
        """Return the response of the action."""
        answer = await self._async_answer()
        if self._structure is None:
            return self._response(answer)
        try:
            return self._response(answer, self._structure.read(answer.text))
        except StructureError as err:
            self._say("assistant", answer.text)
            self._say("user", self._structure.correction(err))
        answer = await self._async_answer()
        try:
            return self._response(answer, self._structure.read(answer.text))
        except StructureError as err:
            raise HomeAssistantError(
                translation_domain=DOMAIN, translation_key="not_structured"
            ) from err

    async def _async_answer(self) -> _Answer:
        try:
            answer = await self._async_ask()
        except ClientFaultError:
            if "response_format" not in self._parameters:
                raise
            # Not every server can be held to a shape; it is asked for in words too.
            del self._parameters["response_format"]
            answer = await self._async_ask()
        self._answers.append(answer)
        if not answer.text.strip():
            ran_out = answer.finish is FinishReason.LENGTH
            raise AgentError("no_room_for_answer" if ran_out else "no_answer")
        return answer

    async def _async_ask(self) -> _Answer:
        receipt = Receipt()
        ask = Ask(
            asker=self._asker,
            workload=self._workload,
            request=GenerationRequest(
                tuple(self._messages), self._max_tokens, parameters=self._parameters
            ),
            continues_turn=bool(self._answers),
            receipt=receipt,
        )
        text = ""
        usage, finish = Usage(None, 0, 0), FinishReason.STOP
        async with self._household.generate(ask) as deltas:
            async for delta in deltas:
                match delta:
                    case Content():
                        text += delta.text
                    case WasThinking():
                        text = ""
                    case Usage():
                        usage = delta
                    case Finish():
                        finish = delta.reason
        return _Answer(text, usage, finish, receipt.request_id)

    def _say(self, role: str, text: str) -> None:
        self._messages.append({"role": role, "content": well_formed(text)})

    def _response(
        self, answer: _Answer, data: dict[str, Any] | None = None
    ) -> JsonObjectType:
        ids = {each.request_id for each in self._answers}
        records = [r for r in self._household.records() if r.request_id in ids]
        prompt = sum(each.usage.prompt_tokens or 0 for each in self._answers)
        output = sum(each.usage.output_tokens for each in self._answers)
        registry = self._household.registry
        return {
            "text": answer.text,
            "data": None if data is None else json.loads(json.dumps(data, default=str)),
            "complete": answer.finish is not FinishReason.LENGTH,
            "member": registry.name(self._asker.member_id),
            "workload": self._workload.value,
            "tokens": prompt + output,
            "prompt_tokens": prompt,
            "cached_tokens": sum(each.usage.cached_tokens for each in self._answers),
            "output_tokens": output,
            "wait_s": round(sum(record.wait_s for record in records), 3),
            "request_id": answer.request_id,
        }
