"""Households in front of a real vLLM."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from homeassistant.core import HomeAssistant

from custom_components.fair_share.const import CONF_PATIENT_SLOTS, CONF_SLOTS
from custom_components.fair_share.engines.prometheus import total
from custom_components.fair_share.household.runtime import Household
from demo.embedded_engine import EmbeddedEngine
from tests.common import household_entry, member, server, set_up, until

LENGTHS = (700, 1000)
"""Tokens of two answers for which there is room at once, for long enough to act.

The second goes on for a while after the first has made room.
"""


@asynccontextmanager
async def home(
    hass: HomeAssistant, engine: EmbeddedEngine, *, slots: int = 2, **data: Any
) -> AsyncIterator[Household]:
    """Run a household of two members with this engine as its server.

    Work that is not urgent may take all of its slots.
    """
    declared = {CONF_SLOTS: slots, CONF_PATIENT_SLOTS: slots, "model": "tiny"}
    entry = household_entry(
        server(engine.url, kind="vllm", **declared, **data),
        *(member(name, user_ids=(f"user_{name}",)) for name in ("parent", "child")),
    )
    await set_up(hass, entry)
    household: Household = entry.runtime_data
    await until(lambda: bool(list(household.servers.ready())))
    yield household
    await hass.config_entries.async_unload(entry.entry_id)


async def metric(engine: EmbeddedEngine, name: str) -> float:
    """Return one of the engine's metrics."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{engine.url}/metrics") as response,
    ):
        value = total(await response.text(), f"vllm:{name}")
    assert value is not None
    return value


async def sent(household: Household, engine: EmbeddedEngine, count: int) -> None:
    """Wait until so many requests are with the engine."""
    await until(lambda: household.status().running == count)
    # What it is asked after them it answers after it has taken them in.
    await metric(engine, "num_requests_waiting")
