"""Requests that reach a server past the queue: seen, shown, taken off, forgotten."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
import logging

import aiohttp
from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.fair_share.household.runtime import Household
from tests.fake_server import FakeServer, answer
from tests.household.conftest import Asking, Pass, home, view

_TICK_S = 2.1


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant) -> None:
    """Load what every Home Assistant has loaded."""
    assert await async_setup_component(hass, "homeassistant", {})


@asynccontextmanager
async def past_the_queue(fake: FakeServer, count: int = 1) -> AsyncIterator[None]:
    """Talk to the server itself for as long as the block lasts."""
    body = {"messages": [{"role": "user", "content": "hello"}], "stream": True}
    no_limit = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=no_limit) as session:

        async def chat() -> None:
            url = f"{fake.url}/v1/chat/completions"
            async with session.post(url, json=body) as response:
                await response.read()

        before, sent_before = fake.default, len(fake.chats)
        fake.default = answer("one", asyncio.Event())
        chats = [asyncio.ensure_future(chat()) for _ in range(count)]
        await fake.wait_chats(sent_before + count)
        fake.default = before
        yield
        for each in chats:
            each.cancel()
        await asyncio.gather(*chats, return_exceptions=True)


async def ticks(passes: Pass, condition: Callable[[], bool]) -> None:
    """Let the time of polls go by until the condition holds."""
    async with asyncio.timeout(20):
        while not condition():
            await passes(_TICK_S)
            await asyncio.sleep(0.005)


async def polls(fake: FakeServer, passes: Pass, count: int) -> None:
    """Let so many polls be answered."""
    before = _polls(fake)
    await ticks(passes, lambda: _polls(fake) >= before + count)


def _polls(fake: FakeServer) -> int:
    return sum(request.path == "/metrics" for request in fake.requests)


def planned(household: Household) -> float:
    """Return which part of a server's memory is planned with."""
    return household.queue.scheduler._board.servers["server"].commitment  # noqa: SLF001


def shows(entry: MockConfigEntry, foreign: int | None) -> Callable[[], bool]:
    """Return whether so much is known to come from elsewhere."""
    return lambda: view(entry).foreign == foreign


async def test_who_talks_past_the_queue_takes_a_slot_until_they_leave(
    hass: HomeAssistant,
    fake: FakeServer,
    passes: Pass,
    asking: Asking,
    caplog: pytest.LogCaptureFixture,
) -> None:
    entry = await home(hass, fake)
    household: Household = entry.runtime_data
    assert view(entry).foreign is None
    with caplog.at_level(logging.INFO):
        async with past_the_queue(fake):
            await ticks(passes, shows(entry, 1))
            assert household.status().servers[0].foreign == 1
            fake.default = answer("ours", asyncio.Event())
            for _ in range(2):
                asking(household)
            await ticks(passes, lambda: household.status().running == 1)
            await polls(fake, passes, 3)
            assert (household.status().running, household.status().waiting) == (1, 1)
            assert (view(entry).foreign, fake.deferred) == (1, 0)
        await ticks(passes, shows(entry, 0))
        await ticks(passes, lambda: household.status().running == 2)
    assert caplog.text.count("past the queue") == 2


async def test_our_own_are_never_foreign(
    hass: HomeAssistant, fake: FakeServer, passes: Pass, asking: Asking
) -> None:
    entry = await home(hass, fake)
    fake.default = answer("ours", asyncio.Event())
    tasks = [asking(entry.runtime_data) for _ in range(3)]
    await polls(fake, passes, 4)
    assert view(entry).foreign == 0
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await polls(fake, passes, 4)
    assert view(entry).foreign == 0


async def test_one_of_ours_always_gets_its_turn_among_them(
    hass: HomeAssistant, fake: FakeServer, passes: Pass, asking: Asking
) -> None:
    entry = await home(hass, fake)
    async with past_the_queue(fake, count=3):
        await ticks(passes, shows(entry, 3))
        waits = asking(entry.runtime_data)
        await ticks(passes, lambda: entry.runtime_data.status().running == 1)
        await polls(fake, passes, 3)
        assert view(entry).foreign == 3
    assert await waits == "Hello from the fake"


async def test_a_server_that_does_not_answer_is_taken_to_be_free_after_a_while(
    hass: HomeAssistant,
    fake: FakeServer,
    passes: Pass,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = await home(hass, fake)
    household: Household = entry.runtime_data
    async with past_the_queue(fake):
        await ticks(passes, shows(entry, 1))
        fake.silent = True
        now = household.queue.clock.monotonic()
        clock = household.queue.clock
        asked = _polls(fake)
        await ticks(passes, lambda: _polls(fake) > asked)
        await passes(_TICK_S)
        assert _polls(fake) == asked + 1
        assert household.status().servers[0].foreign == 1
        monkeypatch.setattr(clock, "monotonic", lambda: now + 31)
        await passes(9)
        await ticks(passes, shows(entry, None))
        assert household.status().servers[0].foreign == 0
        fake.silent = False


async def test_a_server_that_tells_nothing_is_not_known_to_have_any(
    hass: HomeAssistant, socket_enabled: None, passes: Pass, asking: Asking
) -> None:
    async with FakeServer("openai_compatible") as fake:
        entry = await home(hass, fake)
        async with past_the_queue(fake):
            asked = len(fake.requests)
            await ticks(passes, lambda: len(fake.requests) > asked + 1)
            assert view(entry).foreign is None
            assert await asking(entry.runtime_data) == "Hello from the fake"


async def test_memory_that_others_hold_is_not_given_away(
    hass: HomeAssistant, socket_enabled: None, passes: Pass, asking: Asking
) -> None:
    async with FakeServer(slots=2, context_tokens=100, kv_tokens=100) as fake:
        entry = await home(hass, fake)
        household: Household = entry.runtime_data
        async with past_the_queue(fake):
            received = fake.chats[-1]
            received.kv_tokens = 60
            await ticks(passes, shows(entry, 1))
            waits = asking(household)
            await polls(fake, passes, 2)
            assert (household.status().running, household.status().waiting) == (0, 1)
        await ticks(passes, shows(entry, 0))
        assert await waits == "Hello from the fake"


async def test_a_server_that_was_started_with_other_slots_is_noticed_by_itself(
    hass: HomeAssistant, fake: FakeServer, passes: Pass
) -> None:
    """See llama.cpp #11681."""
    entry = await home(hass, fake)
    household: Household = entry.runtime_data
    fake.slots, fake.context_tokens = 1, 512
    await ticks(passes, lambda: household.status().servers[0].slots == 1)
    assert household.context_limit() == 512


async def test_what_an_engine_threw_out_is_planned_with_and_a_restart_is_not(
    hass: HomeAssistant, socket_enabled: None, passes: Pass
) -> None:
    async with FakeServer("vllm", kv_tokens=1000) as fake:
        entry = await home(hass, fake, slots=2)
        household: Household = entry.runtime_data
        before = planned(household)
        fake.preemptions = 5
        await polls(fake, passes, 2)
        assert planned(household) == before
        fake.preemptions = 7
        await polls(fake, passes, 2)
        less = planned(household)
        assert less == pytest.approx(before - 0.02)
        fake.preemptions = 1
        await polls(fake, passes, 2)
        assert planned(household) == less
