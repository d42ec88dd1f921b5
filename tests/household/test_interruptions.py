"""Answers that make room for others, or whose server fails, in one client stream."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from homeassistant.core import Context, HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import (
    Outcome,
    Rejected,
    RequestRecord,
    TokenCount,
    Workload,
)
from custom_components.fair_share.engines.base import (
    Content,
    Delta,
    EngineLoad,
    Finish,
    FinishReason,
    GenerationRequest,
    StreamCutError,
    Thinking,
    Usage,
)
from custom_components.fair_share.household.generation import Ask
from custom_components.fair_share.household.runtime import Household
from tests.common import household_entry, member, server, set_up, until
from tests.continuing_engine import ContinuingServer
from tests.fake_replies import Failure, Piece, Thought
from tests.fake_server import DROP, FakeServer, answer, failure

WORDS = [f" w{number}" for number in range(40)]
TEXT = "".join(WORDS)


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant, socket_enabled: None) -> None:
    """Load what every Home Assistant has loaded, and open the loopback."""
    assert await async_setup_component(hass, "homeassistant", {})


@asynccontextmanager
async def home(
    hass: HomeAssistant, *fakes: FakeServer, options: dict[str, Any] | None = None
) -> AsyncIterator[Household]:
    """Run a household with Parent and Child on these servers."""
    entry = household_entry(
        *(
            server(fake.url, subentry_id=f"server_{number}", kind=fake.kind)
            for number, fake in enumerate(fakes)
        ),
        member("parent", user_ids=("user_parent",)),
        member("child", user_ids=("user_child",)),
        options=options,
    )
    await set_up(hass, entry)
    yield entry.runtime_data
    await hass.config_entries.async_unload(entry.entry_id)


class Reader:
    """Somebody who asks, and what arrives."""

    def __init__(
        self,
        household: Household,
        workload: Workload = Workload.BACKGROUND,
        user: str = "user_child",
        *,
        output: int = 100,
        only_on: str | None = None,
        **parameters: Any,
    ) -> None:
        """Ask at once."""
        asker = household.identity.resolve(Context(user_id=user), None, None)
        messages = [{"role": "user", "content": f"Please write, {user}"}]
        request = GenerationRequest(messages, output, parameters=parameters)
        servers = None if only_on is None else frozenset({only_on})
        self._ask = Ask(asker, workload, request, conversation_id=user, servers=servers)
        self._household = household
        self.deltas: list[Delta] = []
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async with self._household.generate(self._ask) as deltas:
            async for delta in deltas:
                self.deltas.append(delta)

    @property
    def text(self) -> str:
        """The text that arrived."""
        return "".join(d.text for d in self.deltas if isinstance(d, Content))

    @property
    def thought(self) -> str:
        """The reasoning that arrived."""
        return "".join(d.text for d in self.deltas if isinstance(d, Thinking))

    @property
    def usage(self) -> Usage:
        """The one final count."""
        (usage,) = (d for d in self.deltas if isinstance(d, Usage))
        return usage

    @property
    def reason(self) -> FinishReason:
        """Why it ended, which it says once."""
        (finish,) = (d for d in self.deltas if isinstance(d, Finish))
        return finish.reason

    async def has(self, text: str) -> None:
        """Wait until so much text has arrived."""
        await until(lambda: text in self.text)


def voice(household: Household) -> Reader:
    """Let Parent say something."""
    return Reader(household, Workload.VOICE, "user_parent", output=1)


def record_of(household: Household, workload: Workload) -> RequestRecord:
    """Return the only account of this kind."""
    (record,) = (r for r in household.records() if r.workload is workload)
    return record


def gated(fake: ContinuingServer, pieces: Sequence[Piece]) -> None:
    """Have a server that was probed write these pieces from now on."""
    fake.pieces = list(pieces)


@pytest.mark.parametrize(
    "options",
    [{}, {"continues": False}, {"trims": True}, {"kind": "vllm"}],
    ids=["option", "raw prompt", "trims", "vllm"],
)
async def test_the_stream_stays_open_and_goes_on_where_it_was(
    hass: HomeAssistant, options: dict[str, Any]
) -> None:
    fake = ContinuingServer(slots=1, pieces=["ok"], **options)
    async with fake, home(hass, fake) as household:
        gated(fake, [*WORDS[:20], asyncio.Event(), *WORDS[20:]])
        summary = Reader(household)
        await summary.has("w19")
        spoken = voice(household)
        await spoken.task
        assert spoken.text == WORDS[0]
        await summary.task
        assert household.status().running == household.status().waiting == 0
    assert summary.text == TEXT
    assert summary.reason is FinishReason.STOP
    record = record_of(household, Workload.BACKGROUND)
    assert (record.outcome, record.preemptions) == (Outcome.FINISHED, 1)
    assert record.tokens.output == len(WORDS)
    assert record_of(household, Workload.VOICE).caused == 1
    assert fake.peak_running == 1
    assert fake.deferred == 0


async def test_the_client_is_told_one_usage_and_pays_for_the_prompt_once(
    hass: HomeAssistant,
) -> None:
    fake = ContinuingServer(slots=1, pieces=["ok"])
    async with fake, home(hass, fake) as household:
        gated(fake, [*WORDS[:20], asyncio.Event(), *WORDS[20:]])
        summary = Reader(household)
        await summary.has("w19")
        await voice(household).task
        await summary.task
        before, _, after = [chat.body for chat in fake.chats[-3:]]
        prompt = fake.count_prompt(before)
        record = record_of(household, Workload.BACKGROUND)
        child = household.node_status("child")
        assert household.status().recomputed.prompt == fake.count_prompt(after)
    usage = summary.usage
    assert (usage.prompt_tokens, usage.output_tokens) == (prompt, len(WORDS))
    assert record.tokens == TokenCount(prompt, 0, len(WORDS))
    assert record.charge == prompt + 2 * len(WORDS) == child.charge
    assert record.recomputed.prompt == fake.count_prompt(after)
    assert after["max_tokens"] == 100 - 20
    assert after["messages"][-1] == {
        "role": "assistant",
        "content": "".join(WORDS[:20]),
    }


async def test_reasoning_goes_on_and_is_never_shown(hass: HomeAssistant) -> None:
    fake = ContinuingServer(slots=1, pieces=["ok"])
    async with fake, home(hass, fake) as household:
        thoughts = [Thought(word) for word in WORDS[:20]]
        gated(fake, [*thoughts[:10], asyncio.Event(), *thoughts[10:], *WORDS[:8]])
        summary = Reader(household)
        await until(lambda: "w9" in summary.thought)
        await voice(household).task
        await summary.task
    assert summary.thought == "".join(WORDS[:20])
    assert summary.text == "".join(WORDS[:8])
    assert record_of(household, Workload.BACKGROUND).preemptions == 1


@pytest.mark.parametrize(
    ("pieces", "options", "parameters"),
    [
        pytest.param(WORDS, {"kind": "openai_compatible"}, {}, id="unknown server"),
        pytest.param(WORDS, {}, {"grammar": "root ::= x"}, id="grammar"),
        pytest.param(
            [Thought(word) for word in WORDS],
            {"knows_reasoning": False},
            {},
            id="reasoning that would be lost",
        ),
    ],
)
async def test_what_could_not_go_on_is_not_interrupted(
    hass: HomeAssistant,
    pieces: list[Piece],
    options: dict[str, Any],
    parameters: dict[str, Any],
) -> None:
    fake = ContinuingServer(slots=1, pieces=["ok"], **options)
    async with fake, home(hass, fake) as household:
        gate = asyncio.Event()
        gated(fake, [*pieces[:20], gate, *pieces[20:]])
        sent = len(fake.chats)
        summary = Reader(household, **parameters)
        await until(lambda: "w19" in summary.text + summary.thought)
        spoken = voice(household)
        await until(lambda: household.status().waiting == 1)
        assert len(fake.chats) == sent + 1
        gate.set()
        await asyncio.gather(summary.task, spoken.task)
    assert record_of(household, Workload.BACKGROUND).preemptions == 0


async def test_who_leaves_while_paused_leaves_nothing_behind(
    hass: HomeAssistant,
) -> None:
    fake = ContinuingServer(slots=1, pieces=["ok"])
    async with fake, home(hass, fake) as household:
        gate = asyncio.Event()
        gated(fake, [*WORDS[:20], asyncio.Event(), gate, *WORDS[20:]])
        summary = Reader(household)
        await summary.has("w19")
        spoken = Reader(household, Workload.VOICE, "user_parent")
        await spoken.has("w19")
        assert household.status().waiting == 1
        summary.task.cancel()
        await until(summary.task.done)
        assert household.status().waiting == 0
        gate.set()
        await spoken.task
        status = household.status()
        assert (status.running, status.waiting) == (0, 0)
        record = record_of(household, Workload.BACKGROUND)
        assert (record.outcome, record.tokens.output) == (Outcome.CANCELLED, 20)


async def test_interruption_can_be_switched_off(hass: HomeAssistant) -> None:
    fake = ContinuingServer(slots=1, pieces=["ok"])
    async with fake, home(hass, fake, options={"preemption": False}) as household:
        gate = asyncio.Event()
        gated(fake, [*WORDS[:20], gate, *WORDS[20:]])
        summary = Reader(household)
        await summary.has("w19")
        spoken = voice(household)
        await until(lambda: household.status().waiting == 1)
        gate.set()
        await asyncio.gather(summary.task, spoken.task)
    assert record_of(household, Workload.BACKGROUND).preemptions == 0


# ---- servers that fail ---------------------------------------------------------------


async def test_an_answer_goes_on_at_another_server_when_its_own_fails(
    hass: HomeAssistant,
) -> None:
    one = ContinuingServer(slots=1, pieces=["ok"])
    two = ContinuingServer(slots=1, pieces=["ok"])
    async with one, two, home(hass, one, two) as household:
        gated(one, [*WORDS[:20], asyncio.Event(), *WORDS[20:]])
        gated(two, [*WORDS[:20], asyncio.Event(), *WORDS[20:]])
        summary = Reader(household)
        await summary.has("w19")
        ran_on = record_server(household)
        first, other = (one, two) if ran_on == "server_0" else (two, one)
        other.pieces = list(WORDS)
        await first.stop()
        await summary.task
    assert summary.text == TEXT
    record = record_of(household, Workload.BACKGROUND)
    assert (record.outcome, record.preemptions) == (Outcome.FINISHED, 0)
    assert record.tokens.output == len(WORDS)
    assert record.server_id != ran_on


def record_server(household: Household) -> str | None:
    """Return where the only running request runs."""
    (request,) = household.status().requests
    return request.server_id


async def test_an_answer_goes_on_when_its_stream_is_cut(hass: HomeAssistant) -> None:
    fake = ContinuingServer(slots=1, pieces=["ok"])
    async with fake, home(hass, fake) as household:
        gated(fake, [*WORDS[:10], DROP, *WORDS[10:20], DROP, *WORDS[20:]])
        summary = Reader(household)
        await summary.task
    assert summary.text == TEXT
    assert summary.usage.output_tokens == len(WORDS)


async def test_a_server_that_fails_again_and_again_is_told_in_the_end(
    hass: HomeAssistant,
) -> None:
    fake = ContinuingServer(slots=1, pieces=["ok"])
    async with fake, home(hass, fake) as household:
        gated(fake, [*WORDS[:9], DROP, *WORDS[9:12], DROP, *WORDS[12:15], DROP, "x"])
        summary = Reader(household)
        with pytest.raises(StreamCutError):
            await summary.task
        assert household.status().running == 0
    assert summary.text == "".join(WORDS[:15])


async def test_what_broke_an_answer_off_is_told_when_it_can_not_go_on(
    hass: HomeAssistant,
) -> None:
    fake = ContinuingServer(slots=1, pieces=["ok"])
    async with fake, home(hass, fake) as household:
        gated(fake, [*WORDS[:9], DROP, *WORDS[9:]])
        answering = fake.default
        refusal: Failure = failure(400, "no", "invalid_request_error")
        fake.default = lambda body: (
            refusal if body.get("continue_final_message") else answering(body)
        )
        summary = Reader(household)
        with pytest.raises(StreamCutError):
            await summary.task
    assert summary.text == "".join(WORDS[:9])


async def test_a_shaped_answer_that_is_cut_is_not_patched_up(
    hass: HomeAssistant,
) -> None:
    fake = ContinuingServer(slots=1, pieces=["ok"])
    async with fake, home(hass, fake) as household:
        gated(fake, [*WORDS[:9], DROP, *WORDS[9:]])
        sent = len(fake.chats)
        summary = Reader(household, grammar="root ::= x")
        with pytest.raises(StreamCutError):
            await summary.task
        assert len(fake.chats) == sent + 1


@pytest.mark.parametrize(
    ("end", "error"), [("patience", StreamCutError), ("close", Rejected)]
)
async def test_an_answer_that_waits_for_its_server_in_vain_is_told(
    hass: HomeAssistant,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
    error: type[Exception],
) -> None:
    fake = ContinuingServer(slots=1, pieces=["ok"])
    async with fake, home(hass, fake) as household:
        gated(fake, [*WORDS[:9], asyncio.Event(), *WORDS[9:]])
        summary = Reader(household)
        await summary.has("w8")
        await fake.stop()
        await until(lambda: household.status().waiting == 1)
        now = household.queue.clock.monotonic()
        ends = {
            "patience": lambda: monkeypatch.setattr(
                household.queue.clock, "monotonic", lambda: now + 4000
            ),
            "close": household.queue.close,
        }
        ends[end]()
        household.queue.decide()
        with pytest.raises(error):
            await summary.task


async def test_an_answer_goes_on_only_where_it_can(hass: HomeAssistant) -> None:
    able = ContinuingServer(slots=1, pieces=["ok"])
    unable = FakeServer("openai_compatible", slots=1)
    async with able, unable, home(hass, able, unable) as household:
        chat_ends, voice_ends = asyncio.Event(), asyncio.Event()
        unable.default = answer("Well", chat_ends, ".")
        gated(able, [*WORDS[:20], asyncio.Event(), voice_ends, *WORDS[20:]])
        chat = Reader(household, Workload.CHAT, "user_parent", only_on="server_1")
        await chat.has("Well")
        summary = Reader(household)
        await summary.has("w19")
        spoken = Reader(household, Workload.VOICE, "user_parent")
        await spoken.has("w19")
        chat_ends.set()
        await chat.task
        assert household.status().waiting == 1
        voice_ends.set()
        await asyncio.gather(spoken.task, summary.task)
        assert household.status().running == household.status().waiting == 0
    assert summary.text == TEXT
    assert record_of(household, Workload.BACKGROUND).server_id == "server_0"


async def test_an_answer_that_is_cut_at_its_full_length_is_whole(
    hass: HomeAssistant,
) -> None:
    fake = ContinuingServer(slots=1, pieces=["ok"])
    async with fake, home(hass, fake) as household:
        gated(fake, [*WORDS[:20], DROP, *WORDS[20:]])
        sent = len(fake.chats)
        summary = Reader(household, output=20)
        await summary.task
        assert len(fake.chats) == sent + 1
        assert household.status().running == household.status().waiting == 0
    assert summary.text == "".join(WORDS[:20])
    assert summary.reason is FinishReason.LENGTH
    assert summary.usage.output_tokens == 20
    record = record_of(household, Workload.BACKGROUND)
    assert (record.outcome, record.tokens.output) == (Outcome.FINISHED, 20)


async def test_who_leaves_while_the_server_is_being_left_is_drained(
    hass: HomeAssistant, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = ContinuingServer(slots=1, pieces=["ok"])
    async with fake, home(hass, fake) as household:
        # As of a server that reads one batch more: it notices nothing until then.
        busy, load = [True], fake_load(household)

        async def loaded() -> EngineLoad:
            return replace(await load(), running=1) if busy[0] else await load()

        engine = household.servers.get("server_0").engine
        monkeypatch.setattr(engine, "load", loaded)
        fake.script(answer(asyncio.Event()))
        sent = len(fake.chats)
        summary = Reader(household)
        await fake.wait_chats(sent + 1)
        await until(lambda: bool(summary.deltas))
        spoken = voice(household)
        await fake.chats[-1].wait_ended()
        summary.task.cancel()
        await until(summary.task.done)
        assert household.status().running == 0
        assert household.status().waiting == 1
        busy[0] = False
        await spoken.task
        assert len(fake.chats) == sent + 2


def fake_load(household: Household) -> Callable[[], Awaitable[EngineLoad]]:
    """Return how the server is asked what it is doing."""
    return household.servers.get("server_0").engine.load
