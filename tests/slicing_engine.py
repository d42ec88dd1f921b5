"""A llama.cpp server that can be asked to read a prompt part by part.

It remembers what it read last, as a real one does in a slot, and tells of every further
prompt how much of it that was. The words of a prompt are its tokens.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
import json
from typing import Any

from aiohttp import web

from tests.continuing_engine import ContinuingServer
from tests.fake_replies import Answer, Failure, Fault, Reply, event
from tests.fake_server import FakeServer, Received

type Happening = asyncio.Event | Fault | Failure | bytes


class SlicingServer(ContinuingServer):
    """``slices`` are the parts that were asked for.

    ``happens`` are what comes up in them, one each: an event that holds one, a fault, a
    failure, or bytes that are sent instead. ``forgets`` is the number of prompts, parts
    or whole ones, that will find nothing in the cache.
    """

    def __init__(self, **options: Any) -> None:
        """Have nothing in the cache."""
        super().__init__(**options)
        self.happens: deque[Happening] = deque()
        self.forgets = 0
        self.held: list[int] = []
        self.told: list[int] = []
        self._words: dict[str, int] = {}

    @property
    def slices(self) -> list[Received]:
        """All parts of prompts that were asked for."""
        return [each for each in self.requests if each.path == "/completion"]

    @property
    def sizes(self) -> list[int]:
        """How long each beginning was."""
        return [len(each.body["prompt"]) for each in self.slices]

    async def wait_slices(self, count: int) -> Received:
        """Wait until that many parts were asked for; return the last of them."""
        async with asyncio.timeout(10), self._arrived:
            await self._arrived.wait_for(lambda: len(self.slices) >= count)
        return self.slices[count - 1]

    def count_prompt(self, body: Mapping[str, Any]) -> int:
        """Return the length of the prompt of a request body in tokens (words)."""
        return len(self._tokens(body))

    def _tokens(self, body: Mapping[str, Any]) -> list[int]:
        prompt = self._prompt(body) if "messages" in body else body["prompt"]
        return self._numbers(prompt) if isinstance(prompt, str) else list(prompt)

    def _numbers(self, prompt: str) -> list[int]:
        return [
            self._words.setdefault(word, len(self._words)) for word in prompt.split()
        ]

    def _reads(self, tokens: list[int]) -> int:
        """Read a prompt; return how much of it was still there."""
        held = [] if self.forgets else self.held
        self.forgets = max(0, self.forgets - 1)
        cached = min(_common(held, tokens), len(tokens) - 1)
        self.held = tokens
        self.told.append(cached)
        return cached

    def _next_reply(self, body: Mapping[str, Any]) -> Reply:
        reply = super()._next_reply(body)
        if isinstance(reply, Answer):
            return replace(reply, cached=self._reads(self._tokens(body)))
        return reply

    def _routes(self) -> list[web.RouteDef]:
        return [*super()._routes(), web.post("/completion", self._read)]

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        self._reads(self._tokens(await request.json()))
        return await super()._complete(request)

    async def _llama_tokenize(self, request: web.Request) -> web.Response:
        tokens = self._numbers((await request.json())["content"])
        return web.json_response({"tokens": tokens})

    async def _read(self, request: web.Request) -> web.StreamResponse:
        received = next(r for r in reversed(self.slices) if not r.started.is_set())
        happening = self.happens.popleft() if self.happens else b""
        if isinstance(happening, Failure):
            return web.Response(
                status=happening.status,
                text=happening.body,
                content_type=happening.content_type,
            )
        self.deferred += 1
        try:
            await self._slot.acquire()
        finally:
            self.deferred -= 1
        with self._holding(received):
            response = await self._open(request, "text/event-stream")
            if isinstance(happening, asyncio.Event | Fault):
                await self._pause(request, happening)
            elif happening:
                await response.write(happening)
                await response.write_eof()
                return response
            tokens = received.body["prompt"]
            await response.write(event({"content": "x", "stop": False}).encode())
            cached = self._reads(tokens)
            last = {"content": "", "stop": True, "timings": _timings(tokens, cached)}
            await response.write(event(last).encode())
            await response.write_eof()
            return response


def prompt_of(words: int) -> str:
    """Return a text of so many different words."""
    return " ".join(f"word{number}" for number in range(words))


def error_event(status: int, message: str) -> bytes:
    """Return the event with which a server tells of a failure inside a stream."""
    error = {"code": status, "message": message, "type": "server_error"}
    return f"data: {json.dumps({'error': error})}\n\n".encode()


def _timings(tokens: list[int], cached: int) -> dict[str, int]:
    return {"cache_n": cached, "prompt_n": len(tokens) - cached}


def _common(held: Iterable[int], tokens: Iterable[int]) -> int:
    count = 0
    for one, other in zip(held, tokens, strict=False):
        if one != other:
            break
        count += 1
    return count


__all__ = ["FakeServer", "SlicingServer", "error_event", "prompt_of"]
