"""The life of a request through queue and server, over loopback HTTP."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
import logging
from typing import Any

from homeassistant.core import Context, HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import (
    Outcome,
    Rejected,
    RejectReason,
    TokenCount,
    Workload,
)
from custom_components.fair_share.engines.base import (
    ClientFaultError,
    Content,
    Delta,
    GenerationRequest,
    ServerFaultError,
    StreamCutError,
)
from custom_components.fair_share.household.generation import Ask
from custom_components.fair_share.household.runtime import Household
from tests.common import household_entry, member, server, set_up, until
from tests.fake_replies import Failure
from tests.fake_server import DROP, FakeServer, answer, failure, raw


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant, socket_enabled: None) -> None:
    """Load what every Home Assistant has loaded, and open the loopback."""
    assert await async_setup_component(hass, "homeassistant", {})


@asynccontextmanager
async def home(
    hass: HomeAssistant, fake: FakeServer, **parent: Any
) -> AsyncIterator[Household]:
    """Run a household with Parent and Child on this server."""
    entry = household_entry(
        server(fake.url, kind=fake.kind),
        member("parent", user_ids=("user_parent",), **parent),
        member("child", user_ids=("user_child",)),
    )
    await set_up(hass, entry)
    yield entry.runtime_data
    await hass.config_entries.async_unload(entry.entry_id)


def ask(
    household: Household,
    text: str = "hello",
    *,
    user: str = "user_parent",
    output: int = 64,
    conversation: str | None = None,
) -> Ask:
    """Return what somebody wants generated."""
    asker = household.identity.resolve(Context(user_id=user), None, None)
    request = GenerationRequest([{"role": "user", "content": text}], output)
    return Ask(asker, Workload.CHAT, request, conversation)


async def read(household: Household, what: Ask) -> list[Delta]:
    """Return all deltas of an answer."""
    async with household.generate(what) as deltas:
        return [delta async for delta in deltas]


def text_of(deltas: Sequence[Delta]) -> str:
    """Return the text of an answer."""
    return "".join(delta.text for delta in deltas if isinstance(delta, Content))


async def test_an_answer_is_streamed_charged_and_settled(hass: HomeAssistant) -> None:
    async with FakeServer() as fake, home(hass, fake) as household:
        fake.script(answer("Good", " morning"))
        deltas = await read(household, ask(household, "say good morning"))
        assert text_of(deltas) == "Good morning"
        record = household.records()[-1]
        assert record.outcome is Outcome.FINISHED
        assert record.tokens == TokenCount(fake.count_prompt(fake.chats[-1].body), 0, 2)
        assert record.charge == record.tokens.uncached + 4
        assert not record.estimated
        assert household.node_status("parent").charge == record.charge
        assert household.status().running == 0


async def test_the_server_is_always_asked_to_stream_and_given_a_limit(
    hass: HomeAssistant,
) -> None:
    async with FakeServer() as fake, home(hass, fake, output_tokens=7) as household:
        await read(household, ask(household, output=500))
        body = fake.chats[-1].body
        assert (body["stream"], body["max_tokens"]) == (True, 7)


async def test_who_leaves_the_queue_never_reaches_the_server(
    hass: HomeAssistant,
) -> None:
    async with FakeServer(slots=1) as fake, home(hass, fake) as household:
        gate = asyncio.Event()
        fake.default = answer("one", gate, " two")
        running = asyncio.create_task(read(household, ask(household)))
        sent_before = len(fake.chats)
        await until(lambda: len(fake.chats) == sent_before + 1)
        leaving = asyncio.create_task(
            read(household, ask(household, user="user_child"))
        )
        await until(lambda: household.status().waiting == 1)
        leaving.cancel()
        await until(leaving.done)
        assert household.status().waiting == 0
        gate.set()
        assert text_of(await running) == "one two"
        assert len(fake.chats) == sent_before + 1
        assert fake.deferred == 0


async def test_who_leaves_a_running_answer_frees_the_slot_and_pays_for_what_came(
    hass: HomeAssistant,
) -> None:
    async with FakeServer(slots=1) as fake, home(hass, fake) as household:
        gate = asyncio.Event()
        fake.default = answer("one", " two", gate, " three")
        running = asyncio.create_task(read(household, ask(household)))
        await until(lambda: household.node_status("parent").tokens.output == 2)
        running.cancel()
        await until(running.done)
        await fake.chats[-1].wait_ended()
        assert fake.chats[-1].closed_by_client
        record = household.records()[-1]
        assert record.outcome is Outcome.CANCELLED
        assert record.tokens.output == 2
        assert record.tokens.uncached > 0
        assert record.charge == record.tokens.uncached + 4
        assert household.status().running == 0


@pytest.mark.parametrize("kind", ["llama_cpp", "vllm", "openai_compatible"])
async def test_who_leaves_while_the_prompt_is_read_pays_for_reading_it(
    hass: HomeAssistant, kind: str
) -> None:
    async with FakeServer(kind) as fake, home(hass, fake) as household:
        fake.default = answer(asyncio.Event(), "never")
        sent_before = len(fake.chats)
        running = asyncio.create_task(read(household, ask(household, "word " * 50)))
        await until(lambda: len(fake.chats) == sent_before + 1)
        running.cancel()
        await until(running.done)
        record = household.records()[-1]
        assert record.outcome is Outcome.CANCELLED
        assert record.tokens.uncached >= 50
        assert record.tokens.output == 0


async def test_a_long_prompt_is_paid_up_to_the_batch_that_was_being_read(
    hass: HomeAssistant,
) -> None:
    fake = FakeServer(context_tokens=10_000)
    async with fake, home(hass, fake) as household:
        fake.default = raw(asyncio.Event())
        sent_before = len(fake.chats)
        running = asyncio.create_task(read(household, ask(household, "word " * 5000)))
        await until(lambda: len(fake.chats) == sent_before + 1)
        running.cancel()
        await until(running.done)
        assert household.records()[-1].tokens.uncached == 2048


async def test_a_slot_that_still_reads_for_who_left_is_not_used(
    hass: HomeAssistant,
) -> None:
    async with FakeServer(slots=1) as fake, home(hass, fake) as household:
        fake.default = answer(asyncio.Event(), "never")
        sent_before = len(fake.chats)
        leaving = asyncio.create_task(read(household, ask(household)))
        await until(lambda: len(fake.chats) == sent_before + 1)
        # The server does not notice yet that the client leaves.
        fake.override["/metrics"] = Failure(
            200, "llamacpp:requests_processing 1", content_type="text/plain"
        )
        leaving.cancel()
        await until(leaving.done)
        fake.default = answer("fine")
        waiting = asyncio.create_task(read(household, ask(household)))
        await until(lambda: household.status().waiting == 1)
        looked = len(fake.requests)
        await until(lambda: len(fake.requests) > looked + 1)
        assert len(fake.chats) == sent_before + 1
        del fake.override["/metrics"]
        assert text_of(await waiting) == "fine"


async def test_a_server_that_is_let_go_in_the_moment_of_a_start_is_told(
    hass: HomeAssistant, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeServer() as fake, home(hass, fake) as household:
        household.queue.close_server("server")
        waiting = asyncio.create_task(read(household, ask(household)))
        await until(lambda: household.status().waiting == 1)
        capacity = household.servers.get("server").capacity()
        assert capacity is not None
        household.queue.put_server(capacity)
        household.servers.stop()
        household.queue.close()
        with pytest.raises(Rejected) as refusal:
            await waiting
        assert refusal.value.reason is RejectReason.CLOSED
        assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


async def test_a_member_who_is_removed_in_the_middle_of_a_turn_is_told(
    hass: HomeAssistant,
) -> None:
    async with FakeServer() as fake, home(hass, fake) as household:
        what = ask(household)
        hass.config_entries.async_remove_subentry(household.entry, "parent")
        await hass.async_block_till_done()
        with pytest.raises(Rejected) as refusal:
            await read(household, what)
        assert refusal.value.reason is RejectReason.CLASS_REMOVED


async def test_a_server_that_could_not_be_reached_costs_nothing(
    hass: HomeAssistant,
) -> None:
    async with FakeServer() as fake, home(hass, fake) as household:
        fake.default = failure(400, "no", "invalid_request_error")
        with pytest.raises(ClientFaultError):
            await read(household, ask(household))
        assert household.node_status("parent").charge == 0


async def test_who_stops_reading_leaves_just_as_well(hass: HomeAssistant) -> None:
    async with FakeServer(slots=1) as fake, home(hass, fake) as household:
        fake.default = answer("one", asyncio.Event(), " two")
        async with household.generate(ask(household)) as deltas:
            while not isinstance(await anext(deltas), Content):
                pass
        await fake.chats[-1].wait_ended()
        assert household.records()[-1].outcome is Outcome.CANCELLED
        assert household.status().running == 0


async def test_nothing_waits_inside_the_server(hass: HomeAssistant) -> None:
    async with FakeServer(slots=2) as fake, home(hass, fake) as household:
        gate = asyncio.Event()
        fake.default = answer("one", gate, " two")
        asked = [
            asyncio.create_task(read(household, ask(household, f"number {n}")))
            for n in range(12)
        ]
        await until(lambda: household.status().waiting == 10 and fake.running == 2)
        assert fake.deferred == 0
        gate.set()
        assert [text_of(each) for each in await asyncio.gather(*asked)] == [
            "one two"
        ] * 12
        assert fake.peak_running == 2


async def test_three_answers_that_would_exhaust_a_pool_together_all_finish(
    hass: HomeAssistant,
) -> None:
    fake = FakeServer(slots=4, context_tokens=1000, kv_tokens=1000)
    async with fake, home(hass, fake) as household:
        long = " ".join(["word"] * 300)
        gate = asyncio.Event()
        fake.default = answer("x ", gate, *(["x "] * 149))
        asked = [
            asyncio.create_task(read(household, ask(household, long, output=150)))
            for _ in range(3)
        ]
        await until(lambda: household.status().waiting == 1 and fake.running == 2)
        gate.set()
        lengths = [len(text_of(each).split()) for each in await asyncio.gather(*asked)]
        assert lengths == [150] * 3
        assert fake.peak_running == 2


async def test_a_failure_before_the_first_word_is_tried_again_unseen(
    hass: HomeAssistant,
) -> None:
    async with FakeServer() as fake, home(hass, fake) as household:
        fake.script(failure(500, "CUDA error", "server_error"), answer("fine"))
        assert text_of(await read(household, ask(household))) == "fine"
        outcomes = [record.outcome for record in household.records()]
        assert outcomes == [Outcome.FAILED, Outcome.FINISHED]


async def test_a_server_that_has_no_room_is_asked_again_later(
    hass: HomeAssistant,
) -> None:
    async with FakeServer() as fake, home(hass, fake) as household:
        fake.script(failure(429, "busy", "rate_limit"), answer("fine"))
        assert text_of(await read(household, ask(household))) == "fine"


async def test_a_failure_that_stays_is_told_in_the_end(hass: HomeAssistant) -> None:
    async with FakeServer() as fake, home(hass, fake) as household:
        fake.default = failure(500, "CUDA error", "server_error")
        sent_before = len(fake.chats)
        with pytest.raises(ServerFaultError, match="CUDA error"):
            await read(household, ask(household))
        assert len(fake.chats) == sent_before + 2
        assert household.status().running == 0


async def test_a_fault_of_the_request_is_told_at_once_and_closes_nothing(
    hass: HomeAssistant,
) -> None:
    async with FakeServer() as fake, home(hass, fake) as household:
        fake.script(failure(400, "Failed to parse grammar", "invalid_request_error"))
        with pytest.raises(ClientFaultError, match="Failed to parse grammar"):
            await read(household, ask(household))
        assert household.status().servers[0].usable
        assert text_of(await read(household, ask(household)))


async def test_a_cut_stream_is_told_and_what_came_is_charged(
    hass: HomeAssistant,
) -> None:
    async with FakeServer() as fake, home(hass, fake) as household:
        fake.script(answer("one", " two", DROP))
        seen: list[Delta] = []
        with pytest.raises(StreamCutError):
            async with household.generate(ask(household)) as deltas:
                seen.extend([delta async for delta in deltas])
        record = household.records()[-1]
        assert record.outcome is Outcome.FAILED
        assert record.tokens.output == 2
        assert household.status().running == 0


async def test_a_quota_ends_a_running_answer(hass: HomeAssistant) -> None:
    async with FakeServer() as fake, home(hass, fake, quota_tokens=30) as household:
        fake.default = answer(*(["x "] * 60))
        seen: list[Delta] = []

        async def follow() -> None:
            async with household.generate(ask(household)) as deltas:
                async for delta in deltas:
                    seen.append(delta)  # noqa: PERF401 - keeps what came before the end

        with pytest.raises(Rejected) as refusal:
            await follow()
        assert refusal.value.reason is RejectReason.QUOTA
        assert 16 <= len(text_of(seen).split()) < 60
        await fake.chats[-1].wait_ended()
        assert household.records()[-1].outcome is Outcome.STOPPED


async def test_unloading_stops_a_running_answer_and_keeps_its_account(
    hass: HomeAssistant,
) -> None:
    async with FakeServer() as fake, home(hass, fake) as household:
        gate = asyncio.Event()
        fake.default = answer("one", gate, " two", " three")
        running = asyncio.create_task(read(household, ask(household)))
        await until(lambda: household.node_status("parent").tokens.output == 1)
        await hass.config_entries.async_unload(household.entry.entry_id)
        gate.set()
        with pytest.raises(Rejected) as refusal:
            await running
        assert refusal.value.reason is RejectReason.CLOSED
        await hass.config_entries.async_setup(household.entry.entry_id)
        again: Household = household.entry.runtime_data
        assert again.node_status("parent").tokens.output == 1


async def test_a_prompt_over_the_askers_own_limit_is_refused_unsent(
    hass: HomeAssistant,
) -> None:
    async with FakeServer() as fake, home(hass, fake, context_tokens=50) as household:
        sent_before = len(fake.chats)
        with pytest.raises(Rejected) as refusal:
            await read(household, ask(household, " ".join(["word"] * 60)))
        assert refusal.value.reason is RejectReason.TOO_LONG
        assert refusal.value.limit_tokens == 50
        await read(household, ask(household, " ".join(["word"] * 40)))
        assert fake.chats[-1].body["max_tokens"] < 10
        assert len(fake.chats) == sent_before + 1


async def test_a_prompt_that_fits_nowhere_is_refused_without_asking_a_server(
    hass: HomeAssistant,
) -> None:
    async with FakeServer() as fake, home(hass, fake) as household:
        before = len(fake.requests)
        with pytest.raises(Rejected) as refusal:
            await read(household, ask(household, "x" * 16 * 4200))
        assert refusal.value.reason is RejectReason.TOO_LONG
        assert len(fake.requests) == before


async def test_a_prompt_that_may_fit_is_counted(hass: HomeAssistant) -> None:
    async with FakeServer() as fake, home(hass, fake) as household:
        assert text_of(await read(household, ask(household, "x" * 16 * 4000)))


async def test_the_next_turn_of_a_conversation_expects_its_prefix_in_the_cache(
    hass: HomeAssistant,
) -> None:
    async with FakeServer() as fake, home(hass, fake) as household:
        gate = asyncio.Event()
        await read(household, ask(household, conversation="talk"))
        fake.default = answer("one", gate, " two")
        more = "hello and some more"
        running = asyncio.create_task(
            read(household, ask(household, more, conversation="talk"))
        )
        await until(lambda: household.status().running == 1)
        first = household.records()[-1].tokens
        cached = first.prompt + first.output
        charge = household.node_status("parent").charge - household.records()[-1].charge
        assert charge < 2 * 64 + cached
        gate.set()
        await running


async def test_where_nobody_can_count_a_prompt_is_estimated(
    hass: HomeAssistant,
) -> None:
    fake = FakeServer("openai_compatible")
    async with fake, home(hass, fake) as household:
        request = GenerationRequest([{"role": "user", "content": "x" * 350}], 10)
        assert 100 <= await household.count_tokens(request) <= 120
        assert text_of(await read(household, ask(household)))
        await fake.stop()
        assert await household.count_tokens(request) > 0
