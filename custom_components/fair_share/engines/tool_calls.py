"""Tool calls out of fragments.

``CallIndexer`` gives every call of an answer an index of its own, whatever the server
numbers it; ``ToolCallAssembler`` joins the fragments to complete calls.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
import json
from typing import Any, NoReturn

from .base import ToolCallDelta
from .surrogates import well_formed


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A complete call.

    ``arguments`` is ``None`` when the model wrote something that is not a JSON object;
    ``error`` then says so in words that can be given back to the model, and
    ``raw_arguments`` is what it wrote.
    """

    call_id: str
    name: str
    arguments: Mapping[str, Any] | None
    raw_arguments: str = ""
    error: str | None = None


@dataclass(slots=True)
class _OpenCall:
    server_index: object
    call_id: str | None
    name: str | None
    arguments: str = ""

    def is_named_further(self, call_id: str | None, name: str) -> bool:
        """Whether this name is the call's, or, where calls have ids, a piece of it."""
        if self.name is None:
            return True
        has_piece = self.call_id is not None and call_id is None
        return has_piece and not self.arguments and name != self.name

    def complete(self) -> bool:
        return _parse(self.arguments) is not None


class CallIndexer:
    """Tells which call a fragment of the stream belongs to.

    Two calls are one only if the server says so by their ids, or, where it gives no
    ids, by their index; never because name and arguments are the same.
    """

    def __init__(self) -> None:
        self._calls: list[_OpenCall] = []

    @property
    def any(self) -> bool:
        """Whether there was a call."""
        return bool(self._calls)

    def fragment(self, raw: Mapping[str, Any], tokens: int) -> Iterator[ToolCallDelta]:
        """Give the delta of one entry of ``delta.tool_calls``.

        Gives none if the entry repeats a call that is complete already.
        """
        function = raw.get("function")
        function = function if isinstance(function, Mapping) else {}
        call_id = _text(raw.get("id"))
        name = _text(function.get("name"))
        arguments = _arguments_text(function.get("arguments"))
        index = self._find(raw.get("index"), call_id, name)
        if index is None:
            index = len(self._calls)
            self._calls.append(_OpenCall(raw.get("index"), call_id, name, arguments))
            yield ToolCallDelta(index, call_id, name, arguments, tokens)
            return
        call = self._calls[index]
        if name and arguments and arguments == call.arguments and call.complete():
            return
        if name and call.is_named_further(call_id, name):
            call.name = f"{call.name or ''}{name}"
        else:
            # Several servers repeat the name in every fragment.
            name = None
        call.arguments += arguments
        yield ToolCallDelta(index, None, name, arguments, tokens)

    def _find(
        self, server_index: object, call_id: str | None, name: str | None
    ) -> int | None:
        """Return our index of the call that is continued, ``None`` for a new one."""
        numbered = [
            number
            for number, call in enumerate(self._calls)
            if server_index is None or call.server_index == server_index
        ]
        if call_id is not None:
            for number in reversed(numbered):
                if self._calls[number].call_id == call_id:
                    return number
            if name is not None:
                return None
        if not numbered:
            return None
        last = self._calls[numbered[-1]]
        if name is None or last.is_named_further(call_id, name):
            return numbered[-1]
        # A server without ids begins its next call, or repeats the name.
        return None if name != last.name or last.complete() else numbered[-1]


@dataclass(slots=True)
class _Parts:
    call_id: str | None = None
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class ToolCallAssembler:
    """Joins ``ToolCallDelta`` fragments to complete calls."""

    def __init__(self) -> None:
        self._parts: dict[int, _Parts] = {}

    def add(self, delta: ToolCallDelta) -> None:
        """Take one fragment."""
        parts = self._parts.setdefault(delta.index, _Parts())
        parts.call_id = parts.call_id or delta.call_id
        parts.name += delta.name or ""
        parts.arguments.append(delta.arguments)

    def calls(self) -> list[ToolCall]:
        """Return the calls in the order in which the model began them.

        Every one has an id of its own: a call that comes again under its id is the
        same call, another call under that id gets a new one.
        """
        calls: dict[str, ToolCall] = {}
        for index, parts in self._parts.items():
            call = _complete(index, parts)
            first = calls.get(call.call_id, call)
            if (first.name, first.arguments) != (call.name, call.arguments):
                call = replace(call, call_id=f"{call.call_id}_{index}")
            calls[call.call_id] = call
        return list(calls.values())


def assemble(deltas: Iterable[ToolCallDelta]) -> list[ToolCall]:
    """Return the complete calls of these fragments."""
    assembler = ToolCallAssembler()
    for delta in deltas:
        assembler.add(delta)
    return assembler.calls()


def _complete(index: int, parts: _Parts) -> ToolCall:
    call_id = parts.call_id or f"call_{index}"
    name = parts.name.strip()
    text = "".join(parts.arguments)
    arguments = _parse(text.strip() or "{}")
    if not name:
        return ToolCall(call_id, name, arguments, text, "The tool call has no name.")
    if arguments is None:
        return ToolCall(
            call_id, name, None, text, "The arguments are not a valid JSON object."
        )
    return ToolCall(call_id, name, arguments, text)


def _parse(text: str) -> Mapping[str, Any] | None:
    """Return the JSON object in the text, ``None`` if there is none."""
    try:
        value = json.loads(text, parse_constant=_refuse)
        if isinstance(value, str) and value:
            # Written down twice.
            value = json.loads(value, parse_constant=_refuse)
    except ValueError, RecursionError:
        return None
    if value is None or value in ("", []):
        return {}
    return value if isinstance(value, dict) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _text(value: object) -> str | None:
    return well_formed(value) if isinstance(value, str) and value else None


def _arguments_text(value: object) -> str:
    """Return arguments as JSON text; some servers send an object instead of text."""
    if isinstance(value, str):
        return well_formed(value)
    return "" if value is None else well_formed(json.dumps(value, ensure_ascii=False))
