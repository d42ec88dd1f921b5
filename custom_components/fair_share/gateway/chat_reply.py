"""Deltas of an answer in the shape of OpenAI's chat completions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..engines.base import (
    Content,
    Delta,
    Finish,
    FinishReason,
    Thinking,
    ToolCallDelta,
    Usage,
    WasThinking,
)

_NO_ARGUMENTS = "{}"
"""What stands for the arguments of a call that has none: clients parse them."""


@dataclass
class ChatChunks:
    """Makes the chunks of one streamed answer."""

    object_name: ClassVar = "chat.completion.chunk"

    answer_id: str
    created: int
    model: str
    include_usage: bool
    _begun: bool = False
    _usage: Usage | None = None
    _arguments: dict[int, bool] = field(default_factory=dict)

    def of(self, delta: Delta) -> Iterator[Mapping[str, Any]]:
        """Return what a delta adds to the stream."""
        match delta:
            case Content() if delta.text:
                yield self.chunk({"content": delta.text})
            case Thinking() if delta.text:
                yield self.chunk({"reasoning_content": delta.text})
            case ToolCallDelta():
                yield self.chunk({"tool_calls": [self._call(delta)]})
            case Usage():
                self._usage = delta
            case Finish():
                yield from self._end(delta.reason)

    def _end(self, reason: FinishReason) -> Iterator[Mapping[str, Any]]:
        for index, has_some in self._arguments.items():
            if not has_some:
                call = {"index": index, "function": {"arguments": _NO_ARGUMENTS}}
                yield self.chunk({"tool_calls": [call]})
        yield self.chunk({}, reason)
        if self.include_usage and self._usage is not None:
            yield self.envelope([]) | {"usage": usage_of(self._usage)}

    def chunk(
        self, delta: Mapping[str, Any], reason: FinishReason | None = None
    ) -> Mapping[str, Any]:
        """Return a chunk with one choice."""
        role = {} if self._begun else {"role": "assistant"}
        self._begun = True
        choice = {
            "index": 0,
            "delta": {**role, **delta},
            "logprobs": None,
            "finish_reason": None if reason is None else reason.value,
        }
        return self.envelope([choice])

    def envelope(self, choices: list[Mapping[str, Any]]) -> dict[str, Any]:
        """Return a chunk with these choices."""
        return {
            "id": self.answer_id,
            "object": self.object_name,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }

    def _call(self, delta: ToolCallDelta) -> Mapping[str, Any]:
        first = delta.index not in self._arguments
        known = self._arguments.get(delta.index, False)
        self._arguments[delta.index] = known or bool(delta.arguments)
        function: dict[str, str] = {"arguments": delta.arguments}
        if delta.name is not None:
            function["name"] = delta.name
        call: dict[str, Any] = {"index": delta.index, "function": function}
        if first:
            call["type"] = "function"
        if delta.call_id is not None:
            call["id"] = delta.call_id
        return call


@dataclass
class ChatAnswer:
    """Puts a whole answer together."""

    object_name: ClassVar = "chat.completion"

    answer_id: str
    created: int
    model: str
    text: str = ""
    _thought: str = ""
    _calls: dict[int, dict[str, str]] = field(default_factory=dict)
    _usage: Usage | None = None
    reason: FinishReason = FinishReason.STOP

    def add(self, delta: Delta) -> None:
        """Take one more delta."""
        match delta:
            case Content():
                self.text += delta.text
            case Thinking():
                self._thought += delta.text
            case WasThinking():
                self._thought += self.text
                self.text = ""
            case ToolCallDelta():
                call = self._calls.setdefault(
                    delta.index, {"id": "", "name": "", "arguments": ""}
                )
                call["id"] = delta.call_id or call["id"]
                call["name"] += delta.name or ""
                call["arguments"] += delta.arguments
            case Usage():
                self._usage = delta
            case Finish():
                self.reason = delta.reason

    def whole(self) -> dict[str, Any]:
        """Return the completion."""
        return {
            "id": self.answer_id,
            "object": self.object_name,
            "created": self.created,
            "model": self.model,
            "choices": [self.choice()],
            "usage": None if self._usage is None else usage_of(self._usage),
        }

    def choice(self) -> Mapping[str, Any]:
        """Return the one answer."""
        return {
            "index": 0,
            "message": self._message(),
            "logprobs": None,
            "finish_reason": self.reason.value,
        }

    def _message(self) -> Mapping[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": self.text if self.text or not self._calls else None,
        }
        if self._thought:
            message["reasoning_content"] = self._thought
        if self._calls:
            message["tool_calls"] = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {
                        "name": call["name"],
                        "arguments": call["arguments"] or _NO_ARGUMENTS,
                    },
                }
                for call in self._calls.values()
            ]
        return message


def usage_of(usage: Usage) -> dict[str, Any]:
    """Return OpenAI's count of tokens."""
    prompt = usage.prompt_tokens or 0
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
