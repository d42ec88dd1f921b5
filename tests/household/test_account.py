"""What is charged where a server counts nothing itself."""

import asyncio

from homeassistant.core import Context, HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import Outcome, Workload
from custom_components.fair_share.engines.base import GenerationRequest
from custom_components.fair_share.household.generation import Ask
from custom_components.fair_share.household.runtime import Household
from tests.common import household_entry, member, server, set_up, until
from tests.fake_server import DONE, FakeServer, answer, chunk, raw


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


async def read(household: Household, text: str) -> None:
    """Have something generated for Parent."""
    asker = household.identity.resolve(Context(user_id="user_parent"), None, None)
    request = GenerationRequest([{"role": "user", "content": text}], 64)
    async with household.generate(Ask(asker, Workload.CHAT, request)) as deltas:
        async for _ in deltas:
            pass


@pytest.mark.parametrize("kind", ["llama_cpp", "vllm"])
async def test_without_any_count_the_measured_prompt_and_the_pieces_are_charged(
    hass: HomeAssistant, kind: str
) -> None:
    """See llama.cpp #12102, vLLM #7299."""
    async with FakeServer(kind) as fake:
        household = await household_with(hass, fake)
        pieces = [chunk({"content": "one"}), chunk({"content": " two"})]
        fake.script(raw(*pieces, chunk({}, "stop"), DONE))
        await read(household, " ".join(["word"] * 40))
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
        await read(household, " ".join(["word"] * 40))
        record = household.records()[-1]
        assert record.tokens.uncached > 40
        assert record.tokens.output == 2


@pytest.mark.parametrize("kind", ["llama_cpp", "vllm", "openai_compatible"])
async def test_who_leaves_an_answer_pays_for_the_whole_prompt_and_what_came(
    hass: HomeAssistant, kind: str
) -> None:
    """See LiteLLM #17364."""
    async with FakeServer(kind) as fake:
        household = await household_with(hass, fake)
        fake.default = answer("one", " two", asyncio.Event(), " three")
        running = asyncio.create_task(read(household, " ".join(["word"] * 40)))
        await until(lambda: household.node_status("parent").tokens.output == 2)
        running.cancel()
        await until(running.done)
        record = household.records()[-1]
        assert record.outcome is Outcome.CANCELLED
        assert record.tokens.uncached > 40
        assert record.tokens.output == 2
        assert household.node_status("parent").charge == record.charge
