"""The llama.cpp engine against a real llama.cpp server with a real model."""

import asyncio
from collections.abc import AsyncIterator
import os
import signal

import aiohttp
import pytest

from custom_components.fair_share.engines.base import (
    AuthError,
    ClientFaultError,
    Content,
    ContextOverflowError,
    Engine,
    EngineKind,
    GenerationRequest,
    PoolExhaustedError,
    PromptProgress,
    StreamCutError,
    UnreachableError,
)
from custom_components.fair_share.engines.probe import create_engine, find_server
from demo.embedded_engine import EmbeddedEngine, embedded_engine as run_engine
from tests.engines.helpers import (
    ask,
    deltas_of,
    error_of,
    finishes_of,
    first_content,
    text_of,
    tokens_of,
    usages_of,
)

pytestmark = pytest.mark.live

LONG = "Write a long story about a lighthouse."
ON_AND_ON = {"ignore_eos": True}


@pytest.fixture(autouse=True)
def _loopback(socket_enabled: None) -> None:
    """Let the tests talk to the engine."""


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def engine(session: aiohttp.ClientSession, embedded_engine: EmbeddedEngine) -> Engine:
    return create_engine(session, embedded_engine.url, None, EngineKind.LLAMA_CPP)


async def wait_idle(engine: Engine) -> None:
    """Ask the engine until none of its slots is busy."""
    async with asyncio.timeout(5):
        while (await engine.load()).running:
            pass


async def test_the_server_is_found_with_all_it_tells(
    session: aiohttp.ClientSession, embedded_engine: EmbeddedEngine
) -> None:
    found = await find_server(session, embedded_engine.url.removeprefix("http://"))
    capabilities = found.capabilities
    assert found.address == embedded_engine.url
    assert capabilities.kind is EngineKind.LLAMA_CPP
    assert (capabilities.slots, capabilities.context_tokens) == (2, 2048)
    assert capabilities.kv_tokens == 2048
    assert (capabilities.counts_tokens, capabilities.vision) == (True, False)


async def test_an_answer_streams_and_every_count_agrees(engine: Engine) -> None:
    request = ask("Tell me about the sea.", 24, parameters=ON_AND_ON)
    deltas = await deltas_of(engine, request)
    (usage,) = usages_of(deltas)
    assert text_of(deltas)
    assert finishes_of(deltas) == ["length"]
    assert usage.output_tokens == tokens_of(deltas) == 24
    assert usage.prompt_tokens == await engine.count_tokens(request)
    assert not usage.estimated


async def test_the_reading_of_a_prompt_is_reported(engine: Engine) -> None:
    request = ask("The tide comes in. " * 60, 1)
    progress = [
        d for d in await deltas_of(engine, request) if isinstance(d, PromptProgress)
    ]
    assert progress[-1].processed == progress[-1].total
    assert progress[-1].total == await engine.count_tokens(request)


async def test_a_repeated_prompt_comes_from_the_cache(engine: Engine) -> None:
    request = ask("Name the seven seas, one after the other. " * 5, 2)
    await deltas_of(engine, request)
    (usage,) = usages_of(await deltas_of(engine, request))
    assert usage.cached_tokens > usage.prompt_tokens // 2


async def test_characters_of_several_tokens_arrive_whole(engine: Engine) -> None:
    grammar = {"grammar": 'root ::= "õhtu 한국 🙂🏽"'}
    deltas = await deltas_of(engine, ask(parameters=grammar))
    assert text_of(deltas) == "õhtu 한국 🙂🏽"
    # The token that ends the answer has no text.
    assert tokens_of(deltas) == usages_of(deltas)[0].output_tokens - 1


async def test_leaving_frees_the_slot_at_once(engine: Engine) -> None:
    async with engine.stream(ask(LONG, 1500, parameters=ON_AND_ON)) as deltas:
        await first_content(deltas)
        assert (await engine.load()).running == 1
    await wait_idle(engine)


async def test_a_cancelled_reader_frees_the_slot(engine: Engine) -> None:
    started = asyncio.Event()

    async def read() -> None:
        async with engine.stream(ask(LONG, 1500, parameters=ON_AND_ON)) as deltas:
            await first_content(deltas)
            started.set()
            async for _ in deltas:
                pass

    reader = asyncio.create_task(read())
    await started.wait()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await wait_idle(engine)


async def test_a_prompt_that_is_too_long_is_refused_with_both_sizes(
    engine: Engine,
) -> None:
    error = await error_of(deltas_of(engine, ask("word " * 3000)))
    assert isinstance(error, ContextOverflowError)
    assert error.context_tokens == 2048
    assert (error.prompt_tokens or 0) > 3000


async def test_a_picture_is_the_clients_fault(engine: Engine) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    request = GenerationRequest([{"role": "user", "content": [picture]}], 4)
    assert isinstance(await error_of(deltas_of(engine, request)), ClientFaultError)


async def test_a_grammar_that_is_none_is_the_clients_fault(engine: Engine) -> None:
    request = ask(parameters={"grammar": "root ::= ("})
    assert isinstance(await error_of(deltas_of(engine, request)), ClientFaultError)


async def test_a_stopped_answer_can_be_continued(engine: Engine) -> None:
    goes_on = {"continue_final_message": True, "add_generation_prompt": False}
    greedy = {"temperature": 0, **ON_AND_ON}
    whole = text_of(await deltas_of(engine, ask(LONG, 16, parameters=greedy)))
    half = text_of(await deltas_of(engine, ask(LONG, 8, parameters=greedy)))
    messages = [*ask(LONG).messages, {"role": "assistant", "content": half}]
    rest = GenerationRequest(messages, 8, parameters={**greedy, **goes_on})
    deltas = await deltas_of(engine, rest)
    (usage,) = usages_of(deltas)
    assert whole.startswith(half)
    assert text_of(deltas)
    assert usage.cached_tokens >= usage.prompt_tokens - 2


async def test_a_wrong_key_is_refused(session: aiohttp.ClientSession) -> None:
    async with run_engine(api_key="sk-right") as server:
        assert isinstance(await error_of(find_server(session, server.url)), AuthError)
        wrong = find_server(session, server.url, "sk-wrong")
        assert isinstance(await error_of(wrong), AuthError)
        assert (
            await find_server(session, server.url, "sk-right")
        ).capabilities.slots == 2


async def test_streams_that_exhaust_a_shared_pool_die_together(
    session: aiohttp.ClientSession,
) -> None:
    async with run_engine(context_tokens=512, unified=True) as server:
        engine = create_engine(session, server.url, None, EngineKind.LLAMA_CPP)
        assert (await engine.probe()).kv_tokens == 512
        requests = [ask(f"{n} word " * 30, 400, parameters=ON_AND_ON) for n in "ab"]
        errors = await asyncio.gather(
            *(error_of(deltas_of(engine, r)) for r in requests)
        )
    assert [type(error) for error in errors] == [PoolExhaustedError, PoolExhaustedError]


async def test_a_killed_server_cuts_the_answer(session: aiohttp.ClientSession) -> None:
    async with run_engine() as server:
        engine = create_engine(session, server.url, None, EngineKind.LLAMA_CPP)
        async with engine.stream(ask(LONG, 1500, parameters=ON_AND_ON)) as deltas:
            assert isinstance(await first_content(deltas), Content)
            os.kill(server.pid, signal.SIGKILL)
            assert isinstance(await error_of(drain(deltas)), StreamCutError)
        assert isinstance(await error_of(engine.load()), UnreachableError)


async def drain(deltas: AsyncIterator[object]) -> None:
    """Read an answer to its end."""
    async for _ in deltas:
        pass
