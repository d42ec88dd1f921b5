"""Somebody talks to a real llama.cpp server past the household's queue."""

import asyncio

import aiohttp
from homeassistant.core import Context, HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import Workload
from custom_components.fair_share.engines.base import EngineKind, GenerationRequest
from custom_components.fair_share.engines.probe import create_engine
from custom_components.fair_share.household.generation import Ask
from custom_components.fair_share.household.runtime import Household
from demo.embedded_engine import EmbeddedEngine
from tests.common import household_entry, member, server, set_up, until

pytestmark = pytest.mark.live


def story(output_tokens: int) -> GenerationRequest:
    """Return a request whose answer is just so many tokens long."""
    return GenerationRequest(
        [{"role": "user", "content": "Tell me a long story about a lighthouse."}],
        output_tokens,
        parameters={"ignore_eos": True, "temperature": 0},
    )


async def read(household: Household) -> int:
    """Let Parent ask; return how many deltas came."""
    asker = household.identity.resolve(Context(user_id="user_parent"), None, None)
    async with household.generate(Ask(asker, Workload.CHAT, story(1200))) as deltas:
        return len([delta async for delta in deltas])


async def test_who_talks_past_the_queue_takes_one_slot_while_they_do(
    hass: HomeAssistant, socket_enabled: None, embedded_engine: EmbeddedEngine
) -> None:
    assert await async_setup_component(hass, "homeassistant", {})
    entry = household_entry(
        server(embedded_engine.url), member("parent", user_ids=("user_parent",))
    )
    await set_up(hass, entry)
    household: Household = entry.runtime_data
    await until(lambda: bool(list(household.servers.ready())))
    watched = household.servers.get("server")

    async with aiohttp.ClientSession() as session:
        past = create_engine(session, embedded_engine.url, None, EngineKind.LLAMA_CPP)
        ours = [asyncio.create_task(read(household))]
        async with past.stream(story(1500)) as deltas:
            await anext(aiter(deltas))
            await until(lambda: watched.foreign == 1, limit_s=60)
            ours.append(asyncio.create_task(read(household)))
            await until(lambda: household.status().waiting == 1)
            (placed,) = household.status().servers
            assert (placed.slots, placed.running, placed.foreign) == (2, 1, 1)
            assert (await past.load()).deferred == 0

    await until(lambda: watched.foreign == 0, limit_s=60)
    await until(lambda: household.status().waiting == 0, limit_s=60)
    for task in ours:
        task.cancel()
    await asyncio.gather(*ours, return_exceptions=True)
    await hass.config_entries.async_unload(entry.entry_id)
