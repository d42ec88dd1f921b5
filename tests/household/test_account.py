"""What is charged where a server counts nothing itself."""

import asyncio

from homeassistant.core import Context, HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import Outcome, Workload
from custom_components.fair_share.engines.base import GenerationRequest, Usage
from custom_components.fair_share.household.generation import Ask
from custom_components.fair_share.household.runtime import Household
from tests.common import household_entry, member, server, set_up, until
from tests.fake_server import DONE, FakeServer, answer, chunk, raw, usage_chunk

WORDS = 600
LONG = " ".join(["word"] * WORDS)
"""The tokens of something shorter are not counted beforehand."""


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant, socket_enabled: None) -> None:
    """Load what every Home Assistant has loaded, and open the loopback."""
    assert await async_setup_component(hass, "homeassistant", {})


async def household_with(hass: HomeAssistant, fake: FakeServer) -> Household:
    """Run a household with Parent on this server."""
    entry = household_entry(
        server(fake.url, kind=fake.kind), member("parent", user_ids=("user_parent",))
    )
    await set_up(hass, entry)
    household: Household = entry.runtime_data
    return household


async def read(household: Household, text: str) -> list[Usage]:
    """Have something generated for Parent; return the final counts."""
    asker = household.identity.resolve(Context(user_id="user_parent"), None, None)
    request = GenerationRequest([{"role": "user", "content": text}], 64)
    async with household.generate(Ask(asker, Workload.CHAT, request)) as deltas:
        return [delta async for delta in deltas if isinstance(delta, Usage)]


@pytest.mark.parametrize("kind", ["llama_cpp", "vllm"])
async def test_without_any_count_the_measured_prompt_and_the_pieces_are_charged(
    hass: HomeAssistant, kind: str
) -> None:
    """See llama.cpp #12102, vLLM #7299."""
    async with FakeServer(kind) as fake:
        household = await household_with(hass, fake)
        pieces = [chunk({"content": "one"}), chunk({"content": " two"})]
        fake.script(raw(*pieces, chunk({}, "stop"), DONE))
        await read(household, LONG)
        record = household.records()[-1]
        assert record.tokens.uncached == fake.count_prompt(fake.chats[-1].body)
        assert record.tokens.output == 2
        assert record.estimated


@pytest.mark.parametrize("kind", ["llama_cpp", "vllm", "openai_compatible"])
async def test_without_usage_the_prompt_is_charged_too(
    hass: HomeAssistant, kind: str
) -> None:
    async with FakeServer(kind) as fake:
        household = await household_with(hass, fake)
        fake.script(answer("one", " two", usage=False))
        (usage,) = await read(household, LONG)
        record = household.records()[-1]
        assert record.tokens.uncached > WORDS
        assert record.tokens.output == 2
        assert usage.prompt_tokens == record.tokens.uncached


async def test_a_prompt_that_the_server_cannot_have_read_is_not_charged(
    hass: HomeAssistant,
) -> None:
    async with FakeServer() as fake:
        household = await household_with(hass, fake)
        huge = {"total": 10**8, "cache": 0, "processed": 10**8}
        fake.script(
            raw(
                chunk({}, prompt_progress=huge),
                chunk({"content": "hi"}, "stop"),
                usage_chunk(10**8, 10**8),
                DONE,
            )
        )
        (usage,) = await read(household, LONG)
        record = household.records()[-1]
        expected = fake.count_prompt(fake.chats[-1].body)
        assert usage == Usage(expected, 0, 1, estimated=True)
        assert (record.tokens.prompt, record.tokens.output) == (expected, 1)
        assert record.estimated


async def test_more_from_the_cache_than_there_was_makes_no_negative_charge(
    hass: HomeAssistant,
) -> None:
    async with FakeServer() as fake:
        household = await household_with(hass, fake)
        progress = {"total": 5, "cache": 9999, "processed": 5}
        fake.script(
            raw(
                chunk({}, prompt_progress=progress),
                chunk({"content": "hi"}, "stop"),
                usage_chunk(10, 5, 500),
                DONE,
            )
        )
        await read(household, "hello")
        assert household.records()[-1].tokens.uncached == 0
        assert household.node_status("parent").charge > 0


@pytest.mark.parametrize("kind", ["llama_cpp", "vllm", "openai_compatible"])
async def test_who_leaves_an_answer_pays_for_the_whole_prompt_and_what_came(
    hass: HomeAssistant, kind: str
) -> None:
    """See LiteLLM #17364."""
    async with FakeServer(kind) as fake:
        household = await household_with(hass, fake)
        fake.default = answer("one", " two", asyncio.Event(), " three")
        running = asyncio.create_task(read(household, LONG))
        await until(lambda: household.node_status("parent").tokens.output == 2)
        running.cancel()
        await until(running.done)
        record = household.records()[-1]
        assert record.outcome is Outcome.CANCELLED
        assert record.tokens.uncached > WORDS
        assert record.tokens.output == 2
        assert household.node_status("parent").charge == record.charge
