"""Short words for what the tests of the engines do all the time."""

from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from typing import Any

import aiohttp

from custom_components.fair_share.engines.base import (
    Content,
    Delta,
    Engine,
    EngineKind,
    Finish,
    GenerationRequest,
    Thinking,
    ToolCallDelta,
    Usage,
)
from custom_components.fair_share.engines.http import Timeouts
from custom_components.fair_share.engines.probe import create_engine
from custom_components.fair_share.engines.tool_calls import ToolCall, assemble
from tests.fake_server import FakeServer

TOOL = {
    "type": "function",
    "function": {"name": "HassTurnOn", "description": "Turn it on", "parameters": {}},
}


def engine_for(
    session: aiohttp.ClientSession,
    server: FakeServer,
    *,
    timeouts: Timeouts | None = None,
) -> Engine:
    """Return the engine for a fake server."""
    return create_engine(
        session, server.url, server.api_key, EngineKind(server.kind), timeouts=timeouts
    )


def ask(
    text: str = "hello there", tokens: int = 50, **fields: Any
) -> GenerationRequest:
    """Return a request with one message."""
    return GenerationRequest([{"role": "user", "content": text}], tokens, **fields)


def ask_with(messages: list[Mapping[str, Any]], tokens: int = 50) -> GenerationRequest:
    """Return a request with these messages."""
    return GenerationRequest(messages, tokens)


async def deltas_of(
    engine: Engine, request: GenerationRequest | None = None
) -> list[Delta]:
    """Return all deltas of an answer."""
    async with engine.stream(request or ask()) as deltas:
        return [delta async for delta in deltas]


async def error_of(action: Awaitable[object]) -> Exception | None:
    """Return the error that an action ends with."""
    try:
        await action
    except Exception as err:  # noqa: BLE001 - the test looks at it
        return err
    return None


async def first_content(deltas: AsyncIterator[Delta]) -> Content:
    """Return the next piece of text, passing over anything else."""
    async for delta in deltas:
        if isinstance(delta, Content):
            return delta
    raise AssertionError("the answer ended without any more text")


async def deltas_until_error(engine: Engine) -> tuple[list[Delta], Exception]:
    """Return the deltas of an answer that fails, and its error."""
    seen: list[Delta] = []
    try:
        async with engine.stream(ask()) as deltas:
            async for delta in deltas:
                seen.append(delta)  # noqa: PERF401 - they are wanted if it fails
    except Exception as err:  # noqa: BLE001 - the test looks at it
        return seen, err
    raise AssertionError("the answer did not fail")


def text_of(deltas: Iterable[Delta]) -> str:
    """Return what would be spoken."""
    return "".join(delta.text for delta in deltas if isinstance(delta, Content))


def thoughts_of(deltas: Iterable[Delta]) -> str:
    """Return what would not."""
    return "".join(delta.text for delta in deltas if isinstance(delta, Thinking))


def calls_of(deltas: Iterable[Delta]) -> list[ToolCall]:
    """Return the complete tool calls."""
    return assemble(delta for delta in deltas if isinstance(delta, ToolCallDelta))


def tokens_of(deltas: Iterable[Delta]) -> int:
    """Return the output tokens that were counted along."""
    pieces = (Content, Thinking, ToolCallDelta)
    return sum(delta.tokens for delta in deltas if isinstance(delta, pieces))


def usages_of(deltas: Iterable[Delta]) -> list[Usage]:
    """Return the final counts, of which there should be one."""
    return [delta for delta in deltas if isinstance(delta, Usage)]


def finishes_of(deltas: Iterable[Delta]) -> list[str]:
    """Return how the answer ended, which it should do once."""
    return [str(delta.reason) for delta in deltas if isinstance(delta, Finish)]
