"""What one answer of the server becomes in Home Assistant's chat log."""

from collections.abc import Collection

from homeassistant.components.conversation import AssistantContentDeltaDict

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
from ..engines.tool_calls import ToolCall, ToolCallAssembler
from .printed_calls import PrintedCalls

_TAIL = 20
_ENDS = (".", "!", "?", "…", "\N{IDEOGRAPHIC FULL STOP}", "```")
"""What an answer ends with that was not broken off in the middle of a sentence."""


class AnswerReader:
    """Reads the deltas of one answer.

    ``feed`` returns at once what can be shown or spoken. Calls are complete, and may be
    made, only at the end: of an answer that breaks off nothing is done. ``gap`` is what
    to put between the text so far and a sentence that says why there is no more.
    """

    def __init__(self, names: Collection[str]) -> None:
        """Know the names of the tools, to find calls in the text."""
        self._names = names
        self.printed = PrintedCalls(names)
        self.usage: Usage | None = None
        self.has_text = False
        self._tail = ""
        self._finish: FinishReason | None = None
        self._assembler = ToolCallAssembler()

    @property
    def calls(self) -> list[ToolCall]:
        """The calls that the model made."""
        return self._assembler.calls()

    @property
    def was_cut(self) -> bool:
        """Whether the answer is as long as it may be, and so most likely not whole."""
        return self._finish is FinishReason.LENGTH

    @property
    def ran_out_of_room(self) -> bool:
        """Whether the answer may not be longer, and therefore is of no use."""
        if not self.was_cut:
            return False
        calls = self.calls
        is_broken = any(call.error for call in calls) or self.printed.unreadable
        return is_broken or not (self.has_text or calls or self.printed.found)

    @property
    def gap(self) -> str:
        """What ends the text so far, as finished or as broken off."""
        said = self._tail.rstrip()
        if not said:
            return ""
        if not said.endswith(_ENDS):
            return "… "
        return "" if self._tail != said else " "

    def feed(self, delta: Delta) -> AssistantContentDeltaDict | None:
        """Take one delta and return what of it goes into the chat log."""
        match delta:
            case Content():
                return self._text(self.printed.feed(delta.text))
            case Thinking() if delta.text:
                return {"thinking_content": delta.text}
            case WasThinking():
                self.printed = PrintedCalls(self._names)
                self.has_text, self._tail = False, ""
            case ToolCallDelta():
                self._assembler.add(delta)
            case Usage():
                self.usage = delta
            case Finish():
                self._finish = delta.reason
        return None

    def finish(self) -> AssistantContentDeltaDict | None:
        """Return the text that was still held back when the answer ended."""
        return self._text(self.printed.finish())

    def _text(self, text: str) -> AssistantContentDeltaDict | None:
        if not self.has_text:
            text = text.lstrip()
        if not text:
            return None
        self.has_text = True
        self._tail = f"{self._tail}{text}"[-_TAIL:]
        return {"content": text}
