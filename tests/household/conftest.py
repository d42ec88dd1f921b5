"""Households on fake servers, and the time that passes in them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta

from homeassistant.core import Context, HomeAssistant
from homeassistant.util import dt as dt_util
import pytest
from pytest_homeassistant_custom_component.common import async_fire_time_changed

from custom_components.fair_share.admission.model import Workload
from custom_components.fair_share.engines.base import Content, GenerationRequest
from custom_components.fair_share.household.generation import Ask
from custom_components.fair_share.household.runtime import Household
from tests.fake_server import FakeServer

type Pass = Callable[[float], Awaitable[None]]


@pytest.fixture
def passes(hass: HomeAssistant) -> Pass:
    """Let every timer fire that is due within so many seconds."""

    async def passes(seconds: float) -> None:
        async_fire_time_changed(hass, dt_util.utcnow() + timedelta(seconds=seconds))
        await hass.async_block_till_done()

    return passes


@pytest.fixture
async def fake(socket_enabled: None) -> AsyncIterator[FakeServer]:
    """A llama.cpp server with two slots."""
    async with FakeServer("llama_cpp", slots=2, context_tokens=4096) as server:
        yield server


@pytest.fixture
def asking(hass: HomeAssistant) -> Iterator[Callable[..., asyncio.Task[str]]]:
    """Have something asked in the background; what is left over is cancelled."""
    tasks: list[asyncio.Task[str]] = []

    def asking(
        household: Household, text: str = "hello", user: str = "user_parent"
    ) -> asyncio.Task[str]:
        task = asyncio.ensure_future(say(household, text, user))
        tasks.append(task)
        return task

    yield asking
    for task in tasks:
        task.cancel()


async def say(
    household: Household, text: str = "hello", user: str = "user_parent"
) -> str:
    """Ask as a user; return the text of the answer."""
    asker = household.identity.resolve(Context(user_id=user), None, None)
    request = GenerationRequest([{"role": "user", "content": text}], 64)
    async with household.generate(Ask(asker, Workload.CHAT, request)) as deltas:
        return "".join([d.text async for d in deltas if isinstance(d, Content)])
