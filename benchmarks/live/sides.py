"""The two ways to a server: straight, or through a household's queue."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from custom_components.fair_share.admission.model import Workload
from custom_components.fair_share.engines.base import Engine, GenerationRequest
from custom_components.fair_share.engines.probe import create_engine
from custom_components.fair_share.household.generation import Ask

from .home import Home, Server
from .served import Opened

_LISTENING_S = 30.0

type Open = Callable[[Workload, str, GenerationRequest, str | None], Opened]
"""Opens the stream that answers what a member asks, maybe in a conversation."""


@dataclass(frozen=True, slots=True)
class Straight:
    """Asks the server itself, as every client would without a queue."""

    engine: Engine

    def open(
        self,
        _workload: Workload,
        _member: str,
        request: GenerationRequest,
        _conversation_id: str | None = None,
    ) -> Opened:
        """Open the stream."""
        return self.engine.stream(request)


@dataclass(frozen=True, slots=True)
class Queued:
    """Asks the household; voice commands come from the satellite."""

    home: Home

    def listens(self) -> None:
        """Tell what an agent is told when a satellite begins to listen to somebody."""
        self.home.household.queue.expect(Workload.VOICE, _LISTENING_S)

    def open(
        self,
        workload: Workload,
        member: str,
        request: GenerationRequest,
        conversation_id: str | None = None,
    ) -> Opened:
        """Open the stream."""
        voice = workload is Workload.VOICE
        asker = self.home.satellite() if voice else self.home.member(member)
        ask = Ask(asker, workload, request, conversation_id)
        return self.home.household.generate(ask)


@asynccontextmanager
async def client_of(server: Server) -> AsyncIterator[Engine]:
    """Connect to a server past any queue. Raises ``EngineError``."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        engine = create_engine(session, server.url, None, server.kind)
        await engine.probe()
        yield engine
