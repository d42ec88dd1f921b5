"""Households on fake servers, and the time that passes in them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from homeassistant.config_entries import SOURCE_REAUTH
from homeassistant.core import Context, HomeAssistant
from homeassistant.helpers import issue_registry as ir
from homeassistant.util import dt as dt_util
import pytest
from pytest_homeassistant_custom_component.common import (
    MockConfigEntry,
    async_fire_time_changed,
)

from custom_components.fair_share.admission.model import Workload
from custom_components.fair_share.engines.base import Content, GenerationRequest
from custom_components.fair_share.household.generation import Ask
from custom_components.fair_share.household.runtime import Household
from custom_components.fair_share.household.servers import ServerView, WatchedServer
from tests.common import household_entry, member, server, set_up
from tests.fake_server import FakeServer

type Pass = Callable[[float], Awaitable[None]]
type Asking = Callable[..., asyncio.Task[str]]


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
def asking(hass: HomeAssistant) -> Iterator[Asking]:
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


async def home(hass: HomeAssistant, fake: FakeServer, **data: Any) -> MockConfigEntry:
    """Run a household with Parent on this server."""
    entry = household_entry(
        server(fake.url, kind=fake.kind, **data),
        member("parent", user_ids=("user_parent",)),
    )
    await set_up(hass, entry)
    return entry


def view(entry: MockConfigEntry) -> ServerView:
    """Return what the household knows of its only server."""
    household: Household = entry.runtime_data
    (only,) = household.servers.statuses()
    return only


def watched(entry: MockConfigEntry) -> WatchedServer:
    """Return the server that is watched."""
    household: Household = entry.runtime_data
    return household.servers.get("server")


def usable(entry: MockConfigEntry) -> list[bool]:
    """Return of every server in the queue whether it may be sent something."""
    return [status.usable for status in entry.runtime_data.status().servers]


def change(hass: HomeAssistant, entry: MockConfigEntry, **data: Any) -> None:
    """Change the data of the server."""
    known = entry.subentries["server"]
    hass.config_entries.async_update_subentry(
        entry, known, data=MappingProxyType({**known.data, **data})
    )


def reauths(hass: HomeAssistant) -> int:
    """Return how many dialogs ask for a key, and check that each has its issue."""
    flows = hass.config_entries.flow.async_progress()
    asked = [f for f in flows if f["context"]["source"] == SOURCE_REAUTH]
    issues = [i for i in ir.async_get(hass).issues if "reauth" in i[1]]
    assert len(issues) == len(asked)
    return len(asked)
