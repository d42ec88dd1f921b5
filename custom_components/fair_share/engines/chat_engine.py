"""What all engines share: the streaming path and the course of a probe."""

from abc import ABC, abstractmethod
import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp

from .answer_text import AnswerText
from .base import (
    Capabilities,
    ClientFaultError,
    Delta,
    EngineError,
    EngineKind,
    EngineLoad,
    GenerationRequest,
    NoChatModelError,
    PromptSlices,
    Resume,
    UnreachableError,
)
from .body import chat_body, raw_body
from .chat_stream import ChatStream
from .dispensable import without
from .http import ServerHttp
from .media import Medium, is_taken
from .model_list import list_models
from .open_answer import OpenAnswer
from .patience import PatientReader
from .resume import COMPLETION_PATH, Asked, continued, is_plain, is_text
from .scheduling_fields import Scheduling, scheduling_fields, scheduling_headers
from .stops import stops_of
from .think import ThinkFilter

CHAT_PATH = "/v1/chat/completions"
_EMBEDDINGS_PATH = "/v1/embeddings"
_TRIAL_LIMIT_S = 120.0
_COUNTS_AT_ONCE = 2
"""Counting happens outside the queue; a server with much to count answers nobody."""


class ChatEngine(ABC):
    """One server that speaks OpenAI's chat completions.

    Implements ``base.Engine``; what differs between servers is left to the abstract
    methods.
    """

    kind: EngineKind

    def __init__(
        self,
        http: ServerHttp,
        model: str | None = None,
        *,
        scheduling: Scheduling = Scheduling.NONE,
    ) -> None:
        """``model`` is used where a request names none; else the probe chooses.

        ``scheduling`` is what the household says that the server schedules by.
        """
        self._http = http
        self._scheduling = scheduling
        self._wanted_model = model
        self._model = model
        self._counting = asyncio.Semaphore(_COUNTS_AT_ONCE)
        self._streamed = False
        self._takes: dict[Medium, bool] = {}
        self._resume: Resume | None = None
        self._opens_think: bool | None = None
        self._stream_options: Mapping[str, Any] = {"include_usage": True}
        self._refused: frozenset[str] = frozenset()

    async def probe(self) -> Capabilities:
        """Ask the server what it is and can do.

        Has it generate two tokens, and take a small picture and a short sound if it
        does not tell whether it can; but not again if that was tried before, and not
        while all its slots are busy. Raises ``UnreachableError``,
        ``NotAnEngineError``, ``AuthError``, ``LoadingError``, ``NoChatModelError``,
        ``NoStreamingError`` or, when the server fails at that, ``ServerFaultError``.
        """
        await self._check_ready()
        entries = (await list_models(self._http)).entries
        models = tuple(str(entry["id"]) for entry in entries)
        wanted = self._wanted_model
        self._model = wanted if wanted in models else models[0]
        capabilities = await self._facts(models, entries)
        untold = [medium for medium in Medium if medium not in self._takes]
        # What is busy with a long prompt does not tell its load, and is not away.
        if (untold or not self._streamed) and await self._has_room(capabilities):
            if not self._streamed:
                await self._try_chat()
            for medium in untold:
                self._takes[medium] = await is_taken(self, medium)
        self._resume = capabilities.resume
        return replace(
            capabilities,
            vision=self._takes.get(Medium.PICTURE, False),
            audio=self._takes.get(Medium.SOUND, False),
        )

    async def count_tokens(self, request: GenerationRequest) -> int | None:
        """Return the exact prompt length in tokens, ``None`` if it can't be had."""
        try:
            body = await self._body(request)
            async with self._counting:
                return await self._count(body)
        except EngineError:
            return None

    async def read_ahead(
        self, request: GenerationRequest, answer: OpenAnswer
    ) -> PromptSlices | None:
        """Return the prompt to be read part by part; see ``base.Engine``."""
        if request.raw or not is_text(request):
            return None
        self._prepare(request, answer)
        asked = await self._asked(request, answer)
        return await self._slices(asked)

    @asynccontextmanager
    async def stream(
        self, request: GenerationRequest, answer: OpenAnswer | None = None
    ) -> AsyncGenerator[AsyncIterator[Delta]]:
        """Generate; see ``base.Engine.stream``."""
        answer = OpenAnswer() if answer is None else answer
        self._prepare(request, answer)
        asked = await self._asked(request, answer)
        if not answer.begun:
            answer.begin(
                AnswerText(
                    starts_inside_think=bool(self._opens_think) and not request.raw,
                    stops=stops_of(request.parameters),
                )
            )
        chat = ChatStream(answer, max_output_tokens=asked.body["max_tokens"])
        async with (
            self._open(asked, request) as response,
            aclosing(self._deltas(response, chat, answer)) as deltas,
        ):
            yield deltas

    async def embed(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return embeddings; see ``base.Engine.embed``."""
        body = {"model": self._model, **fields} if self._model else fields
        within_s = self._http.timeouts.first_token_s
        answer = await self._http.post(_EMBEDDINGS_PATH, body, within_s=within_s)
        return answer.fields()

    @abstractmethod
    async def load(self) -> EngineLoad:
        """Return what the server says it is doing. Raises ``EngineError``."""

    @abstractmethod
    async def _check_ready(self) -> None:
        """Raise ``EngineError`` if the server cannot serve yet."""

    @abstractmethod
    async def _facts(
        self, models: tuple[str, ...], entries: Sequence[Mapping[str, Any]]
    ) -> Capabilities:
        """Return what the server tells of itself."""

    async def _count(self, _body: Mapping[str, Any]) -> int | None:
        """Return the prompt tokens of a chat body, ``None`` if it can't be had."""
        return None

    async def _slices(self, _asked: Asked) -> PromptSlices | None:
        """Return a prompt to be read part by part, ``None`` if it can't be."""
        return None

    def _defaults(self) -> Mapping[str, Any]:
        """Return the body fields that this kind of server understands."""
        return {}

    def _prepare(self, request: GenerationRequest, answer: OpenAnswer) -> None:
        """Tell an answer what the server it comes from can do with it."""
        answer.resume = self._resume
        answer.plain = is_plain(request)

    async def _asked(self, request: GenerationRequest, answer: OpenAnswer) -> Asked:
        """Return what asks for the answer, or for the rest of it."""
        body = await self._body(request)
        if answer.begun:
            return await self._asked_to_go_on(body, answer)
        if request.raw:
            return Asked(COMPLETION_PATH, raw_body(body))
        return Asked(CHAT_PATH, body)

    async def _body(self, request: GenerationRequest) -> dict[str, Any]:
        if request.model is None and self._model is None:
            self._model = str((await list_models(self._http)).entries[0]["id"])
        return chat_body(
            request,
            request.model or self._model or "",
            defaults=self._defaults(),
            stream_options=self._stream_options,
        )

    async def _has_room(self, capabilities: Capabilities) -> bool:
        if capabilities.slots is None:
            return True
        load = await self.load()
        return load.running is None or load.running < capabilities.slots

    async def _try_chat(self) -> None:
        """Have a word or two streamed."""
        request = GenerationRequest([{"role": "user", "content": "Hi"}], 2)
        try:
            async with asyncio.timeout(_TRIAL_LIMIT_S), self.stream(request) as deltas:
                async for _ in deltas:
                    pass
        except TimeoutError:
            raise UnreachableError("no answer to a short question in time") from None
        except ClientFaultError as err:
            raise NoChatModelError(err.detail, status=err.status) from None

    async def _asked_to_go_on(
        self, body: Mapping[str, Any], answer: OpenAnswer
    ) -> Asked:
        """Return what has the server go on with an answer.

        Raises ``EngineError`` if it can't from here.
        """
        if not answer.can_go_on():
            raise EngineError("the server can't go on with the answer")
        return Asked(CHAT_PATH, {**body, **continued(body, answer)})

    @asynccontextmanager
    async def _open(
        self, asked: Asked, request: GenerationRequest
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Open the stream; again without the fields of ours that are refused."""
        refused = self._refused - request.parameters.keys()
        fields = {**asked.body, **scheduling_fields(self._scheduling, request.origin)}
        headers = scheduling_headers(self._scheduling, request.origin)
        async with AsyncExitStack() as stack:
            while True:
                body = without(fields, refused)
                try:
                    response = await stack.enter_async_context(
                        self._http.stream(asked.path, body, headers)
                    )
                except ClientFaultError as err:
                    named = err.dispensable - request.parameters.keys()
                    if without(body, named) == body:
                        raise
                    refused |= named
                else:
                    break
            self._refused |= refused
            yield response

    async def _deltas(
        self, response: aiohttp.ClientResponse, chat: ChatStream, answer: OpenAnswer
    ) -> AsyncGenerator[Delta]:
        reader = PatientReader(response, chat, answer, self._http.timeouts)
        while data := await reader.read():
            for delta in chat.feed(data):
                yield delta
        for delta in chat.close():
            yield delta
        self._streamed = True
        self._learn(answer.text.think)

    def _learn(self, think: ThinkFilter) -> None:
        """Remember whether this server's answers begin inside a think block."""
        if think.opens_unseen:
            self._opens_think = True
        elif think.closed_nothing:
            self._opens_think = False
