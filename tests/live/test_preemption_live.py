"""Interrupting answers on a real llama.cpp server: what the household sees of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
import os
import signal

from homeassistant.core import Context, HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import (
    Outcome,
    RequestRecord,
    Workload,
)
from custom_components.fair_share.engines.base import (
    Content,
    Delta,
    Finish,
    FinishReason,
    GenerationRequest,
    Resume,
    ResumeWay,
    Usage,
)
from custom_components.fair_share.household.generation import Ask
from custom_components.fair_share.household.runtime import Household
from demo.embedded_engine import EmbeddedEngine, embedded_engine as run_engine
from tests.common import household_entry, member, server, set_up, until
from tests.live.test_queue_live import metric, watching

pytestmark = pytest.mark.live

WRITING = "Write a long story about a lighthouse, a storm and a small boat. "


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant, socket_enabled: None) -> None:
    """Load what every Home Assistant has loaded, and open the loopback."""
    assert await async_setup_component(hass, "homeassistant", {})


@asynccontextmanager
async def home(hass: HomeAssistant, url: str) -> AsyncIterator[Household]:
    """Run a household of two members with this engine as its server."""
    names = ("parent", "child")
    entry = household_entry(
        server(url, patient_slots=2),
        *(member(name, user_ids=(f"user_{name}",)) for name in names),
    )
    await set_up(hass, entry)
    household: Household = entry.runtime_data
    await until(lambda: bool(list(household.servers.ready())))
    yield household
    await hass.config_entries.async_unload(entry.entry_id)


@dataclass
class Answer:
    """What arrived of an answer so far."""

    deltas: list[Delta] = field(default_factory=list)

    @property
    def pieces(self) -> int:
        """How many pieces of text arrived."""
        return sum(isinstance(delta, Content) for delta in self.deltas)

    @property
    def text(self) -> str:
        """The text that arrived."""
        return "".join(d.text for d in self.deltas if isinstance(d, Content))

    @property
    def usage(self) -> Usage:
        """The final count."""
        (usage,) = (d for d in self.deltas if isinstance(d, Usage))
        return usage

    @property
    def reason(self) -> FinishReason:
        """Why it ended."""
        assert isinstance(self.deltas[-1], Finish)
        return self.deltas[-1].reason


def story(tokens: int, *, about: str = "", words: int = 1) -> GenerationRequest:
    """Return a request whose answer is just so many tokens long."""
    return GenerationRequest(
        [{"role": "user", "content": about + WRITING * words}],
        tokens,
        parameters={"ignore_eos": True, "temperature": 0},
    )


async def read(
    household: Household,
    user: str,
    workload: Workload,
    request: GenerationRequest,
    answer: Answer,
) -> None:
    """Let a member ask and note what arrives."""
    asker = household.identity.resolve(Context(user_id=user), None, None)
    async with household.generate(Ask(asker, workload, request)) as deltas:
        async for delta in deltas:
            answer.deltas.append(delta)


def background(
    household: Household, answer: Answer, tokens: int = 200, about: str = ""
) -> asyncio.Task[None]:
    """Have the child's background work written."""
    request = story(tokens, about=about, words=12)
    return asyncio.create_task(
        read(household, "user_child", Workload.BACKGROUND, request, answer)
    )


def voice(household: Household, answer: Answer) -> asyncio.Task[None]:
    """Have the parent say something."""
    request = story(12)
    return asyncio.create_task(
        read(household, "user_parent", Workload.VOICE, request, answer)
    )


def records(household: Household, workload: Workload) -> list[RequestRecord]:
    """Return the accounts of one kind of requests."""
    return [each for each in household.records() if each.workload is workload]


async def idle(engine: EmbeddedEngine) -> None:
    """Wait until no slot of the engine is busy."""
    async with asyncio.timeout(5):
        while await metric(engine, "requests_processing"):
            pass


async def test_the_server_is_found_to_go_on_with_answers(
    hass: HomeAssistant, embedded_engine: EmbeddedEngine
) -> None:
    async with home(hass, embedded_engine.url) as household:
        capabilities = household.servers.get("server").capabilities
    assert capabilities is not None
    # Its chat template knows no reasoning.
    assert capabilities.resume == Resume(ResumeWay.CONTINUE)


@pytest.mark.parametrize("slots", [1, 2])
async def test_a_voice_command_is_answered_while_background_work_pauses(
    hass: HomeAssistant, slots: int
) -> None:
    async with (
        run_engine(slots=slots, context_tokens=2048 * slots) as engine,
        home(hass, engine.url) as household,
        watching(engine, "requests_deferred") as deferred,
    ):
        summaries = [Answer() for _ in range(slots)]
        writing = [
            background(household, summary, about=f"This is number {number}. ")
            for number, summary in enumerate(summaries)
        ]
        await until(lambda: all(summary.pieces > 20 for summary in summaries))
        spoken = Answer()
        speaking = voice(household, spoken)
        await until(lambda: spoken.pieces > 0)
        before = [summary.pieces for summary in summaries]
        assert not any(task.done() for task in writing)
        await speaking
        assert 0 in [s.pieces - b for s, b in zip(summaries, before, strict=True)]
        await asyncio.gather(*writing)
        await idle(engine)
        assert household.status().running == 0
    assert set(deferred) == {0}
    assert [summary.usage.output_tokens for summary in summaries] == [200] * slots
    assert {summary.reason for summary in summaries} == {FinishReason.LENGTH}
    (spoke,) = records(household, Workload.VOICE)
    wrote = records(household, Workload.BACKGROUND)
    assert (spoke.caused, spoke.outcome) == (1, Outcome.FINISHED)
    assert [record.outcome for record in wrote] == [Outcome.FINISHED] * slots
    assert sum(record.preemptions for record in wrote) == 1
    assert [record.tokens.output for record in wrote] == [200] * slots
    # The engine still had all but the very end of what it had read and written.
    (reread,) = [r.recomputed for r in wrote if r.preemptions]
    assert reread.cached > 150
    assert reread.uncached <= 16
    assert all(record.tokens.prompt == wrote[0].tokens.prompt for record in wrote)


async def test_a_voice_command_does_not_wait_until_a_long_prompt_is_read(
    hass: HomeAssistant,
) -> None:
    async with (
        run_engine(slots=1, context_tokens=4096) as engine,
        home(hass, engine.url) as household,
        watching(engine, "requests_deferred") as deferred,
    ):
        summary, spoken = Answer(), Answer()
        request = story(30, words=110)
        summing = asyncio.create_task(
            read(household, "user_child", Workload.BACKGROUND, request, summary)
        )
        await until(lambda: bool(summary.deltas))  # a part of the prompt is read
        await voice(household, spoken)
        assert summary.pieces == 0
        await summing
        await idle(engine)
    assert set(deferred) == {0}
    assert spoken.usage.output_tokens == 12
    assert summary.usage.output_tokens == 30
    (wrote,) = records(household, Workload.BACKGROUND)
    assert (wrote.outcome, wrote.preemptions) == (Outcome.FINISHED, 1)
    # All of the prompt is paid once, what had to be read again by nobody.
    assert wrote.tokens.prompt > 1200
    assert wrote.tokens.prompt == summary.usage.prompt_tokens


async def test_an_answer_that_is_interrupted_three_times_keeps_all_its_text(
    hass: HomeAssistant,
) -> None:
    async with (
        run_engine(slots=1, context_tokens=2048) as engine,
        home(hass, engine.url) as household,
    ):
        whole, cut = Answer(), Answer()
        await background(household, whole, 120)
        writing = background(household, cut, 120)
        seen: list[str] = []
        for pieces in (20, 45, 70):
            await until(lambda least=pieces: cut.pieces > least)
            await voice(household, Answer())
            seen.append(cut.text)
        await writing
    # What it would have written in one go is not to be had: the last digits of what an
    # engine computes depend on how a prompt was cut into batches, and so may a word.
    assert all(cut.text.startswith(part) for part in seen)
    (wrote,) = records(household, Workload.BACKGROUND)[1:]
    assert (wrote.preemptions, wrote.tokens.output) == (3, 120)
    assert cut.usage.output_tokens == 120
    assert cut.usage.prompt_tokens == whole.usage.prompt_tokens


async def test_who_leaves_while_paused_leaves_nothing_busy(
    hass: HomeAssistant,
) -> None:
    async with (
        run_engine(slots=1, context_tokens=2048) as engine,
        home(hass, engine.url) as household,
    ):
        summary, spoken = Answer(), Answer()
        writing = background(household, summary)
        await until(lambda: summary.pieces > 20)
        speaking = voice(household, spoken)
        await until(lambda: spoken.pieces > 0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await speaking
        await idle(engine)
        assert household.status().running == household.status().waiting == 0
        (wrote,) = records(household, Workload.BACKGROUND)
        assert wrote.outcome is Outcome.CANCELLED
        assert 20 < wrote.tokens.output < 200
        assert summary.pieces <= wrote.tokens.output


async def test_an_answer_outlives_a_server_that_is_killed_and_comes_back(
    hass: HomeAssistant,
) -> None:
    summary = Answer()
    async with run_engine(slots=1, context_tokens=2048) as engine:
        port = int(engine.url.rpartition(":")[2])
        async with home(hass, engine.url) as household:
            writing = background(household, summary)
            await until(lambda: summary.pieces > 20)
            os.kill(engine.pid, signal.SIGKILL)
            await until(lambda: household.status().waiting == 1)
            async with run_engine(port=port, slots=1, context_tokens=2048):
                await writing
    assert summary.usage.output_tokens == 200
    (wrote,) = records(household, Workload.BACKGROUND)
    assert (wrote.outcome, wrote.preemptions) == (Outcome.FINISHED, 0)
    assert wrote.tokens.output == 200
