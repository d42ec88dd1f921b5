"""A server that answers like llama.cpp's at a pace of its own, in its own process.

It costs next to nothing, so that what stands between it and a client can be measured.
The name of the model sets the pace: ``paced-50`` gives the first token at once and 50 a
second from then on, ``fast`` as many as the connection takes. Every answer is just
``max_tokens`` long. Chunks have the shape and size of llama.cpp's, with the timings and
the progress that it sends to whoever asks for them.

    python -m benchmarks.overhead.fake_engine      prints its address
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
import json
from pathlib import Path
import sys
from typing import Any

SLOTS = 512
CONTEXT = 8192
FAST = "fast"
PACED = "paced-50"
_TOKENS_PER_S = {FAST: None, PACED: 50.0}
_ROOT = Path(__file__).resolve().parents[2]
_CHUNK = {
    "created": 1796099761,
    "id": "chatcmpl-B5HuhwkFIx1a06DR6cV1aSzPilsuYLTU",
    "object": "chat.completion.chunk",
    "system_fingerprint": "b0-unknown",
}
_TIMINGS = {
    "cache_n": 0,
    "prompt_n": 31,
    "prompt_ms": 1107.805,
    "prompt_per_token_ms": 35.73564516129032,
    "prompt_per_second": 27.98326420263494,
    "predicted_ms": 107.009,
    "predicted_per_token_ms": 53.5045,
    "predicted_per_second": 18.69001672756497,
}
_WORDS = (" a", " model", " that", " only", " repeats", " itself", " is", " stopped")
"""LiteLLM ends an answer whose pieces are all the same."""

_DONE = b"data: [DONE]\n\n"
_LAST = b"0\r\n\r\n"
_BYTES_PER_TOKEN = 5


@dataclass(frozen=True, slots=True)
class FakeEngine:
    """Where it listens, and its process."""

    url: str
    pid: int


@asynccontextmanager
async def fake_engine() -> AsyncIterator[FakeEngine]:
    """Run it in a process of its own, killed on leaving."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.overhead.fake_engine",
        cwd=_ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for whoever started this
    )
    try:
        line = await process.stdout.readline() if process.stdout else b""
        yield FakeEngine(line.decode().strip(), process.pid)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def serve() -> None:
    """Serve until standard input ends."""
    server = await asyncio.start_server(_connection, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(f"http://127.0.0.1:{port}", flush=True)
    async with server:
        # It ends when the parent is gone.
        await asyncio.to_thread(sys.stdin.read)


async def _connection(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        while await _request(reader, writer):
            pass
    writer.close()


async def _request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Answer one request; return whether the connection stays open."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    path = first.split(" ")[1].partition("?")[0]
    headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    asked: dict[str, Any] = json.loads(body) if body else {}
    stays = headers.get("connection") != "close"
    begins = b"Server: llama.cpp\r\n" + (b"" if stays else b"Connection: close\r\n")
    if path == "/v1/chat/completions":
        await _answer(writer, asked, begins)
    else:
        _reply(writer, _WHOLE.get(path, lambda _: None)(asked), begins)
    await writer.drain()
    return stays


def _reply(writer: asyncio.StreamWriter, value: object, begins: bytes) -> None:
    status = "404 Not Found" if value is None else "200 OK"
    kind = "text/plain" if isinstance(value, str) else "application/json"
    data = (value if isinstance(value, str) else json.dumps(value)).encode()
    head = f"Content-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
    writer.write(f"HTTP/1.1 {status}\r\n{head}".encode() + begins + b"\r\n" + data)


async def _answer(
    writer: asyncio.StreamWriter, asked: Mapping[str, Any], begins: bytes
) -> None:
    model, tokens = str(asked.get("model")), int(asked.get("max_tokens") or 16)
    pace = _TOKENS_PER_S.get(model)
    timed = bool(asked.get("timings_per_token"))
    prompt = _prompt_tokens(asked)
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        b"Transfer-Encoding: chunked\r\n" + begins + b"\r\n"
    )
    role = _event(model, {"role": "assistant", "content": None})
    if asked.get("return_progress"):
        progress = {"total": prompt, "cache": 0, "processed": prompt, "time_ms": 1}
        writer.write(_event(model, {"content": None}, prompt_progress=progress))
    writer.write(role)
    # Written once they cost nothing.
    texts = [_data(model, {"content": word}) for word in _WORDS]
    started = asyncio.get_running_loop().time()
    for number in range(1, tokens + 1):
        text = texts[number % len(texts)]
        if timed:
            timings = json.dumps({**_TIMINGS, "predicted_n": number}).encode()
            text = text[:-3] + b',"timings":' + timings + b"}\n\n"
        writer.write(_framed(text))
        await writer.drain()
        if pace is None:
            continue
        due = started + number / pace
        await asyncio.sleep(max(due - asyncio.get_running_loop().time(), 0))
    writer.write(_event(model, {}, finish="length"))
    usage = {
        "completion_tokens": tokens,
        "prompt_tokens": prompt,
        "total_tokens": prompt + tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    writer.write(
        _framed(_line({**_CHUNK, "model": model, "choices": [], "usage": usage}))
    )
    writer.write(_framed(_DONE) + _LAST)


def _event(
    model: str, delta: Mapping[str, Any], *, finish: str | None = None, **more: object
) -> bytes:
    return _framed(_data(model, delta, finish=finish, **more))


def _data(
    model: str, delta: Mapping[str, Any], *, finish: str | None = None, **more: object
) -> bytes:
    choice = {"finish_reason": finish, "index": 0, "delta": delta}
    return _line({"choices": [choice], **_CHUNK, "model": model, **more})


def _line(value: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _prompt_tokens(asked: Mapping[str, Any]) -> int:
    return len(json.dumps(asked.get("messages"))) // _BYTES_PER_TOKEN


_MODELS = [
    {"id": name, "object": "model", "owned_by": "llamacpp"} for name in (FAST, PACED)
]
_WHOLE: Mapping[str, Any] = {
    "/health": lambda _: {"status": "ok"},
    "/v1/models": lambda _: {"object": "list", "data": _MODELS},
    "/props": lambda _: {
        "total_slots": SLOTS,
        "default_generation_settings": {"n_ctx": CONTEXT},
        "modalities": {"vision": False},
        "build_info": "b1-fake",
    },
    "/metrics": lambda _: (
        "llamacpp:requests_processing 0\nllamacpp:requests_deferred 0\n"
    ),
    "/slots": lambda _: [{"id": n, "is_processing": False} for n in range(SLOTS)],
    "/apply-template": lambda asked: {"prompt": json.dumps(asked.get("messages"))},
    "/v1/chat/completions/input_tokens": lambda asked: {
        "input_tokens": _prompt_tokens(asked)
    },
}


if __name__ == "__main__":
    asyncio.run(serve())
