"""Which of the calls the model wants are made, and what it is told of the rest."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
import json
import re
from typing import Any

from homeassistant.helpers import llm
from homeassistant.util.json import JsonObjectType
from homeassistant.util.ulid import ulid_now

from ..engines.tool_calls import ToolCall
from .errors import AgentError
from .printed_calls import PrintedCalls
from .tools import Toolbox

MAX_CORRECTIONS = 2
"""How often in a turn the model is told that its calls can't be made."""
MAX_EQUAL_CALLS = 3
"""With this many answers in a turn that want the very same, it is stopped."""

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """A call that is not made, and the result that tells the model why."""

    call: llm.ToolInput
    result: llm.ToolResult


@dataclass(frozen=True, slots=True)
class Judged:
    """The calls of one answer."""

    made: tuple[llm.ToolInput, ...]
    refused: tuple[RefusedCall, ...]

    @property
    def any(self) -> bool:
        """Whether the model wanted to call something."""
        return bool(self.made or self.refused)


class CallJudge:
    """Judges the calls of one turn, answer by answer."""

    def __init__(self, toolbox: Toolbox) -> None:
        """Know the tools that are offered."""
        self._toolbox = toolbox
        self._corrections = 0
        self._equal: Counter[str] = Counter()

    def judge(self, calls: Iterable[ToolCall], printed: PrintedCalls) -> Judged:
        """Return what to do with the calls of an answer, and those in its text.

        Raises ``AgentError`` if the model does not get further: if it repeats itself,
        or if it was corrected often enough.
        """
        judged = [self._judge_call(call) for call in calls]
        judged += self._judge_printed(printed)
        made = tuple(call for call in judged if isinstance(call, llm.ToolInput))
        refused = tuple(call for call in judged if isinstance(call, RefusedCall))
        self._stop_corrections(refused)
        self._stop_repetition(made, refused)
        return Judged(made, refused)

    def _judge_call(self, call: ToolCall) -> llm.ToolInput | RefusedCall:
        if call.error is not None or call.arguments is None:
            return _refused(call.name, call.call_id, call.error or "Not valid JSON.")
        if (name := self._toolbox.resolve(call.name)) is None:
            return _refused(call.name, call.call_id, _unknown(call.name))
        return llm.ToolInput(name, dict(call.arguments), call.call_id)

    def _judge_printed(
        self, printed: PrintedCalls
    ) -> Iterable[llm.ToolInput | RefusedCall]:
        for call in printed.calls:
            if call.name not in self._toolbox.names:
                yield _refused(call.name, ulid_now(), _unknown(call.name))
            elif call.arguments is None:
                yield _refused(call.name, ulid_now(), "The arguments are not valid.")
            else:
                yield llm.ToolInput(call.name, dict(call.arguments), ulid_now())
        if printed.unreadable and not printed.calls:
            yield _refused("", ulid_now(), "A tool call in the text can't be read.")

    def _stop_corrections(self, refused: tuple[RefusedCall, ...]) -> None:
        if not refused:
            return
        if self._corrections == MAX_CORRECTIONS:
            raise AgentError("calls_not_understood")
        self._corrections += 1

    def _stop_repetition(
        self, made: tuple[llm.ToolInput, ...], refused: tuple[RefusedCall, ...]
    ) -> None:
        wanted = {_key(call.tool_name, call.tool_args) for call in made}
        self._equal.update(wanted)
        repeated = all(self._equal[key] >= MAX_EQUAL_CALLS for key in wanted)
        if wanted and repeated and not refused:
            raise AgentError("repeated_itself")


def _key(name: str, arguments: Mapping[str, Any]) -> str:
    return json.dumps([name, arguments], sort_keys=True, default=str)


def _refused(name: str, call_id: str, reason: str) -> RefusedCall:
    # Servers refuse a history with a call whose name they would not allow.
    name = _NOT_IN_NAMES.sub("_", name)[:64] or "unknown"
    call = llm.ToolInput(name, {}, call_id, external=True)
    data: JsonObjectType = {"error": f"The call was not made. {reason}"}
    return RefusedCall(call, llm.ToolResult(data=data, error=True))


def _unknown(name: str) -> str:
    return f'There is no tool named "{name}". Use only the tools that are offered.'
