"""What the fake server answers: replies made of pieces, raw bytes or errors.

See ``tests/fake_server.py`` for how they are used.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
import json
from typing import Any


class Fault(Enum):
    """How a connection can end badly."""

    RESET = "the connection is reset (TCP RST)"
    DROP = "the connection is closed in the middle of the body"


RESET = Fault.RESET
DROP = Fault.DROP


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of reasoning, sent in ``delta[field]``."""

    text: str
    field: str = "reasoning_content"


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call, sent as a head and two fragments of its arguments."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    call_id: str = "call_1"


type Piece = str | Thought | Call | asyncio.Event | Fault
type Step = bytes | asyncio.Event | Fault


@dataclass(frozen=True, slots=True)
class Answer:
    """A well-formed answer; every piece but events and faults is one token."""

    pieces: tuple[Piece, ...]
    finish: str | None = None
    usage: bool = True
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes of the response's body exactly as given, one write each."""

    steps: tuple[Step, ...]
    content_type: str = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error status with a JSON or any other body."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


type Reply = Answer | Raw | Failure
type Answering = Callable[[Mapping[str, Any]], Reply]


def answer(
    *pieces: Piece, finish: str | None = None, usage: bool = True, cached: int = 0
) -> Answer:
    """Answer with these pieces.

    An ``asyncio.Event`` among them holds the answer there until it is set; ``RESET``
    and ``DROP`` break the connection there. ``finish`` defaults to ``tool_calls`` if
    there is a call, else ``stop``. ``cached`` prompt tokens are reported as such.
    """
    return Answer(pieces, finish, usage, cached)


def raw(*steps: Step | str) -> Raw:
    """Answer with exactly these bytes (text becomes UTF-8), one write for each."""
    return Raw(tuple(s.encode() if isinstance(s, str) else s for s in steps))


def failure(
    status: int,
    message: str,
    type_: str = "server_error",
    headers: Mapping[str, str] | None = None,
    **extra: object,
) -> Failure:
    """Answer with a status and an error body of OpenAI's shape."""
    error = {"code": status, "message": message, "type": type_, **extra}
    return Failure(status, json.dumps({"error": error}), headers or {})


def event(payload: Mapping[str, Any] | str) -> str:
    """Return one server-sent event with this payload."""
    if not isinstance(payload, str):
        payload = json.dumps(payload, ensure_ascii=False)
    return f"data: {payload}\n\n"


def chunk(
    delta: Mapping[str, Any] | None = None, finish: str | None = None, **extra: object
) -> str:
    """Return the event of one chat completion chunk with this delta."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return event({**_HEAD, "choices": [choice], **extra})


def usage_chunk(prompt: int, output: int, cached: int = 0, **extra: object) -> str:
    """Return the event that carries the usage and no choice."""
    return event(
        {**_HEAD, "choices": [], "usage": usage(prompt, output, cached), **extra}
    )


def usage(prompt: int, output: int, cached: int = 0) -> dict[str, Any]:
    """Return a usage object."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def deltas_of(piece: str | Thought | Call, index: int) -> list[dict[str, Any]]:
    """Return the deltas of one piece; ``index`` numbers the tool calls."""
    if isinstance(piece, str):
        return [{"content": piece}]
    if isinstance(piece, Thought):
        return [{piece.field: piece.text}]
    text = json.dumps(piece.arguments, ensure_ascii=False)
    middle = len(text) // 2
    head = {"name": piece.name, "arguments": ""}
    return [
        _fragment(index, head, {"id": piece.call_id, "type": "function"}),
        _fragment(index, {"arguments": text[:middle]}),
        _fragment(index, {"arguments": text[middle:]}),
    ]


def _fragment(
    index: int, function: Mapping[str, Any], head: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, **(head or {}), "function": function}]}


DONE = "data: [DONE]\n\n"

_HEAD = {
    "id": "chatcmpl-fake",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "fake-model",
}
