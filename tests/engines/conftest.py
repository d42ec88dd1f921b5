"""A fake server, a session and the engine that talks to it."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from custom_components.fair_share.engines.base import Engine
from tests.engines.helpers import engine_for
from tests.fake_server import FakeServer


@pytest.fixture(autouse=True)
def _loopback(socket_enabled: None) -> None:
    """Let the tests talk to the fake server."""


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture(params=["llama_cpp", "vllm", "openai_compatible"])
def kind(request: pytest.FixtureRequest) -> str:
    """Every kind of server, one after the other."""
    return str(request.param)


@pytest.fixture
async def any_server(kind: str) -> AsyncIterator[FakeServer]:
    async with FakeServer(kind) as server:
        yield server


@pytest.fixture
def any_engine(session: aiohttp.ClientSession, any_server: FakeServer) -> Engine:
    return engine_for(session, any_server)


@pytest.fixture
async def llama_server() -> AsyncIterator[FakeServer]:
    async with FakeServer("llama_cpp") as server:
        yield server


@pytest.fixture
def llama(session: aiohttp.ClientSession, llama_server: FakeServer) -> Engine:
    return engine_for(session, llama_server)


@pytest.fixture
async def vllm_server() -> AsyncIterator[FakeServer]:
    async with FakeServer("vllm") as server:
        yield server


@pytest.fixture
def vllm(session: aiohttp.ClientSession, vllm_server: FakeServer) -> Engine:
    return engine_for(session, vllm_server)


@pytest.fixture
async def plain_server() -> AsyncIterator[FakeServer]:
    async with FakeServer("openai_compatible") as server:
        yield server


@pytest.fixture
def plain(session: aiohttp.ClientSession, plain_server: FakeServer) -> Engine:
    return engine_for(session, plain_server)
