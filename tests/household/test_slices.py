"""Long prompts that enter a server in slices, and who comes in between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from homeassistant.core import Context, HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import (
    Outcome,
    Rejected,
    RejectReason,
    RequestRecord,
    TokenCount,
    Workload,
)
from custom_components.fair_share.engines.base import (
    Content,
    ContextOverflowError,
    Delta,
    GenerationRequest,
    PromptProgress,
    Usage,
)
from custom_components.fair_share.household.generation import Ask
from custom_components.fair_share.household.runtime import Household
from tests.common import household_entry, member, server, set_up, until
from tests.fake_server import RESET, failure
from tests.slicing_engine import SlicingServer, error_event, prompt_of

WORDS = ["Once", " upon", " a", " time"]
LONG = prompt_of(400)


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant, socket_enabled: None) -> None:
    """Load what every Home Assistant has loaded, and open the loopback."""
    assert await async_setup_component(hass, "homeassistant", {})


@asynccontextmanager
async def home(
    hass: HomeAssistant, *fakes: SlicingServer, **child: Any
) -> AsyncIterator[Household]:
    """Run a household with Parent and Child in which a voice command may come."""
    entry = household_entry(
        *(
            server(fake.url, subentry_id=f"server_{number}", kind=fake.kind)
            for number, fake in enumerate(fakes)
        ),
        member("parent", user_ids=("user_parent",)),
        member("child", user_ids=("user_child",), **child),
    )
    await set_up(hass, entry)
    household: Household = entry.runtime_data
    household.queue.expect(Workload.VOICE, 3600.0)
    # It may not be held up at all: all slices are of the least size.
    settings = household.settings
    spoken = replace(settings.profiles[Workload.VOICE], stall_s=0.0)
    profiles = {**settings.profiles, Workload.VOICE: spoken}
    household.queue.configure(replace(settings, profiles=profiles))
    for fake in fakes:
        fake.requests.clear()
        fake.held = []
        fake.told = []
    yield household
    await hass.config_entries.async_unload(entry.entry_id)


@dataclass
class Reader:
    """Somebody who asks at once, and what arrives."""

    household: Household
    workload: Workload = Workload.BACKGROUND
    user: str = "user_child"
    text: str = LONG
    parameters: dict[str, Any] = field(default_factory=dict)
    deltas: list[Delta] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Ask."""
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        asker = self.household.identity.resolve(Context(user_id=self.user), None, None)
        messages = [{"role": "user", "content": self.text}]
        request = GenerationRequest(messages, 60, parameters=self.parameters)
        ask = Ask(asker, self.workload, request)
        async with self.household.generate(ask) as deltas:
            async for delta in deltas:
                self.deltas.append(delta)

    @property
    def answer(self) -> str:
        """The text that arrived."""
        return "".join(d.text for d in self.deltas if isinstance(d, Content))

    @property
    def progress(self) -> list[int]:
        """How much of the prompt was read, as it was told."""
        return [d.processed for d in self.deltas if isinstance(d, PromptProgress)]

    @property
    def usage(self) -> Usage:
        """The one final count."""
        (usage,) = (d for d in self.deltas if isinstance(d, Usage))
        return usage


def voice(household: Household) -> Reader:
    """Have Parent say something short."""
    return Reader(household, Workload.VOICE, "user_parent", "light on")


def record_of(household: Household, workload: Workload) -> RequestRecord:
    """Return the only account of a workload."""
    (record,) = (r for r in household.records() if r.workload is workload)
    return record


def read_anew(fake: SlicingServer) -> int:
    """Return how many tokens the server computed of all prompts."""
    prompts = [
        fake.count_prompt(r.body)
        for r in fake.requests
        if r.path in {"/completion", "/v1/chat/completions"} and r.started.is_set()
    ]
    return sum(prompts) - sum(fake.told[-len(prompts) :])


async def test_a_long_prompt_enters_in_slices_and_is_paid_once(
    hass: HomeAssistant,
) -> None:
    async with SlicingServer(slots=1, pieces=WORDS) as fake, home(hass, fake) as house:
        summary = Reader(house)
        await summary.task
        record = record_of(house, Workload.BACKGROUND)
        total = fake.count_prompt(fake.chats[-1].body)
        charge = house.node_status("child").charge
    assert summary.answer == "".join(WORDS)
    assert fake.sizes == list(range(64, total, 64))
    assert summary.progress[: len(fake.sizes)] == fake.sizes
    assert record.tokens == TokenCount(total, 0, len(WORDS))
    assert record.charge == total + 2 * len(WORDS) == charge
    assert record.recomputed == TokenCount()
    assert summary.usage == Usage(total, 0, len(WORDS))
    assert read_anew(fake) == total


async def test_where_nobody_would_be_held_up_it_enters_in_one_go(
    hass: HomeAssistant,
) -> None:
    async with SlicingServer(slots=1, pieces=WORDS) as fake, home(hass, fake) as house:
        await Reader(house, Workload.VOICE, "user_parent").task
    assert fake.slices == []


async def test_what_was_cached_before_is_cheaper_and_not_read_again(
    hass: HomeAssistant,
) -> None:
    async with SlicingServer(slots=1, pieces=WORDS) as fake, home(hass, fake) as house:
        prompt = fake._prompt({"messages": [{"role": "user", "content": LONG}]})  # noqa: SLF001
        fake.held = fake._numbers(prompt)[:40]  # noqa: SLF001
        summary = Reader(house)
        await summary.task
        record = record_of(house, Workload.BACKGROUND)
        total = fake.count_prompt(fake.chats[-1].body)
    assert record.tokens == TokenCount(total - 40, 40, len(WORDS))
    assert (summary.usage.prompt_tokens, summary.usage.cached_tokens) == (total, 40)
    assert {d.cached for d in summary.deltas if isinstance(d, PromptProgress)} == {40}


async def test_a_voice_command_gets_the_slot_when_the_slice_ends(
    hass: HomeAssistant,
) -> None:
    async with SlicingServer(slots=1, pieces=WORDS) as fake, home(hass, fake) as house:
        gate = asyncio.Event()
        fake.happens.extend([_set(), gate])
        summary = Reader(house)
        await (await fake.wait_slices(2)).wait_started()
        spoken = voice(house)
        await until(lambda: house.status().waiting == 1)
        assert fake.chats == []
        gate.set()
        await spoken.task
        assert len(fake.slices) == 2
        await summary.task
        total = fake.count_prompt(fake.chats[-1].body)
        record = record_of(house, Workload.BACKGROUND)
        again = house.status().recomputed
        charge = house.node_status("child").charge
        assert house.status().running == house.status().waiting == 0
    assert fake.peak_running == 1
    assert summary.answer == "".join(WORDS)
    assert (record.outcome, record.preemptions) == (Outcome.FINISHED, 1)
    # What the voice command threw out of the cache was read again, and is not charged.
    assert record.tokens == TokenCount(total, 0, len(WORDS))
    assert record.charge == total + 2 * len(WORDS) == charge
    assert record.recomputed == again
    assert again.uncached > 0
    assert summary.usage == Usage(total, 0, len(WORDS))


def _set() -> asyncio.Event:
    """Return an event that holds up nothing."""
    event = asyncio.Event()
    event.set()
    return event


async def test_what_is_still_in_the_cache_after_an_interruption_is_not_read_again(
    hass: HomeAssistant,
) -> None:
    async with SlicingServer(slots=1, pieces=WORDS) as fake, home(hass, fake) as house:
        gate = asyncio.Event()
        fake.happens.append(gate)
        summary = Reader(house)
        await (await fake.wait_slices(1)).wait_started()
        spoken = voice(house)
        await until(lambda: house.status().waiting == 1)
        gate.set()
        await until(lambda: len(fake.chats) == 1 and fake.chats[0].started.is_set())
        held = fake._tokens(fake.slices[0].body)  # noqa: SLF001
        await spoken.task
        fake.held = held  # as from the store of prompts of a real server
        await summary.task
        record = record_of(house, Workload.BACKGROUND)
    assert record.preemptions == 1
    assert record.recomputed.uncached <= 64


async def test_an_answer_in_a_given_form_makes_room_while_its_prompt_is_read(
    hass: HomeAssistant,
) -> None:
    """Nothing of it is written yet; afterwards it is left alone."""
    async with SlicingServer(slots=1, pieces=["ok"]) as fake, home(hass, fake) as house:
        gate, writes = asyncio.Event(), asyncio.Event()
        fake.happens.append(gate)
        shaped = Reader(house, parameters={"grammar": "root ::= x"})
        await (await fake.wait_slices(1)).wait_started()
        spoken = voice(house)
        await until(lambda: house.status().waiting == 1)
        gate.set()
        await spoken.task
        fake.pieces = ["So", writes, " what"]
        await until(lambda: shaped.answer == "So")
        late = voice(house)
        await until(lambda: house.status().waiting == 1)
        writes.set()
        await asyncio.gather(shaped.task, late.task)
        assert house.status().running == 0
    assert shaped.answer == "So what"
    assert record_of(house, Workload.BACKGROUND).preemptions == 1


async def test_beside_a_voice_command_it_rests_and_goes_on_after_it(
    hass: HomeAssistant,
) -> None:
    async with SlicingServer(slots=2, pieces=["ok"]) as fake, home(hass, fake) as house:
        gate, speaks = asyncio.Event(), asyncio.Event()
        fake.happens.append(gate)
        fake.pieces = [speaks, "on"]
        summary = Reader(house)
        await (await fake.wait_slices(1)).wait_started()
        spoken = voice(house)
        await fake.wait_chats(1)
        gate.set()
        # The other one is being read: nobody else reads until it is.
        await until(lambda: summary.progress == [64])
        assert len(fake.slices) == 1
        speaks.set()
        await asyncio.gather(spoken.task, summary.task)
    assert len(fake.slices) > 1
    assert record_of(house, Workload.BACKGROUND).preemptions == 0


async def test_who_rests_makes_room_at_once(hass: HomeAssistant) -> None:
    async with SlicingServer(slots=2, pieces=["ok"]) as fake, home(hass, fake) as house:
        gate, one, other = asyncio.Event(), asyncio.Event(), asyncio.Event()
        fake.happens.append(gate)
        fake.pieces = [one, other, "on"]
        summary = Reader(house)
        await (await fake.wait_slices(1)).wait_started()
        first = voice(house)
        await fake.wait_chats(1)
        gate.set()
        await until(lambda: summary.progress == [64])
        second = voice(house)
        await fake.wait_chats(2)
        assert len(fake.slices) == 1
        assert house.status().waiting == 1
        one.set()
        other.set()
        await asyncio.gather(first.task, second.task, summary.task)
    assert record_of(house, Workload.BACKGROUND).preemptions == 1


async def test_who_made_room_before_anything_was_read_reads_all_of_it_later(
    hass: HomeAssistant,
) -> None:
    async with SlicingServer(slots=2, pieces=["ok"]) as fake, home(hass, fake) as house:
        one, other = asyncio.Event(), asyncio.Event()
        fake.pieces = [one, other, "on"]
        first = voice(house)
        await fake.wait_chats(1)
        chat = Reader(house, Workload.CHAT)
        await until(lambda: house.status().running == 2)
        second = voice(house)
        await fake.wait_chats(2)
        assert fake.slices == []
        one.set()
        other.set()
        await asyncio.gather(first.task, second.task, chat.task)
        record = record_of(house, Workload.CHAT)
        total = fake.count_prompt(fake.chats[-1].body)
    assert record.preemptions == 1
    assert fake.sizes == list(range(64, total, 64))
    assert record.recomputed == TokenCount()


# ---- what goes wrong -----------------------------------------------------------------


async def test_a_client_that_leaves_in_a_slice_holds_the_slot_until_it_is_read(
    hass: HomeAssistant,
) -> None:
    async with SlicingServer(slots=1, pieces=WORDS) as fake, home(hass, fake) as house:
        fake.happens.append(asyncio.Event())
        summary = Reader(house)
        received = await fake.wait_slices(1)
        await received.wait_started()
        summary.task.cancel()
        await received.wait_ended()
        await until(summary.task.done)
        record = record_of(house, Workload.BACKGROUND)
        await voice(house).task
        assert house.status().running == house.status().waiting == 0
    assert received.closed_by_client
    assert record.outcome is Outcome.CANCELLED
    assert record.tokens == TokenCount(64, 0, 0)
    assert record.charge == 64


async def test_a_client_that_leaves_between_slices_leaves_nothing_behind(
    hass: HomeAssistant,
) -> None:
    async with SlicingServer(slots=2, pieces=["ok"]) as fake, home(hass, fake) as house:
        speaks = asyncio.Event()
        fake.happens.append(_set())
        fake.pieces = [speaks, "on"]
        summary = Reader(house)
        await fake.wait_slices(1)
        spoken = voice(house)
        await fake.wait_chats(1)
        await until(lambda: bool(summary.progress))
        asked = len(fake.slices)
        summary.task.cancel()
        await until(summary.task.done)
        record = record_of(house, Workload.BACKGROUND)
        speaks.set()
        await spoken.task
    assert record.tokens.uncached == summary.progress[-1]
    assert len(fake.slices) == asked


async def test_a_server_that_keeps_no_beginnings_is_asked_for_the_whole(
    hass: HomeAssistant,
) -> None:
    async with SlicingServer(slots=1, pieces=WORDS) as fake, home(hass, fake) as house:
        fake.forgets = 9
        summary = Reader(house)
        await summary.task
        total = fake.count_prompt(fake.chats[-1].body)
        record = record_of(house, Workload.BACKGROUND)
        sizes = list(fake.sizes)
        # Nor is the next prompt sliced there.
        await Reader(house, text=f"Other {LONG}").task
    assert len(sizes) == len(fake.sizes) == 3
    assert record.tokens == TokenCount(total, 0, len(WORDS))
    assert record.recomputed.uncached == sizes[0] + sizes[1] + sizes[2]
    assert summary.usage == Usage(total, 0, len(WORDS))


async def test_a_server_without_such_a_path_is_asked_for_the_whole(
    hass: HomeAssistant,
) -> None:
    async with SlicingServer(slots=1, pieces=WORDS) as fake, home(hass, fake) as house:
        fake.hide = {"/completion"}
        summary = Reader(house)
        await summary.task
        record = record_of(house, Workload.BACKGROUND)
    assert len(fake.slices) == 1
    assert record.outcome is Outcome.FINISHED


async def test_a_prompt_that_is_rendered_in_another_way_is_asked_for_as_a_whole(
    hass: HomeAssistant,
) -> None:
    async with SlicingServer(slots=1, pieces=WORDS) as fake, home(hass, fake) as house:
        fake.hide = {"/tokenize"}
        await Reader(house).task
        await Reader(house).task
    assert fake.slices == []
    assert len(fake.chats) == 2


@pytest.mark.parametrize("happening", [RESET, error_event(500, "decode failed")])
async def test_a_server_that_fails_in_a_slice_is_asked_again_and_paid_once(
    hass: HomeAssistant, happening: Any
) -> None:
    async with SlicingServer(slots=1, pieces=WORDS) as fake, home(hass, fake) as house:
        fake.happens.extend([_set(), happening])
        summary = Reader(house)
        await summary.task
        total = fake.count_prompt(fake.chats[-1].body)
        record = record_of(house, Workload.BACKGROUND)
        charge = house.node_status("child").charge
    assert (record.outcome, record.preemptions) == (Outcome.FINISHED, 0)
    assert record.tokens == TokenCount(total, 0, len(WORDS))
    assert record.charge == charge == total + 2 * len(WORDS)


async def test_a_server_that_fails_before_anything_was_read_is_asked_again(
    hass: HomeAssistant,
) -> None:
    async with SlicingServer(slots=1, pieces=WORDS) as fake, home(hass, fake) as house:
        fake.happens.append(RESET)
        summary = Reader(house)
        await summary.task
    assert summary.answer == "".join(WORDS)


async def test_a_prompt_that_is_too_long_after_all_is_refused(
    hass: HomeAssistant,
) -> None:
    async with SlicingServer(slots=1, pieces=WORDS) as fake, home(hass, fake) as house:
        fake.happens.append(failure(400, "too long", "exceed_context_size_error"))
        summary = Reader(house)
        with pytest.raises(ContextOverflowError):
            await summary.task


async def test_a_used_up_quota_ends_it_between_two_slices(hass: HomeAssistant) -> None:
    quota = {"quota_tokens": 100, "quota_end": "stop"}
    async with (
        SlicingServer(slots=1, pieces=WORDS) as fake,
        home(hass, fake, **quota) as house,
    ):
        summary = Reader(house)
        with pytest.raises(Rejected) as refusal:
            await summary.task
    assert refusal.value.reason is RejectReason.QUOTA
    assert fake.chats == []


async def test_what_has_to_be_read_again_elsewhere_enters_in_slices_too(
    hass: HomeAssistant,
) -> None:
    pieces = [f" w{number}" for number in range(40)]
    one, two = (
        SlicingServer(slots=1, pieces=["ok"]),
        SlicingServer(slots=1, pieces=["ok"]),
    )
    async with one, two, home(hass, one, two) as house:
        hold = asyncio.Event()
        for fake in (one, two):
            fake.pieces = [*pieces[:20], hold, *pieces[20:]]
        summary = Reader(house)
        await until(lambda: summary.answer.endswith(" w19"))
        first, other = (one, two) if one.chats else (two, one)
        other.pieces = list(pieces)
        await first.stop()
        await summary.task
        record = record_of(house, Workload.BACKGROUND)
        total = other.count_prompt(other.chats[-1].body)
    assert summary.answer == "".join(pieces)
    assert other.sizes[0] == 64
    assert record.recomputed.uncached == total
    assert record.tokens.output == len(pieces)
    assert summary.usage.prompt_tokens == record.tokens.prompt
