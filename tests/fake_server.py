"""A fake LLM server on 127.0.0.1: real HTTP, scripted answers, no model.

It plays llama.cpp's server, vLLM or an unknown OpenAI-compatible server::

    async with FakeServer("llama_cpp", slots=2) as server:
        server.script(answer("Good", " morning"))           # for the next chat only
        server.default = answer("ok")                       # for all others
        ... talk to server.url ...

Replies (``answer``, ``raw``, ``failure``, importable from here):

* ``answer("Hel", gate, "lo")``: two pieces of text; ``gate`` is an ``asyncio.Event``
  at which the answer is held until the test sets it. No test has to sleep.
* ``answer(Thought("hm"), Call("HassTurnOn", {"name": "lamp"}))``: reasoning and a tool
  call; several ``Call`` need different ``call_id``.
* ``answer("Hel", RESET)`` / ``DROP``: the connection breaks there.
* ``raw(b"data: ...", b"...")``: exactly these bytes, one write each; events and faults
  work here too. ``event``, ``chunk``, ``usage_chunk`` and ``DONE`` help to write them.
* ``failure(503, "Loading model", "unavailable_error")``: an error status.
* ``server.default`` may also be a function of the request's body that returns a reply.

Tokens: one word of the prompt (roles included) or one piece of an answer is one token,
so sizes are exact: ``server.count_prompt(body)``. An answer is cut at ``max_tokens``
with finish ``length``. A chat that finds no free slot waits, as in the real ones. A
prompt that does not fit into ``context_tokens`` is refused as the real ones do. With
``kv_tokens`` all slots share a pool; when it is used up every stream dies with an error
inside the stream (llama.cpp).

What happened: ``server.chats`` (and ``server.requests`` for all paths) are ``Received``
objects with ``body``, ``headers``, and the events ``started`` (has a slot), ``ended``;
``closed_by_client`` tells that the client left before the end. ``running``,
``peak_running`` and ``deferred`` count chats. ``await server.wait_chats(2)`` waits for
the second one.

Switches, at any time: ``server.loading``, ``server.api_key``, ``server.refuse`` (names
of body fields answered with 400), ``server.hide`` (paths answered with 404),
``server.override`` (paths answered with a ``failure``), ``server.streaming``,
``server.vision``, ``server.audio``, ``server.tools``, ``server.models``,
``server.preemptions`` (what vLLM's metrics tell), ``server.prompt_end`` (what the chat
template puts at the end), ``server.silent`` (accepts and never answers).
``await server.stop()`` kills it (connections are reset, then refused);
``await server.start()`` brings it back on the same port.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
import contextlib
from contextlib import contextmanager
from dataclasses import dataclass, field
import json
import socket
import struct
from typing import Any, Self

from aiohttp import web

from tests.fake_replies import (
    DONE,
    DROP,
    RESET,
    Answer,
    Answering,
    Call,
    Failure,
    Fault,
    Piece,
    Raw,
    Reply,
    Thought,
    answer,
    chunk,
    deltas_of,
    event,
    failure,
    raw,
    usage,
    usage_chunk,
)

__all__ = [
    "DONE",
    "DROP",
    "RESET",
    "Call",
    "FakeServer",
    "Received",
    "Thought",
    "answer",
    "chunk",
    "event",
    "failure",
    "raw",
    "usage",
    "usage_chunk",
]

_PATIENCE_S = 10.0
_TURNS_TO_READ = 5
_EXHAUSTED = event(
    {
        "error": {
            "code": 500,
            "message": "Context size has been exceeded.",
            "type": "server_error",
        }
    }
)


class _PoolExhaustedError(Exception):
    """The KV pool is used up."""


@dataclass(eq=False, slots=True)
class Received:
    """One request that reached the server."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    raw: bytes = b""
    started: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    closed_by_client: bool = False
    broken: bool = False
    kv_tokens: int = 0
    doomed: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_started(self) -> None:
        """Wait until the chat has a slot."""
        async with asyncio.timeout(_PATIENCE_S):
            await self.started.wait()

    async def wait_ended(self) -> None:
        """Wait until the reply is over, by whatever path."""
        async with asyncio.timeout(_PATIENCE_S):
            await self.ended.wait()


_RECEIVED = web.RequestKey("received", Received)


class FakeServer:
    """See the top of this file."""

    def __init__(
        self,
        kind: str = "llama_cpp",
        *,
        slots: int = 2,
        context_tokens: int = 4096,
        kv_tokens: int | None = None,
        api_key: str | None = None,
        models: tuple[str, ...] = ("fake-model",),
    ) -> None:
        """Choose what to play; nothing listens yet."""
        self.kind = kind
        self.slots = slots
        self.context_tokens = context_tokens
        self.kv_tokens = kv_tokens
        self.api_key = api_key
        self.models = models
        self.loading = False
        self.models_while_loading = False
        self.silent = False
        self.streaming = True
        self.vision = False
        self.audio = False
        self.tools = True
        self.prompt_end = ""
        self.refuse: set[str] = set()
        self.hide: set[str] = set()
        self.override: dict[str, Failure] = {}
        self.default: Reply | Answering = answer("Hello", " from", " the", " fake")
        self.requests: list[Received] = []
        self.running = 0
        self.peak_running = 0
        self.deferred = 0
        self.preemptions = 0
        self.port = 0
        self._scripts: deque[Reply] = deque()
        self._active: set[Received] = set()
        self._slot = asyncio.Semaphore(slots)
        self._arrived = asyncio.Condition()
        self._transports: set[asyncio.Transport] = set()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Address without a path, as a user would type it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def chats(self) -> list[Received]:
        """All chat completions received so far."""
        return [r for r in self.requests if r.path == "/v1/chat/completions"]

    @property
    def tokens_held(self) -> int:
        """Tokens that all running chats hold together."""
        return sum(received.kv_tokens for received in self._active)

    def script(self, *replies: Reply) -> None:
        """Answer the next chats with these replies, one each, in this order."""
        self._scripts.extend(replies)

    async def wait_chats(self, count: int) -> Received:
        """Wait until that many chats have arrived and return the last of them."""
        async with asyncio.timeout(_PATIENCE_S), self._arrived:
            await self._arrived.wait_for(lambda: len(self.chats) >= count)
        return self.chats[count - 1]

    async def wait_requests(self, count: int) -> Received:
        """Wait for that many requests of any kind and return the last of them."""
        async with asyncio.timeout(_PATIENCE_S), self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    def count_prompt(self, body: Mapping[str, Any]) -> int:
        """Return the length of the prompt of a request body in tokens (words)."""
        return len(_render(body).split())

    async def start(self) -> None:
        """Listen; on the same port as before if it was started before."""
        app = web.Application(middlewares=[self._guard], client_max_size=2**26)
        app.add_routes(self._routes())
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.0
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Die: all connections are reset, further ones are refused."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        for site in list(runner.sites):
            await site.stop()
        for transport in list(self._transports):
            _reset(transport)
        await runner.cleanup()

    async def __aenter__(self) -> Self:
        """Start listening."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening and cut what is open."""
        await self.stop()

    # ---- what the server answers -------------------------------------------------

    def _routes(self) -> list[web.RouteDef]:
        common = [
            web.get("/v1/models", self._models),
            web.post("/v1/chat/completions", self._chat),
        ]
        llama = [
            web.get("/health", self._health),
            web.get("/props", self._props),
            web.get("/slots", self._slots),
            web.get("/metrics", self._llama_metrics),
            web.post("/apply-template", self._apply_template),
            web.post("/tokenize", self._llama_tokenize),
            web.post("/v1/chat/completions/input_tokens", self._input_tokens),
        ]
        vllm = [
            web.get("/health", self._health),
            web.get("/version", self._version),
            web.get("/metrics", self._vllm_metrics),
            web.post("/tokenize", self._vllm_tokenize),
        ]
        return common + {"llama_cpp": llama, "vllm": vllm}.get(self.kind, [])

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        received = await self._record(request)
        try:
            if self.silent:
                await asyncio.Event().wait()
            if refusal := self._refusal(request.path, received):
                return refusal
            response: web.StreamResponse = await handler(request)
        except asyncio.CancelledError:
            received.closed_by_client = not (received.broken or self._runner is None)
            raise
        else:
            return response
        finally:
            received.ended.set()

    async def _record(self, request: web.Request) -> Received:
        text = await request.text()
        try:
            body = json.loads(text) if text else {}
        except ValueError:
            body = {"not_json": text}
        received = Received(
            request.method, request.path, request.headers, body, await request.read()
        )
        request[_RECEIVED] = received
        if isinstance(request.transport, asyncio.Transport):
            self._transports.add(request.transport)
        async with self._arrived:
            self.requests.append(received)
            self._arrived.notify_all()
        return received

    def _refusal(self, path: str, received: Received) -> web.Response | None:
        """Return the answer for a wrong key or a model that is still loading."""
        if path in self.hide:
            return _error(404, "File Not Found", "not_found_error")
        if path in self.override:
            return _response(self.override[path])
        public = self.kind == "llama_cpp" and path in {"/health", "/v1/models"}
        keyed = self.kind != "vllm" or path.startswith("/v1")
        given = received.headers.get("Authorization")
        if self.api_key and keyed and not public and given != f"Bearer {self.api_key}":
            return _error(401, "Invalid API Key", "authentication_error")
        if self.loading and not (path == "/v1/models" and self.models_while_loading):
            return _error(503, "Loading model", "unavailable_error")
        return None

    async def _models(self, _: web.Request) -> web.Response:
        owner = {"llama_cpp": "llamacpp", "vllm": "vllm"}.get(self.kind, "someone")
        data = [self._model(name, owner) for name in self.models]
        return web.json_response({"object": "list", "data": data})

    def _model(self, name: str, owner: str) -> dict[str, Any]:
        model: dict[str, Any] = {"id": name, "object": "model", "owned_by": owner}
        extra: dict[str, dict[str, Any]] = {
            "llama_cpp": {"meta": {"n_ctx_train": 8192, "n_vocab": 1000}},
            "vllm": {"root": name, "max_model_len": self.context_tokens},
        }
        return model | extra.get(self.kind, {})

    async def _health(self, _: web.Request) -> web.Response:
        if self.kind == "vllm":
            return web.Response()
        return web.json_response({"status": "ok"})

    async def _props(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "default_generation_settings": {"n_ctx": self.context_tokens},
                "total_slots": self.slots,
                "model_path": "/models/fake.gguf",
                "modalities": {"vision": self.vision, "audio": self.audio},
                "chat_template": "{{ messages }}",
                "chat_template_caps": {"supports_tools": self.tools},
                "build_info": "b11669-fake",
                "is_sleeping": False,
            }
        )

    async def _slots(self, _: web.Request) -> web.Response:
        held = sorted(received.kv_tokens for received in self._active)
        idle: list[int | None] = [None] * max(0, self.slots - len(held))
        return web.json_response(
            [
                {"id": number, "n_ctx": self.context_tokens, "is_processing": False}
                if tokens is None
                else {
                    "id": number,
                    "n_ctx": self.context_tokens,
                    "is_processing": True,
                    "n_prompt_tokens": tokens,
                }
                for number, tokens in enumerate([*held, *idle])
            ]
        )

    async def _llama_metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            text=f"llamacpp:requests_processing {self.running}\n"
            f"llamacpp:requests_deferred {self.deferred}\n"
        )

    async def _vllm_metrics(self, _: web.Request) -> web.Response:
        pool = self.kv_tokens or self.context_tokens * self.slots
        used = self.tokens_held
        label = 'engine="0",model_name="fake-model"'
        return web.Response(
            text=f"vllm:num_requests_running{{{label}}} {self.running}.0\n"
            f"vllm:num_requests_waiting{{{label}}} {self.deferred}.0\n"
            f"vllm:kv_cache_usage_perc{{{label}}} {used / pool}\n"
            f"vllm:num_preemptions_total{{{label}}} {self.preemptions}.0\n"
            f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="{pool // 16}",'
            f'kv_cache_size_tokens="{pool}",engine="0"}} 1.0\n'
        )

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": "0.32.0"})

    async def _apply_template(self, request: web.Request) -> web.Response:
        body = request[_RECEIVED].body
        if body.get("continue_final_message"):
            return _error(400, "not supported", "invalid_request_error")
        prompt = _render(body) + self.prompt_end
        return web.json_response({"prompt": prompt})

    async def _llama_tokenize(self, request: web.Request) -> web.Response:
        words = str(request[_RECEIVED].body.get("content", "")).split()
        return web.json_response({"tokens": list(range(len(words)))})

    async def _input_tokens(self, request: web.Request) -> web.Response:
        count = self.count_prompt(request[_RECEIVED].body)
        return web.json_response({"input_tokens": count})

    async def _vllm_tokenize(self, request: web.Request) -> web.Response:
        count = self.count_prompt(request[_RECEIVED].body)
        body = {"count": count, "max_model_len": self.context_tokens}
        return web.json_response(body | {"tokens": list(range(count))})

    # ---- chat --------------------------------------------------------------------

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        received: Received = request[_RECEIVED]
        if refused := self._refused_chat(received.body):
            return refused
        reply = self._next_reply(received.body)
        if isinstance(reply, Failure):
            return _response(reply)
        self.deferred += 1
        try:
            await self._slot.acquire()
        finally:
            self.deferred -= 1
        with self._holding(received):
            if isinstance(reply, Raw):
                return await self._send_raw(request, reply)
            if not (self.streaming and received.body.get("stream")):
                return self._whole(received.body, reply)
            return await self._send_answer(request, reply)

    def _next_reply(self, body: Mapping[str, Any]) -> Reply:
        if self._scripts:
            return self._scripts.popleft()
        return self.default(body) if callable(self.default) else self.default

    @contextmanager
    def _holding(self, received: Received) -> Iterator[None]:
        received.kv_tokens = self.count_prompt(received.body)
        self._active.add(received)
        self.running += 1
        self.peak_running = max(self.peak_running, self.running)
        received.started.set()
        try:
            yield
        finally:
            self.running -= 1
            self._active.discard(received)
            self._slot.release()

    def _refused_chat(self, body: Mapping[str, Any]) -> web.Response | None:
        for name in sorted(self.refuse & set(body)):
            return _error(
                400, f"Unsupported parameter: {name}", "invalid_request_error"
            )
        said = json.dumps(body.get("messages"))
        for medium, taken, parts in (
            ("image", self.vision, ("image_url",)),
            ("audio", self.audio, ("input_audio", "audio_url")),
        ):
            if not taken and any(part in said for part in parts):
                status = 500 if self.kind == "llama_cpp" else 400
                hint = f"{medium} input is not supported - hint: you need the mmproj"
                return _error(status, hint, "server_error")
        prompt = self.count_prompt(body)
        if prompt >= self.context_tokens:
            return self._overflow(prompt)
        return None

    def _overflow(self, prompt: int) -> web.Response:
        if self.kind == "llama_cpp":
            return _error(
                400,
                f"request ({prompt} tokens) exceeds the available context size "
                f"({self.context_tokens} tokens), try increasing it",
                "exceed_context_size_error",
                n_prompt_tokens=prompt,
                n_ctx=self.context_tokens,
            )
        return _error(
            400,
            f"This model's maximum context length is {self.context_tokens} tokens. "
            f"Your request has at least {self.context_tokens + 1} input tokens.",
            "BadRequestError",
            param="input_tokens",
        )

    async def _open(
        self, request: web.Request, content_type: str
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": content_type})
        await response.prepare(request)
        return response

    async def _send_raw(self, request: web.Request, reply: Raw) -> web.StreamResponse:
        response = await self._open(request, reply.content_type)
        for number, step in enumerate(reply.steps):
            if isinstance(step, bytes):
                if number:
                    await _let_client_read()
                await response.write(step)
            else:
                await self._pause(request, step)
        await response.write_eof()
        return response

    async def _send_answer(
        self, request: web.Request, reply: Answer
    ) -> web.StreamResponse:
        response = await self._open(request, "text/event-stream")
        with contextlib.suppress(_PoolExhaustedError):
            await self._send_pieces(request, reply, response)
            await response.write_eof()
            return response
        await response.write(_EXHAUSTED.encode())
        await response.write_eof()
        return response

    async def _send_pieces(
        self, request: web.Request, reply: Answer, response: web.StreamResponse
    ) -> None:
        received: Received = request[_RECEIVED]
        body = received.body
        prompt = self.count_prompt(body)
        if body.get("return_progress"):
            await response.write(_progress(prompt, reply.cached).encode())
        await response.write(chunk({"role": "assistant", "content": None}).encode())
        output = calls = 0
        finish = reply.finish or _natural_finish(reply.pieces)
        for piece in reply.pieces:
            if isinstance(piece, asyncio.Event | Fault):
                await self._pause(request, piece)
                continue
            if output >= body.get("max_tokens", output + 1):
                finish = "length"
                break
            output += 1
            self._grow(received)
            counts: dict[str, Any] = {}
            if _wants(body, "continuous_usage_stats"):
                counts = {"usage": usage(prompt, output)}
            for delta in deltas_of(piece, calls):
                await response.write(chunk(delta, **counts).encode())
            calls += isinstance(piece, Call)
        await response.write(chunk({}, finish).encode())
        if reply.usage and _wants(body, "include_usage"):
            await response.write(usage_chunk(prompt, output, reply.cached).encode())
        await response.write(DONE.encode())

    async def _pause(self, request: web.Request, step: asyncio.Event | Fault) -> None:
        if isinstance(step, asyncio.Event):
            await self._wait(request[_RECEIVED], step)
            return
        # A reset throws away what the client has not read yet.
        await _let_client_read()
        request[_RECEIVED].broken = True
        transport = request.transport
        if isinstance(transport, asyncio.Transport):
            if step is RESET:
                _reset(transport)
            else:
                transport.close()
        # The handler is cancelled by aiohttp once the connection is lost.
        await asyncio.Event().wait()

    async def _wait(self, received: Received, gate: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(e.wait()) for e in (gate, received.doomed)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        if received.doomed.is_set():
            raise _PoolExhaustedError

    def _grow(self, received: Received) -> None:
        """Account one more token of this answer in the pool."""
        received.kv_tokens += 1
        used = sum(r.kv_tokens for r in self._active)
        if self.kv_tokens is not None and used > self.kv_tokens:
            for active in self._active:
                active.doomed.set()
        if received.doomed.is_set():
            raise _PoolExhaustedError

    def _whole(self, body: Mapping[str, Any], reply: Answer) -> web.Response:
        """Return the answer as one JSON body."""
        words = [p for p in reply.pieces if isinstance(p, str)]
        calls = [
            {
                "id": p.call_id,
                "type": "function",
                "function": {"name": p.name, "arguments": json.dumps(p.arguments)},
            }
            for p in reply.pieces
            if isinstance(p, Call)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": "".join(words)}
        if calls:
            message["tool_calls"] = calls
        finish = reply.finish or _natural_finish(reply.pieces)
        choice = {"index": 0, "message": message, "finish_reason": finish}
        counted = usage(self.count_prompt(body), len(words) + len(calls), reply.cached)
        head = {"id": "chatcmpl-fake", "object": "chat.completion", "created": 1}
        return web.json_response(head | {"choices": [choice], "usage": counted})


async def _let_client_read() -> None:
    for _ in range(_TURNS_TO_READ):
        await asyncio.sleep(0)


def _wants(body: Mapping[str, Any], option: str) -> bool:
    return bool((body.get("stream_options") or {}).get(option))


def _natural_finish(pieces: tuple[Piece, ...]) -> str:
    return "tool_calls" if any(isinstance(p, Call) for p in pieces) else "stop"


def _progress(prompt: int, cached: int) -> str:
    progress = {"total": prompt, "cache": cached, "processed": prompt, "time_ms": 1}
    return chunk({"role": "assistant", "content": None}, prompt_progress=progress)


def _render(body: Mapping[str, Any]) -> str:
    """Return the prompt: roles, texts and tools of a body, as words."""
    parts: list[str] = []
    for message in body.get("messages") or ():
        parts.append(str(message.get("role")))
        content = message.get("content") or ""
        if isinstance(content, list):
            content = " ".join(str(part.get("text", "image")) for part in content)
        parts.append(str(content))
    parts.extend(json.dumps(tool) for tool in body.get("tools") or ())
    return " ".join(parts) or str(body.get("prompt", ""))


def _error(status: int, message: str, type_: str, **extra: Any) -> web.Response:
    return _response(failure(status, message, type_, **extra))


def _response(reply: Failure) -> web.Response:
    return web.Response(
        status=reply.status,
        text=reply.body,
        headers=dict(reply.headers),
        content_type=reply.content_type,
    )


def _reset(transport: asyncio.Transport) -> None:
    """Close with a TCP reset."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
