"""The life of one request: measured, admitted, streamed, charged, settled."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from sys import maxsize
from time import monotonic

from homeassistant.util.ulid import ulid_now

from ..admission.model import (
    Caps,
    Rejected,
    RejectReason,
    Request,
    Workload,
)
from ..admission.queue import AdmissionQueue, Grant
from ..engines.base import Delta, EngineError, GenerationRequest, PromptProgress, Usage
from ..engines.resume import goes_on
from .answering import Answering, never_begun, worth_another_try
from .asker import Asker
from .estimate import estimate_tokens, fewest_tokens, is_surely_short
from .openings import Opening
from .prefixes import Answered, PrefixMemory
from .registry import Registry
from .servers import ServerPool

_TRIES = 3
"""A request is sent so often before it is told that there is no memory for it."""

_PATIENT = (Workload.TASK, Workload.BACKGROUND)
_FAULTS = 2
"""So often a request may meet with a fault of a server: it may well be its own doing,
and each time it may be the end of a server, or of what others have running there."""


@dataclass(slots=True)
class _Tries:
    """What became of the tries of one request that has got no answer yet."""

    gives_up_at: float
    grant: Grant | None = None
    times: int = 0

    @property
    def server_id(self) -> str | None:
        """Where the request was at last."""
        return None if self.grant is None else self.grant.dispatch.server_id

    def another_after(self, error: EngineError, now: float) -> bool:
        """Whether the request may be sent once more."""
        if now >= self.gives_up_at or not worth_another_try(error):
            return False
        if never_begun(error):
            return True
        self.times += 1
        return self.times < (_FAULTS if error.server_fault else _TRIES)


@dataclass(frozen=True, slots=True)
class Ask:
    """What a door wants generated, and for whom.

    ``conversation_id`` ties requests together that share a growing prompt.
    ``continues_turn`` marks a later request of an agent's turn, which keeps its
    place at the front of its class. It is answered on one of ``servers`` only
    (``None``: on any). Its id is written on the ``receipt``.
    """

    asker: Asker
    workload: Workload
    request: GenerationRequest
    conversation_id: str | None = None
    continues_turn: bool = False
    servers: frozenset[str] | None = None
    receipt: Receipt | None = None


@dataclass(slots=True)
class Receipt:
    """By which id the queue knows a request, once it does."""

    request_id: str = ""


class Generator:
    """Takes requests through the queue to a server and back."""

    def __init__(
        self,
        queue: AdmissionQueue,
        servers: ServerPool,
        registry: Registry,
        prefixes: PrefixMemory,
    ) -> None:
        """Use the household's own parts."""
        self._queue = queue
        self._servers = servers
        self._registry = registry
        self._prefixes = prefixes

    @asynccontextmanager
    async def generate(self, ask: Ask) -> AsyncIterator[AsyncIterator[Delta]]:
        """Open the stream of deltas that answers ``ask``.

        Leaving the block by any path leaves the queue, closes the connection to the
        server and settles the account. While iterating, ``Rejected`` is raised when
        the queue refuses the request or a quota ends it, ``EngineError`` when the
        server fails.
        """
        async with aclosing(self._deltas(ask)) as deltas:
            yield deltas

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Return a prompt's length in tokens, counted if a server can.

        What no server can hold anyway is only estimated: a server would be busy with
        counting it while nobody queues for that.
        """
        if not self._could_fit(request):
            return estimate_tokens(request)
        for server in self._servers.ready():
            if server.capabilities is None or not server.capabilities.counts_tokens:
                continue
            counted = await server.engine.count_tokens(request)
            if counted is not None:
                return counted
        return estimate_tokens(request)

    def _could_fit(self, request: GenerationRequest) -> bool:
        """Whether a server that is known, reachable or not, may hold this prompt."""
        contexts = self._contexts()
        return not contexts or fewest_tokens(request) <= max(contexts)

    def _contexts(self) -> list[int]:
        """Return what fits into each server that is known, reachable or not."""
        return [server.context_tokens for server in self._queue.status().servers]

    async def _length(self, ask: Ask, caps: Caps) -> int:
        """Return a prompt's length in tokens, counted where that may matter.

        To have it counted takes longer than all else that is done here for a short
        one, and the server tells the exact number anyway once it reads it. Where nobody
        waits for the first word it is counted: patient work is interrupted, maybe
        before the server has told.
        """
        room = [*self._contexts(), caps.context_tokens or maxsize]
        if ask.workload not in _PATIENT and is_surely_short(ask.request, min(room)):
            return estimate_tokens(ask.request)
        return await self.count_tokens(ask.request)

    async def _deltas(self, ask: Ask) -> AsyncGenerator[Delta]:
        opening = Opening.of(ask.request)
        opening_id = None if opening is None else opening.opening_id
        request = await self._measure(ask, opening_id)
        patience_s = self._queue.settings.profiles[ask.workload].patience_s
        tries = _Tries(monotonic() + patience_s)
        able = request.servers
        while True:
            sent = False
            try:
                attempt = self._attempt(ask, request, opening_id, tries)
                async with aclosing(attempt) as deltas:
                    async for delta in deltas:
                        sent = sent or not isinstance(delta, PromptProgress)
                        yield delta
            except EngineError as err:
                if sent or not tries.another_after(err, monotonic()):
                    raise
                # Nothing has reached the client yet: it keeps its place and waits
                # until the server, or another one, is ready.
                others = self._servers.others(tries.server_id, able)
                request = replace(
                    request,
                    request_id=ulid_now(),
                    continues_turn=True,
                    servers=others if err.server_fault and others else able,
                )
            else:
                return

    async def _measure(self, ask: Ask, opening_id: str | None) -> Request:
        """Return the request as the queue needs it.

        Raises ``Rejected`` if it is too long, or no server is able to answer it.
        """
        servers = self._able(ask)
        caps = self._registry.caps_for(ask.asker)
        prompt_tokens = await self._length(ask, caps)
        if caps.context_tokens is not None and prompt_tokens >= caps.context_tokens:
            raise Rejected(RejectReason.TOO_LONG, limit_tokens=caps.context_tokens)
        held = self._prefixes.expected(ask.conversation_id, opening_id)
        preferred = max(held, key=lambda server_id: held[server_id], default=None)
        cached = 0 if preferred is None else held[preferred]
        return Request(
            request_id=ulid_now(),
            class_id=self._registry.class_for(ask.asker, ask.workload).class_id,
            prompt_tokens=prompt_tokens,
            max_output_tokens=_output_limit(ask.request, caps, prompt_tokens),
            cached_tokens=min(cached, prompt_tokens - 1),
            servers=servers,
            preferred_server=preferred,
            cached=held,
            continues_turn=ask.continues_turn,
            preemptible=goes_on(ask.request),
        )

    def _able(self, ask: Ask) -> frozenset[str] | None:
        """Return the servers that may answer, ``None`` for all. Raises ``Rejected``."""
        able = self._servers.able_for(ask.request)
        if ask.servers is None or able is None:
            return able if ask.servers is None else ask.servers
        if not able & ask.servers:
            raise Rejected(RejectReason.NO_SERVER)
        return able & ask.servers

    async def _attempt(
        self, ask: Ask, request: Request, opening_id: str | None, tries: _Tries
    ) -> AsyncGenerator[Delta]:
        try:
            self._queue.put_node(self._registry.source_spec(ask.asker))
            self._queue.put_class(self._registry.class_for(ask.asker, ask.workload))
        except KeyError:
            # The member was removed in the middle of the turn.
            raise Rejected(RejectReason.CLASS_REMOVED) from None
        if ask.receipt is not None:
            ask.receipt.request_id = request.request_id
        async with self._queue.admit(request) as grant:
            answering = Answering(
                ask.request,
                request,
                grant,
                self._servers,
                self._servers.fairness_id(ask.asker.member_id),
            )
            tries.grant = grant
            async with aclosing(answering.deltas()) as deltas:
                async for delta in deltas:
                    yield delta
                    if isinstance(delta, Usage):
                        self._prefixes.note(
                            Answered(
                                server_id=grant.dispatch.server_id,
                                conversation_id=ask.conversation_id,
                                opening_id=opening_id,
                                prompt_tokens=delta.prompt_tokens or 0,
                                cached_tokens=delta.cached_tokens,
                                output_tokens=delta.output_tokens,
                            )
                        )


def _output_limit(request: GenerationRequest, caps: Caps, prompt_tokens: int) -> int:
    limits = [request.max_output_tokens]
    if caps.output_tokens is not None:
        limits.append(caps.output_tokens)
    if caps.context_tokens is not None:
        limits.append(caps.context_tokens - prompt_tokens)
    return min(limits)
