"""The household's queue in front of a real llama.cpp server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from homeassistant.core import Context, HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import Outcome, Workload
from custom_components.fair_share.engines.base import (
    Delta,
    EngineError,
    EngineKind,
    Finish,
    GenerationRequest,
    Usage,
)
from custom_components.fair_share.engines.probe import create_engine
from custom_components.fair_share.engines.prometheus import total
from custom_components.fair_share.household.generation import Ask
from custom_components.fair_share.household.runtime import Household
from demo.embedded_engine import EmbeddedEngine, embedded_engine as run_engine
from tests.common import household_entry, member, server, set_up, until

pytestmark = pytest.mark.live

MEMBERS = ("one", "two", "three")
STORY = "Tell me a long story about a lighthouse, a storm and a small boat. "


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant, socket_enabled: None) -> None:
    """Load what every Home Assistant has loaded, and open the loopback."""
    assert await async_setup_component(hass, "homeassistant", {})


@asynccontextmanager
async def home(hass: HomeAssistant, engine: EmbeddedEngine) -> AsyncIterator[Household]:
    """Run a household of three with this engine as its server."""
    entry = household_entry(
        server(engine.url),
        *(member(name, user_ids=(f"user_{name}",)) for name in MEMBERS),
    )
    await set_up(hass, entry)
    household: Household = entry.runtime_data
    await until(lambda: bool(list(household.servers.ready())))
    yield household
    await hass.config_entries.async_unload(entry.entry_id)


def usages(answers: list[list[Delta]]) -> list[Usage]:
    """Return the final count of each answer."""
    return [each for answer in answers for each in answer if isinstance(each, Usage)]


def story(output_tokens: int, *, prompts: int = 1) -> GenerationRequest:
    """Return a request whose answer is just so many tokens long."""
    return GenerationRequest(
        [{"role": "user", "content": STORY * prompts}],
        output_tokens,
        parameters={"ignore_eos": True, "temperature": 0},
    )


async def read(
    household: Household, name: str, request: GenerationRequest
) -> list[Delta]:
    """Let a member ask; return the whole answer."""
    asker = household.identity.resolve(Context(user_id=f"user_{name}"), None, None)
    async with household.generate(Ask(asker, Workload.CHAT, request)) as deltas:
        return [delta async for delta in deltas]


async def metric(engine: EmbeddedEngine, name: str) -> float:
    """Return one of the engine's own counters."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{engine.url}/metrics") as response,
    ):
        value = total(await response.text(), f"llamacpp:{name}")
    assert value is not None, name
    return value


@asynccontextmanager
async def watching(engine: EmbeddedEngine, name: str) -> AsyncIterator[list[float]]:
    """Sample one of the engine's gauges for as long as the block lasts."""
    seen: list[float] = []

    async def watch() -> None:
        while True:
            seen.append(await metric(engine, name))
            await asyncio.sleep(0.05)

    task = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_six_clients_on_two_slots_never_wait_inside_the_engine(
    hass: HomeAssistant, embedded_engine: EmbeddedEngine
) -> None:
    async with (
        home(hass, embedded_engine) as household,
        watching(embedded_engine, "requests_deferred") as deferred,
        watching(embedded_engine, "requests_processing") as processing,
    ):
        answers = await asyncio.gather(
            *(read(household, name, story(16)) for name in MEMBERS * 2)
        )
        counts = usages(answers)
        assert [count.output_tokens for count in counts] == [16] * 6
        assert not any(count.estimated for count in counts)
        assert set(deferred) == {0}
        assert 1 <= max(processing) <= 2
        served = household.node_status("household").tokens
        assert served.output == 16 * 6
        assert served.prompt == sum(count.prompt_tokens for count in counts)


async def test_a_client_that_leaves_the_queue_never_reaches_the_engine(
    hass: HomeAssistant, embedded_engine: EmbeddedEngine
) -> None:
    async with home(hass, embedded_engine) as household:
        running = [
            asyncio.create_task(read(household, name, story(40)))
            for name in MEMBERS[:2]
        ]
        await until(lambda: household.status().running == 2)
        before = await metric(embedded_engine, "prompt_tokens_total")
        leaving = asyncio.create_task(read(household, "three", story(40, prompts=20)))
        await until(lambda: household.status().waiting == 1)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert household.status().waiting == 0
        answers = await asyncio.gather(*running)
        after = await metric(embedded_engine, "prompt_tokens_total")
        assert after - before <= sum(count.prompt_tokens for count in usages(answers))
        outcomes = sorted(record.outcome for record in household.records())
        assert outcomes == [Outcome.CANCELLED, Outcome.FINISHED, Outcome.FINISHED]


async def test_three_answers_that_exhaust_a_pool_all_finish_through_the_queue(
    hass: HomeAssistant,
) -> None:
    request = story(260, prompts=8)
    async with run_engine(slots=3, context_tokens=1024, unified=True) as engine:
        direct = await asyncio.gather(
            *(read_directly(engine, request) for _ in MEMBERS), return_exceptions=True
        )
        assert any(isinstance(each, EngineError) for each in direct)
        async with home(hass, engine) as household:
            answers = await asyncio.gather(
                *(read(household, name, request) for name in MEMBERS)
            )
    assert [isinstance(answer[-1], Finish) for answer in answers] == [True] * 3
    assert [count.output_tokens for count in usages(answers)] == [260] * 3


async def read_directly(
    engine: EmbeddedEngine, request: GenerationRequest
) -> list[Delta]:
    """Ask the engine itself, past the queue."""
    async with aiohttp.ClientSession() as session:
        client = create_engine(session, engine.url, None, EngineKind.LLAMA_CPP)
        async with client.stream(request) as deltas:
            return [delta async for delta in deltas]
