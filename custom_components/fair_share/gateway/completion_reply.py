"""Deltas of an answer in the shape of OpenAI's completions of a text."""

from collections.abc import Iterator, Mapping
from typing import Any, override

from ..engines.base import Content, Delta, FinishReason
from .chat_reply import ChatAnswer, ChatChunks

_OBJECT = "text_completion"


class TextChunks(ChatChunks):
    """Makes the chunks of one streamed answer."""

    object_name = _OBJECT

    @override
    def of(self, delta: Delta) -> Iterator[Mapping[str, Any]]:
        match delta:
            case Content() if delta.text:
                yield self.envelope([_choice(delta.text, None)])
            case Content():
                return
            case _:
                yield from super().of(delta)

    @override
    def chunk(
        self, delta: Mapping[str, Any], reason: FinishReason | None = None
    ) -> Mapping[str, Any]:
        return self.envelope([_choice("", reason)])


class TextAnswer(ChatAnswer):
    """Puts a whole answer together."""

    object_name = _OBJECT

    @override
    def choice(self) -> Mapping[str, Any]:
        return _choice(self.text, self.reason)


def _choice(text: str, reason: FinishReason | None) -> Mapping[str, Any]:
    return {
        "index": 0,
        "text": text,
        "logprobs": None,
        "finish_reason": None if reason is None else reason.value,
    }
