"""A server that answers marked requests well and all others badly."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
import json
from random import Random
import re

from demo.ports import HOST

from . import hostile

_MARK = re.compile(rb"mark-\d+-")
_LAST = b"".join(
    (
        b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n',
        b"data: [DONE]\n\n",
    )
)
_STATUSES = (200, 400, 422, 429, 500, 503)
_MODELS = {"object": "list", "data": [{"id": "fuzz", "object": "model"}]}


def mark_of(number: int) -> str:
    """Return the text of a good request, which is in its answer and in no other."""
    return f"mark-{number}-"


class HostileServer:
    """Speaks HTTP, and hardly anything else as it should."""

    def __init__(self, seed: int) -> None:
        """Be kind until the household has come to know it."""
        self._rng = Random(seed)
        self.is_kind = True
        self.url = ""

    @asynccontextmanager
    async def run(self) -> AsyncIterator[HostileServer]:
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
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head.lower())
            body = await reader.readexactly(int(length[1])) if length else b""
            self._answer(head.split(b" ")[1], body, writer)
            await writer.drain()
        with suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()

    def _answer(self, path: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        mark, rng = _MARK.search(body), self._rng
        if path == b"/v1/models":
            _whole(writer, 200, json.dumps(_MODELS).encode())
        elif path == b"/v1/embeddings" or path != b"/v1/chat/completions":
            _whole(writer, rng.choice((200, 404, 500)), hostile.body(rng))
        elif mark or self.is_kind:
            said = {"choices": [{"delta": {"content": (mark or [b"ok"])[0].decode()}}]}
            _begin(writer)
            writer.write(b"data: " + json.dumps(said).encode() + b"\n\n" + _LAST)
        elif rng.random() < 0.2:  # noqa: PLR2004 - now and then no stream at all
            _whole(writer, rng.choice(_STATUSES), hostile.body(rng))
        else:
            _begin(writer)
            for data in hostile.answer(rng):
                writer.write(data)
            if rng.random() < 0.1:  # noqa: PLR2004 - now and then it just breaks off
                writer.transport.abort()


def _whole(writer: asyncio.StreamWriter, status: int, data: bytes) -> None:
    head = f"HTTP/1.1 {status} x\r\nContent-Type: application/json\r\n"
    length = f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    writer.write((head + length).encode() + data)


def _begin(writer: asyncio.StreamWriter) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        b"Connection: close\r\n\r\n"
    )
