"""Servers that fail, and requests that make them: who is left out, and for how long."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
import random
from typing import Any

from homeassistant.core import Context, HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import (
    Rejected,
    RejectReason,
    Workload,
)
from custom_components.fair_share.engines.base import (
    Content,
    GenerationRequest,
    ServerFaultError,
)
from custom_components.fair_share.household.generation import Ask
from custom_components.fair_share.household.runtime import Household
from custom_components.fair_share.household.servers import ServerState
from tests.common import household_entry, member, server, set_up, until
from tests.continuing_engine import ContinuingServer
from tests.fake_replies import Reply
from tests.fake_server import DROP, RESET, FakeServer, answer, failure
from tests.household.conftest import Pass

BROKEN = failure(500, "CUDA error", "server_error")
LOADING = failure(503, "Loading model", "unavailable_error")
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant, socket_enabled: None) -> None:
    """Load what every Home Assistant has loaded, and open the loopback."""
    assert await async_setup_component(hass, "homeassistant", {})


@asynccontextmanager
async def home(hass: HomeAssistant, *fakes: FakeServer) -> AsyncIterator[Household]:
    """Run a household with Parent on these servers."""
    entry = household_entry(
        *(
            server(fake.url, subentry_id=f"server_{number}", kind=fake.kind)
            for number, fake in enumerate(fakes)
        ),
        member("parent", user_ids=("user_parent",)),
    )
    await set_up(hass, entry)
    yield entry.runtime_data
    await hass.config_entries.async_unload(entry.entry_id)


async def say(
    household: Household,
    content: object = "hello",
    servers: frozenset[str] | None = None,
    **fields: Any,
) -> str:
    """Ask something, of one of these servers; return the text of the answer."""
    asker = household.identity.resolve(Context(user_id="user_parent"), None, None)
    request = GenerationRequest([{"role": "user", "content": content}], 60, **fields)
    ask = Ask(asker, Workload.CHAT, request, servers=servers)
    async with household.generate(ask) as deltas:
        return "".join([d.text async for d in deltas if isinstance(d, Content)])


def state(household: Household, server_id: str = "server_0") -> ServerState:
    """Return what is known of a server."""
    return household.servers.get(server_id).state


async def test_a_server_that_fails_at_once_does_not_attract_the_household(
    hass: HomeAssistant, passes: Pass
) -> None:
    async with (
        FakeServer() as broken,
        FakeServer() as sound,
        home(hass, broken, sound) as household,
    ):
        broken.default, sound.default = BROKEN, answer("sound")
        sent_before, number, elapsed_s = len(broken.chats), 0, 0.0
        watched = household.servers.get("server_0")
        while elapsed_s < 600:
            asked = range(number, number + 4)
            number += 4
            said = await asyncio.gather(*(say(household, f"no {n}") for n in asked))
            assert said == ["sound"] * 4
            # Time must not go by in the middle of a probe.
            await asyncio.sleep(0.05)
            await until(lambda: not watched.checking)
            pause_s = max(10.0, watched.left_out_for_s())
            elapsed_s += pause_s
            await passes(pause_s)
            await until(lambda: watched.state is ServerState.READY)
        assert 2 <= len(broken.chats) - sent_before <= 12


async def test_a_request_that_breaks_every_server_is_told_and_disturbs_nobody(
    hass: HomeAssistant,
) -> None:
    def reply(body: Mapping[str, Any]) -> Reply:
        return {True: BROKEN, False: answer("fine")}["poison" in str(body)]

    async with (
        FakeServer() as one,
        FakeServer() as two,
        home(hass, one, two) as household,
    ):
        one.default = two.default = reply
        sent_before = len(one.chats) + len(two.chats)
        for _ in range(3):
            with pytest.raises(ServerFaultError, match="CUDA error"):
                await say(household, "poison")
        assert len(one.chats) + len(two.chats) == sent_before + 6
        assert [s.usable for s in household.status().servers] == [True, True]
        assert await say(household) == "fine"


async def test_the_second_try_is_on_another_server_even_if_the_first_is_preferred(
    hass: HomeAssistant,
) -> None:
    async with (
        FakeServer() as one,
        FakeServer() as two,
        home(hass, one, two) as household,
    ):
        sent = [len(one.chats), len(two.chats)]
        one.default = two.default = BROKEN
        with pytest.raises(ServerFaultError):
            await say(household)
        assert [len(one.chats), len(two.chats)] == [sent[0] + 1, sent[1] + 1]


async def test_a_server_that_failed_twice_is_left_out_tried_and_trusted_again(
    hass: HomeAssistant, passes: Pass
) -> None:
    async with FakeServer() as fake, home(hass, fake) as household:
        fake.script(BROKEN, BROKEN, BROKEN)
        with pytest.raises(ServerFaultError):
            await say(household, "one")
        assert state(household) is ServerState.READY
        waits = asyncio.ensure_future(say(household, "two"))
        await until(lambda: state(household) is ServerState.FAILING)
        assert household.servers.get("server_0").view().detail
        assert household.status().waiting == 1
        await passes(6)
        assert await waits == "Hello from the fake"
        assert state(household) is ServerState.READY
        assert household.servers.get("server_0").left_out_for_s() == 0


async def test_a_server_that_says_it_is_loading_keeps_what_was_sent_to_it(
    hass: HomeAssistant, passes: Pass
) -> None:
    """Its list of models and its health are there before the model is."""
    async with FakeServer() as fake, home(hass, fake) as household:
        fake.script(*[LOADING] * 6)
        sent_before = len(fake.chats)
        waits = asyncio.ensure_future(say(household))
        for count in range(1, 7):
            await until(lambda n=count: len(fake.chats) >= sent_before + n)
            await until(lambda: state(household) is ServerState.LOADING)
            await passes(2)
        assert await waits == "Hello from the fake"
        assert household.servers.get("server_0").left_out_for_s() == 0


async def test_an_answer_in_the_middle_waits_for_its_server_to_load_again(
    hass: HomeAssistant, passes: Pass
) -> None:
    words = [f" w{number}" for number in range(20)]
    fake = ContinuingServer(slots=1, pieces=["ok"])
    async with fake, home(hass, fake) as household:
        fake.pieces = [*words[:9], asyncio.Event(), *words[9:]]
        waits = asyncio.ensure_future(say(household))
        await until(lambda: household.node_status("parent").tokens.output == 9)
        await fake.stop()
        await until(lambda: state(household) is ServerState.UNREACHABLE)
        fake.loading = True
        await fake.start()
        await passes(6)
        await until(lambda: state(household) is ServerState.LOADING)
        assert household.status().waiting == 1
        fake.loading = False
        await passes(2)
        assert await waits == "".join(words)
        assert household.status().running == 0


async def test_what_names_a_model_goes_only_where_it_is_also_after_a_failure(
    hass: HomeAssistant, passes: Pass
) -> None:
    async with (
        FakeServer(models=("small",)) as small,
        FakeServer(models=("large",)) as large,
        home(hass, small, large) as household,
    ):
        large.default = answer("large")
        assert await say(household, model="large") == "large"
        await large.stop()
        sent_before = len(small.chats)
        waits = asyncio.ensure_future(say(household, model="large"))
        await until(lambda: state(household, "server_1") is ServerState.UNREACHABLE)
        assert await say(household) == "Hello from the fake"
        assert len(small.chats) == sent_before + 1
        await large.start()
        await passes(6)
        assert await waits == "large"
        assert len(small.chats) == sent_before + 1


async def test_a_picture_is_refused_unsent_where_nobody_can_see(
    hass: HomeAssistant,
) -> None:
    """See home-assistant/core #180168."""
    async with FakeServer() as fake, home(hass, fake) as household:
        asked_before = len(fake.requests)
        with pytest.raises(Rejected) as refusal:
            await say(household, [PICTURE])
        assert refusal.value.reason is RejectReason.NO_VISION
        assert len(fake.requests) == asked_before
        assert household.status().waiting == 0


async def test_what_is_meant_for_one_server_goes_nowhere_else(
    hass: HomeAssistant,
) -> None:
    seeing = FakeServer()
    seeing.vision = True
    async with FakeServer() as blind, seeing, home(hass, blind, seeing) as household:
        sent = [len(blind.chats), len(seeing.chats)]
        for content, server_id in (("hello", "server_0"), ([PICTURE], "server_1")):
            only = frozenset({server_id})
            assert await say(household, content, only) == "Hello from the fake"
        assert [len(blind.chats), len(seeing.chats)] == [sent[0] + 1, sent[1] + 1]
        with pytest.raises(Rejected) as refusal:
            await say(household, [PICTURE], frozenset({"server_0"}))
        assert refusal.value.reason is RejectReason.NO_SERVER


async def test_a_picture_waits_for_the_server_that_could_see(
    hass: HomeAssistant, passes: Pass
) -> None:
    seeing = FakeServer()
    seeing.vision = True
    async with FakeServer() as blind, seeing, home(hass, blind, seeing) as household:
        seeing.default = answer("a cat")
        await seeing.stop()
        household.servers.get("server_1").look_again()
        await until(lambda: state(household, "server_1") is ServerState.UNREACHABLE)
        waits = asyncio.ensure_future(say(household, [PICTURE]))
        await until(lambda: household.status().waiting == 1)
        await seeing.start()
        await passes(6)
        assert await waits == "a cat"


async def test_after_fifty_ends_of_every_kind_all_is_given_back(
    hass: HomeAssistant, passes: Pass
) -> None:
    chance = random.Random(4)
    gate = asyncio.Event()
    kinds: list[Reply] = [
        answer("whole"),
        answer("held", gate, "."),
        answer("cut", DROP),
        answer("reset", RESET),
        answer(RESET),
        BROKEN,
        LOADING,
        failure(400, "Failed to parse grammar", "invalid_request_error"),
        failure(429, "busy", "rate_limit"),
    ]
    async with (
        FakeServer() as one,
        FakeServer() as two,
        home(hass, one, two) as household,
    ):
        one.default = lambda _: chance.choice(kinds)
        two.default = lambda _: chance.choice(kinds)
        tasks = []
        for number in range(50):
            tasks.append(asyncio.ensure_future(say(household, f"no {number}")))
            household.queue.put_foreign("server_0", chance.randrange(3), 0)
            for _ in range(chance.randrange(8)):
                await asyncio.sleep(0)
            chance.choice(tasks).cancel()
            await passes(chance.choice([0, 2, 6]))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        gate.set()
        one.default = two.default = answer("fine")
        household.queue.put_foreign("server_0", 0, 0)
        assert household.status().running == household.status().waiting == 0

        watched = [household.servers.get(f"server_{number}") for number in (0, 1)]
        async with asyncio.timeout(20):
            while not all(s.usable for s in household.status().servers):
                await passes(max(6.0, *(each.left_out_for_s() for each in watched)))
                await asyncio.sleep(0.05)
        assert await asyncio.wait_for(say(household), 5) == "fine"
        assert household.status().running == 0
