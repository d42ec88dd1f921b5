"""A server that answers with the bytes it is given, in the pieces it is given."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
import json
import socket
import struct
from typing import Any

from demo.ports import HOST

MARK = "What comes of this?"
"""A question with this is answered with what was given, others with one word."""

MODEL = "corpus"
_ANSWER: Sequence[Mapping[str, Any]] = (
    {"choices": [{"index": 0, "delta": {"content": "Done."}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}},
)
_PLAIN, _NOTHING = (
    b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    for chunks in (_ANSWER, _ANSWER[1:])
)
_DONE = b"data: [DONE]\n\n"


class Upstream:
    """Answers as an OpenAI-compatible server that nobody knows."""

    def __init__(self) -> None:
        """Listen nowhere yet."""
        self.url = ""
        self.pieces: Sequence[bytes] = ()
        self.end = "close"
        self.then = "done"

    @asynccontextmanager
    async def run(self) -> AsyncIterator[Upstream]:
        """Listen for as long as the block lasts."""
        server = await asyncio.start_server(self._connection, HOST, 0)
        self.url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self
            server.close_clients()

    async def _connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.split("\r\n")
            headers = dict(
                line.lower().split(": ", 1) for line in lines if ": " in line
            )
            length = int(headers.get("content-length", "0"))
            body = await reader.readexactly(length)
            await self._answer(first.split(" ")[1], body, writer)
        with suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()

    async def _answer(
        self, path: str, body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        if path == "/v1/models":
            models = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
            _reply(writer, 200, models)
        elif path != "/v1/chat/completions":
            _reply(writer, 404, {"error": {"message": "nothing here", "code": 404}})
        elif b"image_url" in body or b"input_audio" in body:
            _reply(writer, 400, {"error": {"message": "only texts", "code": 400}})
        else:
            await self._chat(json.loads(body)["messages"], writer)
        await writer.drain()

    async def _chat(
        self, messages: Sequence[Mapping[str, Any]], writer: asyncio.StreamWriter
    ) -> None:
        if any(message["content"] is None for message in messages):
            # As chat templates do that put texts together.
            _reply(writer, 400, {"error": {"message": "jinja exception", "code": 400}})
            return
        _begin(writer)
        last = messages[-1]
        marked = last["role"] == "user" and MARK in str(last["content"])
        if marked or (last["role"] == "tool" and self.then == "again"):
            await self._replay(writer)
            return
        empty = last["role"] == "tool" and self.then == "nothing"
        _write(writer, (_NOTHING if empty else _PLAIN) + _DONE)
        _write(writer, b"")

    async def _replay(self, writer: asyncio.StreamWriter) -> None:
        for piece in self.pieces:
            _write(writer, piece)
            await writer.drain()
            # So that each arrives by itself.
            await asyncio.sleep(0)
        if self.end == "close":
            _write(writer, b"")
        elif self.end == "reset":
            await asyncio.sleep(0.02)
            linger = struct.pack("ii", 1, 0)
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()


def _reply(writer: asyncio.StreamWriter, status: int, value: object) -> None:
    data = json.dumps(value).encode()
    writer.write(
        f"HTTP/1.1 {status} x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode()
        + data
    )


def _begin(writer: asyncio.StreamWriter) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Write a chunk; an empty one is the end."""
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))
