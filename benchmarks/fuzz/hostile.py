"""Requests that no client means well with, and answers that no server should give."""

from collections.abc import Iterator
import json
from random import Random
from typing import Any

_FIELDS = (
    "messages",
    "model",
    "max_tokens",
    "max_completion_tokens",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "stop",
    "n",
    "temperature",
    "response_format",
    "service_tier",
    "priority",
    "logprobs",
    "user",
    "id_slot",
    "prompt",
    "input",
)
_ROLES = ("user", "system", "assistant", "tool", "developer", "king", "", None, 7)
_PATHS = (
    "chat/completions",
    "completions",
    "embeddings",
    "models",
    "models/../../x",
    "models/%00",
    "health",
    "props",
    "nothing",
)
_DEEP = 400
_DEPTH = 3
_NUMBERS = (0, 1, -1, 2, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, 1e-308)
_WORDS = ("auto", "flex", "required", "none", "json_object")
_VALUES: tuple[Any, ...] = (None, True, False, [], {}, *_NUMBERS, *_WORDS)


def value(rng: Random, depth: int = 0) -> Any:  # noqa: ANN401 - JSON of any kind
    """Return a JSON value of any kind."""
    if depth < _DEPTH and rng.random() < 0.3:  # noqa: PLR2004 - some hold others
        inner = [value(rng, depth + 1) for _ in range(rng.randrange(4))]
        whole = {text(rng): each for each in inner}
        return rng.choice((inner, whole, message(rng)))
    return rng.choice((*_VALUES, text(rng), rng.randrange(99)))


def text(rng: Random) -> str:
    """Return a text of any letters."""
    letters = "aZ0 \n\t\0\"\\/{}[]<>&%'õ한🙂\u200b\u202e\ufeff\U0010ffff"
    return "".join(rng.choice(letters) for _ in range(rng.randrange(12)))


def message(rng: Random) -> dict[str, Any]:
    """Return something like a message."""
    parts: tuple[Any, ...] = (
        text(rng),
        None,
        [{"type": "text", "text": text(rng)}],
        [{"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/x"}}],
        [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}],
        [{"type": "input_audio"}],
        value(rng, 1),
    )
    told = {"role": rng.choice(_ROLES), "content": rng.choice(parts)}
    if rng.random() < 0.2:  # noqa: PLR2004 - now and then
        told["tool_calls"] = value(rng, 1)
    return told


def path(rng: Random) -> str:
    """Return a path, most often one that there is."""
    return rng.choice(_PATHS[:3]) if rng.random() < 0.8 else rng.choice(_PATHS)  # noqa: PLR2004


def body(rng: Random) -> bytes:
    """Return what is sent as the body of a request."""
    match rng.randrange(12):
        case 0:
            return bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
        case 1:
            return b"[" * _DEEP + b"]" * _DEEP
        case 2:
            return b'{"messages": [{"role": "user", "content": "\\ud800"}]}'
        case 3:
            return b'{"messages": [{"role": "user", "content": "x"}], "n": NaN}'
        case 4:
            return json.dumps(value(rng)).encode()
    told = {name: value(rng) for name in rng.sample(_FIELDS, rng.randrange(6))}
    if rng.random() < 0.8:  # noqa: PLR2004 - most often there is something to answer
        told["messages"] = [message(rng) for _ in range(rng.randrange(1, 4))]
    if rng.random() < 0.5:  # noqa: PLR2004 - a coin
        told["stream"] = True
    return json.dumps(told).encode()


def raw_request(rng: Random, key: str) -> bytes:
    """Return the bytes of a request that breaks HTTP in some way."""
    head = f"POST /api/fair_share/v1/{path(rng)} HTTP/1.1\r\nHost: x\r\n"
    asked = b'{"messages": [{"role": "user", "content": "x"}]}'
    known = f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    length = f"Content-Length: {len(asked)}\r\n"
    return rng.choice(
        (
            f"{head}{known}Content-Length: 99999\r\n\r\n".encode() + asked,
            f"{head}{known}Content-Length: -5\r\n\r\n".encode() + asked,
            f"{head}{known}{length}{length}\r\n".encode() + asked + asked,
            f"{head}{known}Transfer-Encoding: chunked\r\n\r\nzz\r\n".encode() + asked,
            f"{head}{known}{length}X-Long: {'x' * 9000}\r\n\r\n".encode() + asked,
            (head + known + length).encode() + b"X-Odd: \xff\xfe\r\n\r\n" + asked,
            (f"{head}{known}{length}\r\n".encode() + asked) * 3,
            b"\0" * rng.randrange(1, 99),
            f"{head}{known}{length}\r\n".encode() + asked[: rng.randrange(20)],
        )
    )


def answer(rng: Random) -> Iterator[bytes]:
    """Yield what a server sends as its answer."""
    for _ in range(rng.randrange(1, 6)):
        match rng.randrange(9):
            case 0:
                yield bytes(rng.randrange(256) for _ in range(rng.randrange(1, 99)))
            case 1:
                yield b"data: " + json.dumps(value(rng)).encode() + b"\n\n"
            case 2:
                yield b'data: {"choices": [{"delta": {"content": "Once"}}]}\n\n'
            case 3:
                yield b'data: {"choices": [{"delta": {"content": '
            case 4:
                yield b"data: " + b"x" * 70_000 + b"\n\n"
            case 5:
                yield b'data: {"error": {"message": "boom", "code": 500}}\n\n'
            case 6:
                delta = {"tool_calls": value(rng, 1), "content": value(rng, 2)}
                choice = {"choices": [{"delta": delta, "finish_reason": value(rng, 2)}]}
                yield b"data: " + json.dumps(choice).encode() + b"\n\n"
            case 7:
                told = {"choices": [], "usage": value(rng, 1), "timings": value(rng, 1)}
                yield b"data: " + json.dumps(told).encode() + b"\n\n"
            case _:
                yield b"data: [DONE]\n\n"
