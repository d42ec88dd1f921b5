"""The vLLM engine against a real vLLM, with a tiny model of random weights."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from custom_components.fair_share.engines.base import (
    BusyError,
    ClientFaultError,
    Content,
    ContextOverflowError,
    Delta,
    Engine,
    EngineKind,
    GenerationRequest,
    Origin,
    Resume,
    ResumeWay,
)
from custom_components.fair_share.engines.probe import create_engine, find_server
from custom_components.fair_share.engines.scheduling_fields import Scheduling
from demo.embedded_engine import EmbeddedEngine
from demo.vllm_engine import BLOCK_TOKENS
from tests.common import until
from tests.engines.helpers import (
    TOOL,
    ask,
    calls_of,
    deltas_of,
    error_of,
    finishes_of,
    first_content,
    text_of,
    tokens_of,
    usages_of,
)
from tests.live.vllm_fixtures import KV_TOKENS, QUEUED, SLOTS
from tests.live.vllm_home import metric

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1000)]

LONG = "Write a long story about a lighthouse."
ON_AND_ON = {"ignore_eos": True, "temperature": 0}
SEVERAL_TOKENS = "õhtu 한국 🙂🏽"


@pytest.fixture(autouse=True)
def _loopback(socket_enabled: None) -> None:
    """Let the tests talk to the engine."""


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def engine(session: aiohttp.ClientSession, vllm_server: EmbeddedEngine) -> Engine:
    return create_engine(
        session,
        vllm_server.url,
        None,
        EngineKind.VLLM,
        scheduling=Scheduling.PRIORITY,
    )


def story(tokens: int, *, band: int = 0, about: str = "") -> GenerationRequest:
    """Return a request whose answer is just so many tokens long."""
    return ask(
        about + LONG, tokens, parameters=ON_AND_ON, origin=Origin(band, "fs-somebody")
    )


async def wait_idle(engine: Engine) -> None:
    """Ask the engine until it runs nothing."""
    async with asyncio.timeout(5):
        while (await engine.load()).running:
            pass


async def wait_deferred(engine: Engine, count: int) -> None:
    """Ask the engine until so many wait inside it."""
    async with asyncio.timeout(10):
        while (await engine.load()).deferred != count:
            pass


async def test_the_server_is_found_with_all_it_tells(
    session: aiohttp.ClientSession, vllm_server: EmbeddedEngine
) -> None:
    url = vllm_server.url
    found = await find_server(session, url.removeprefix("http://"))
    capabilities = found.capabilities
    assert (found.address, capabilities.kind) == (url, EngineKind.VLLM)
    assert (capabilities.slots, capabilities.context_tokens) == (None, 2048)
    assert (capabilities.kv_tokens, capabilities.block_tokens) == (KV_TOKENS, 32)
    assert (capabilities.counts_tokens, capabilities.vision) == (True, False)
    assert capabilities.survives_exhaustion
    assert capabilities.resume == Resume(ResumeWay.CONTINUE)


async def test_an_answer_streams_and_every_count_agrees(engine: Engine) -> None:
    request = story(60)
    deltas = await deltas_of(engine, request)
    (usage,) = usages_of(deltas)
    assert text_of(deltas)
    assert finishes_of(deltas) == ["length"]
    assert usage.output_tokens == tokens_of(deltas) == 60
    assert usage.prompt_tokens == await engine.count_tokens(request)
    assert not usage.estimated


async def test_a_prompt_with_tools_is_counted_with_them(engine: Engine) -> None:
    request = ask("Turn it on.", 1, tools=[TOOL])
    (usage,) = usages_of(await deltas_of(engine, request))
    assert usage.prompt_tokens == await engine.count_tokens(request)


async def test_pieces_of_several_tokens_are_charged_as_such(engine: Engine) -> None:
    grammar = {"structured_outputs": {"regex": SEVERAL_TOKENS}}
    deltas = await deltas_of(engine, ask(parameters=grammar))
    assert text_of(deltas) == SEVERAL_TOKENS
    (usage,) = usages_of(deltas)
    pieces = [delta for delta in deltas if isinstance(delta, Content)]
    assert len(pieces) < usage.output_tokens
    # The token that ends the answer has no text.
    assert tokens_of(deltas) in (usage.output_tokens, usage.output_tokens - 1)


async def test_whole_blocks_of_a_repeated_prompt_come_from_the_cache(
    engine: Engine,
) -> None:
    request = ask("Name the seven seas, one after the other. " * 12, 2)
    await deltas_of(engine, request)
    (usage,) = usages_of(await deltas_of(engine, request))
    assert usage.prompt_tokens is not None
    blocks = (usage.prompt_tokens - 1) // BLOCK_TOKENS
    assert usage.cached_tokens == blocks * BLOCK_TOKENS > 0


async def test_a_prompt_that_is_too_long_is_refused(engine: Engine) -> None:
    error = await error_of(deltas_of(engine, ask("word " * 3000)))
    assert isinstance(error, ContextOverflowError)
    assert error.status == 400


async def test_more_output_than_fits_is_cut_where_the_context_ends(
    engine: Engine,
) -> None:
    request = ask("word " * 1900, 500, parameters=ON_AND_ON)
    (usage,) = usages_of(deltas := await deltas_of(engine, request))
    assert (usage.prompt_tokens or 0) + usage.output_tokens == 2048
    assert finishes_of(deltas) == ["length"]


@pytest.mark.parametrize(
    "request_",
    [
        ask(model="nope"),
        ask(parameters={"temperature": "hot"}),
        ask(parameters={"structured_outputs": {"regex": "("}}),
        GenerationRequest(
            [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image_url",
                            "image_url": {"url": "data:image/png;base64,AAAA"},
                        }
                    ],
                }
            ],
            4,
        ),
    ],
    ids=["model", "parameter", "grammar", "picture"],
)
async def test_what_it_refuses_is_the_clients_fault(
    engine: Engine, request_: GenerationRequest
) -> None:
    error = await error_of(deltas_of(engine, request_))
    assert isinstance(error, ClientFaultError)
    assert error.dispensable == frozenset()


async def test_fields_that_it_does_not_know_are_ignored(engine: Engine) -> None:
    strange = {"cache_prompt": True, "return_progress": True, "of_nobody": 1}
    deltas = await deltas_of(engine, ask(tokens=4, parameters=strange))
    assert len(usages_of(deltas)) == 1


async def test_a_tool_is_called(engine: Engine) -> None:
    # A grammar stands in for a model that was trained to.
    call = (
        r'<tool_call>\n\{"name": "HassTurnOn", "arguments": \{"name": "lamp"\}\}\n'
        "</tool_call>"
    )
    request = ask(
        "Turn it on.",
        60,
        tools=[TOOL],
        parameters={"tool_choice": "auto", "structured_outputs": {"regex": call}},
    )
    deltas = await deltas_of(engine, request)
    (called,) = calls_of(deltas)
    assert (called.name, called.arguments) == ("HassTurnOn", {"name": "lamp"})
    assert finishes_of(deltas) == ["tool_calls"]
    assert text_of(deltas) == ""


async def test_leaving_frees_the_slot_at_once(engine: Engine) -> None:
    async with engine.stream(story(1500)) as deltas:
        await first_content(deltas)
        assert (await engine.load()).running == 1
    await wait_idle(engine)


async def test_who_waits_inside_and_leaves_is_not_computed(
    engine: Engine, vllm_server: EmbeddedEngine
) -> None:
    running = [asyncio.create_task(deltas_of(engine, story(800))) for _ in "ab"]
    waiting = asyncio.create_task(deltas_of(engine, story(800, about="Later. ")))
    await wait_deferred(engine, 1)
    read = await metric(vllm_server, "prompt_tokens_total")
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await wait_deferred(engine, 0)
    await asyncio.gather(*running)
    await wait_idle(engine)
    assert await metric(vllm_server, "prompt_tokens_total") == read


async def test_a_full_queue_of_its_own_is_no_fault_and_no_answer(
    engine: Engine,
) -> None:
    errors = await asyncio.gather(
        *(error_of(deltas_of(engine, story(60))) for _ in range(SLOTS + QUEUED + 8))
    )
    refused = [error for error in errors if error is not None]
    assert 0 < len(refused) < len(errors)
    assert {type(error) for error in refused} == {BusyError}
    assert not any(error.server_fault for error in refused)  # type: ignore[attr-defined]
    await wait_idle(engine)


async def test_a_queue_of_its_own_that_is_full_already_refuses_at_once(
    engine: Engine,
) -> None:
    async with (
        engine.stream(story(1000)) as one,
        engine.stream(story(1000, about="And two. ")) as other,
    ):
        await first_content(one)
        await first_content(other)
        waiting = [
            asyncio.create_task(deltas_of(engine, story(4)))
            for _ in range(QUEUED - SLOTS)
        ]
        await wait_deferred(engine, QUEUED - SLOTS)
        error = await error_of(deltas_of(engine, story(4)))
    assert isinstance(error, BusyError)
    assert error.status == 503
    answers = await asyncio.gather(*waiting)
    assert {finishes_of(deltas)[0] for deltas in answers} == {"length"}


async def test_the_more_urgent_of_those_who_wait_inside_overtakes(
    engine: Engine,
) -> None:
    order: list[str] = []

    async def answer(name: str, request: GenerationRequest) -> None:
        async with engine.stream(request) as deltas:
            await first_content(deltas)
            order.append(name)
            async for _ in deltas:
                pass

    running = [
        asyncio.create_task(answer("running", story(length, band=3)))
        for length in (600, 1000)
    ]
    await until(lambda: len(order) == SLOTS)
    patient = asyncio.create_task(answer("patient", story(4, band=3)))
    await wait_deferred(engine, 1)
    urgent = asyncio.create_task(answer("urgent", story(4, band=0)))
    await wait_deferred(engine, 2)
    await asyncio.gather(*running, patient, urgent)
    assert order == ["running", "running", "urgent", "patient"]


async def test_a_used_up_cache_is_noticed_and_loses_nothing(engine: Engine) -> None:
    before = (await engine.load()).preemptions
    lengths = [1100, 1300]
    answers: list[list[Delta]] = await asyncio.gather(
        *(deltas_of(engine, story(n, about=f"{n} ")) for n in lengths)
    )
    after = (await engine.load()).preemptions
    assert before is not None
    assert after is not None
    assert after > before
    counts = [usages_of(deltas)[0].output_tokens for deltas in answers]
    assert counts == [tokens_of(deltas) for deltas in answers] == lengths
