"""The two doors through which every case goes, and what is wrong with what comes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
import json
from typing import Any, Protocol

import aiohttp
from homeassistant.components import conversation
from homeassistant.core import Context, HomeAssistant
from homeassistant.helpers import llm
import voluptuous as vol

from .cases import Case
from .upstream import MARK

TOOL = "light"
_TOOLS = [{"type": "function", "function": {"name": TOOL, "parameters": {}}}]


class Door(Protocol):
    """A way into the household."""

    async def wrong(self, case: Case) -> str | None:
        """Return what is wrong with what comes of a case, ``None`` if nothing is."""
        ...


@dataclass(frozen=True, slots=True)
class Gateway:
    """A client that has an answer streamed, and then another one whole."""

    session: aiohttp.ClientSession
    url: str
    key: str

    async def wrong(self, case: Case) -> str | None:
        """Ask both ways."""
        return await self._streamed(case) or await self._whole(case)

    def _ask(self, *, stream: bool) -> Any:  # noqa: ANN401 - aiohttp keeps its type
        body: dict[str, Any] = {
            "messages": [{"role": "user", "content": MARK}],
            "tools": _TOOLS,
            "stream": stream,
        }
        if stream:
            body["stream_options"] = {"include_usage": True}
        headers = {"Authorization": f"Bearer {self.key}"}
        return self.session.post(
            f"{self.url}/v1/chat/completions", json=body, headers=headers
        )

    async def _streamed(self, case: Case) -> str | None:
        async with self._ask(stream=True) as answer:
            raw = (await answer.read()).decode()
            if answer.status != HTTPStatus.OK:
                return f"streamed: status {answer.status}"
        told = [
            event.removeprefix("data: ")
            for event in raw.split("\n\n")
            if event.startswith("data: ")
        ]
        events = [json.loads(event) for event in told if event != "[DONE]"]
        seen = _Seen(done="[DONE]" in told, error=any("error" in e for e in events))
        for event in events:
            seen.add_chunk(event)
        if case.error and (seen.done or seen.finish):
            return "streamed: an end was invented"
        return seen.wrong(case, "streamed")

    async def _whole(self, case: Case) -> str | None:
        async with self._ask(stream=False) as answer:
            told = await answer.json()
            if case.error:
                return (
                    None
                    if answer.status >= HTTPStatus.BAD_REQUEST
                    else "whole: no error was told"
                )
            if answer.status != HTTPStatus.OK:
                return f"whole: status {answer.status}"
        seen = _Seen(done=True)
        seen.add_whole(told)
        return seen.wrong(case, "whole")


@dataclass
class _Seen:
    """What a client saw of an answer."""

    done: bool = False
    error: bool = False
    text: str = ""
    thinking: str = ""
    finish: str | None = None
    calls: dict[int, list[str]] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    usages: list[tuple[int, int]] = field(default_factory=list)

    def add_chunk(self, event: Mapping[str, Any]) -> None:
        """Take an event of a stream."""
        for choice in event.get("choices", ()):
            delta = choice["delta"]
            self.text += delta.get("content") or ""
            self.thinking += delta.get("reasoning_content") or ""
            self.finish = choice["finish_reason"] or self.finish
            for call in delta.get("tool_calls", ()):
                parts = self.calls.setdefault(call["index"], ["", ""])
                self.ids |= {call["id"]} if "id" in call else set()
                parts[0] += call["function"].get("name", "")
                parts[1] += call["function"].get("arguments", "")
        self._count(event.get("usage"))

    def add_whole(self, answer: Mapping[str, Any]) -> None:
        """Take an answer that came as one."""
        (choice,) = answer["choices"]
        message = choice["message"]
        self.text = message["content"] or ""
        self.thinking = message.get("reasoning_content", "")
        self.finish = choice["finish_reason"]
        for number, call in enumerate(message.get("tool_calls", ())):
            function = call["function"]
            self.calls[number] = [function["name"], function["arguments"]]
            self.ids.add(call["id"])
        self._count(answer["usage"])

    def _count(self, usage: Mapping[str, int] | None) -> None:
        if usage is not None:
            counted = (usage["prompt_tokens"], usage["completion_tokens"])
            self.usages.append(counted)

    def wrong(self, case: Case, way: str) -> str | None:
        """Return the first thing that is not as it has to be."""
        told = {
            "text": (self.text, case.text),
            "thinking": (self.thinking, case.thinking),
            "calls": ([tuple(call) for call in self.calls.values()], [*case.calls]),
            "finish": (self.finish, case.finish),
            "error": (self.error, case.error),
            "done": (self.done, not case.error),
            "indexes": ([*self.calls], [*range(len(case.calls))]),
            "number of ids": (len(self.ids), len(case.calls)),
            "counts of tokens": (len(self.usages), int(not case.error)),
            "usage": (self.usages[:1] if case.usage else [], _some(case.usage)),
        }
        for name, (seen, expected) in told.items():
            if seen != expected:
                return f"{way}: {name} is {seen!r}, not {expected!r}"
        return None


def _some[T](value: T | None) -> list[T]:
    return [] if value is None else [value]


class LightTool(llm.Tool):
    """A tool that notes how it was called."""

    name = TOOL
    description = "Turns on a light."
    parameters = vol.Schema({vol.Optional("name"): str})

    def __init__(self) -> None:
        """Have been called by nobody."""
        self.calls: list[dict[str, Any]] = []

    async def async_call(
        self,
        hass: HomeAssistant,  # noqa: ARG002 - as Home Assistant calls it
        tool_input: llm.ToolInput,
        llm_context: llm.LLMContext,  # noqa: ARG002
    ) -> llm.ToolResult:
        """Note it."""
        self.calls.append(dict(tool_input.tool_args))
        return llm.ToolResult(data={"success": True})


class LightApi(llm.API):
    """A house of which the lights can be turned on."""

    def __init__(self, hass: HomeAssistant, tool: LightTool) -> None:
        """Offer the one tool."""
        super().__init__(hass=hass, id="corpus", name="Corpus")
        self._tool = tool

    async def async_get_api_instance(
        self, llm_context: llm.LLMContext
    ) -> llm.APIInstance:
        """Return it for one turn."""
        return llm.APIInstance(self, "Use the tools.", llm_context, [self._tool])


@dataclass(frozen=True, slots=True)
class Agent:
    """Somebody who asks the household's conversation agent."""

    hass: HomeAssistant
    agent_id: str
    tool: LightTool

    async def wrong(self, case: Case) -> str | None:
        """Ask, and listen to what is said."""
        self.tool.calls.clear()
        result = await conversation.async_converse(
            self.hass, MARK, None, Context(), agent_id=self.agent_id
        )
        said = result.response.speech["plain"]["speech"].strip()
        wanted = [json.loads(arguments) for arguments in case.agent_calls]
        if case.thinking and case.thinking in said:
            return "the reasoning was spoken"
        if self.tool.calls != wanted:
            return f"the calls are {self.tool.calls!r}, not {wanted!r}"
        if case.said is not None:
            return None if said == case.said else f"{said!r} was said"
        if wanted or (case.text and not case.error):
            expected = "Done." if wanted else case.text
            return None if said == expected else f"{said!r} was said"
        if said.startswith(case.text) and said != case.text:
            return None
        return f"{said!r} was said, without a word that there is no more"
