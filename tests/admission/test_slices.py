"""What a prompt that is read in slices costs, and who may interrupt it."""

import asyncio
from dataclasses import replace

import pytest

from custom_components.fair_share.admission.model import (
    PreemptionRules,
    QuotaEnd,
    QuotaSpec,
    RequestClass,
    TokenCount,
    Verdict,
    Workload,
)
from custom_components.fair_share.admission.slicing import Slice

from .test_queue import CHAT as PARENT_CHAT, Home, open_home, settle
from .world import World, capacity

VOICE, CHAT = "parent/direct/voice", "parent/direct/chat"
BACKGROUND = "child/direct/background"
RULES = PreemptionRules(min_run_tokens=2, nearly_done_tokens=4)
SPOKEN = "parent/direct/voice"
PROMPT = 1000


@pytest.fixture
def world() -> World:
    """Two members, one slot, interruption allowed."""
    made = World()
    made.member("parent", *Workload)
    made.member("child", *Workload)
    made.server(capacity(slots=1))
    made.set(preemption=RULES, background_share=0.0)
    made.scheduler.expect(Workload.VOICE, 1e6, made.now)
    return made


def slice_of(world: World, request_id: str, *, read: int, again: int = 0) -> Verdict:
    """Let a slice end at ``read`` tokens of a prompt of which nothing was cached."""
    world.scheduler.next_slice(request_id, done=read - 64, total=PROMPT, now=world.now)
    world.now += 1.0
    world.scheduler.prompt_progress(request_id, uncached=read, cached=0, again=again)
    return world.scheduler.note_slice(request_id, 64, 1.0, lost=False, now=world.now)


def victims(world: World) -> list[str]:
    """Return the ids of the requests that were asked to stop, in order."""
    return [each.request_id for each in world.preempted]


def charge(world: World, node_id: str = "child") -> float:
    """Return what a member was charged so far."""
    return world.scheduler.node_status(node_id).charge


def test_what_was_read_in_slices_is_paid_once_though_it_was_interrupted(
    world: World,
) -> None:
    summary = world.ask(BACKGROUND, prompt=PROMPT)
    slice_of(world, summary, read=64)
    slice_of(world, summary, read=128)
    voice = world.ask(VOICE)
    assert victims(world) == [summary]
    world.pause(summary)
    assert charge(world) == 128
    assert world.order() == [summary, voice]
    world.end(voice, tokens=TokenCount(10, 0, 5))
    assert world.order() == [summary, voice, summary]
    slice_of(world, summary, read=192)
    assert world.scheduler.status(world.now).recomputed == TokenCount()
    world.output(summary)
    record = world.end(summary, tokens=TokenCount(PROMPT, 0, 10))
    assert record.tokens == TokenCount(PROMPT, 0, 10)
    assert record.charge == PROMPT + 2 * 10 == charge(world)
    assert record.recomputed == TokenCount()
    assert record.preemptions == 1
    # Reading on ends the pause, not the first word after it.
    assert record.paused_s == 0.0


def test_what_has_to_be_read_again_is_charged_to_nobody(world: World) -> None:
    summary = world.ask(BACKGROUND, prompt=PROMPT)
    slice_of(world, summary, read=128)
    world.ask(VOICE)
    world.pause(summary)
    world.end("r2", tokens=TokenCount(10, 0, 5))
    slice_of(world, summary, read=192, again=128)
    slice_of(world, summary, read=256, again=128)
    assert world.scheduler.status(world.now).recomputed == TokenCount(128)
    world.output(summary)
    record = world.end(summary, tokens=TokenCount(PROMPT, 0, 10))
    assert record.charge == PROMPT + 2 * 10 == charge(world)
    assert record.recomputed == TokenCount(128)


def test_a_resumed_answer_that_is_read_again_in_slices_pays_nothing(
    world: World,
) -> None:
    summary = world.ask(BACKGROUND, prompt=PROMPT)
    slice_of(world, summary, read=64)
    world.output(summary, 10)
    world.ask(VOICE)
    world.pause(summary)
    world.end("r2", tokens=TokenCount(10, 0, 5))
    before = charge(world)
    slice_of(world, summary, read=640, again=5)
    assert world.scheduler.status(world.now).recomputed == TokenCount(645)
    assert world.scheduler.node_status("child").tokens.uncached == PROMPT
    assert charge(world) == before


def test_a_paused_prompt_is_expected_to_cost_only_what_is_left(world: World) -> None:
    """Else nobody else's short request could be told from it by its cost."""
    summary = world.ask(BACKGROUND, prompt=PROMPT)
    slice_of(world, summary, read=960)
    world.ask(VOICE)
    world.pause(summary)
    (entry,) = world.scheduler._board.waiting.values()  # noqa: SLF001 - nothing tells it
    left = entry.expected_cost(entry.costs) - 2 * entry.expected_left()
    assert left == PROMPT - 960


def test_a_prompt_in_slices_makes_room_whatever_else_is_set(world: World) -> None:
    """Not for long prompts with short answers only, and as often as is needed."""
    assert not RULES.while_reading
    summary = world.ask(BACKGROUND, prompt=PROMPT, output=4)
    for turn in range(1, 6):
        slice_of(world, summary, read=64 * turn)
        voice = world.ask(VOICE)
        assert victims(world) == [summary] * turn
        world.pause(summary)
        world.end(voice, tokens=TokenCount(10, 0, 5))
    world.output(summary)
    assert world.end(summary, tokens=TokenCount(PROMPT, 0, 4)).preemptions == 5


def test_interruptions_between_slices_do_not_use_up_those_of_the_answer(
    world: World,
) -> None:
    world.set(preemption=replace(RULES, most_per_request=1))
    summary = world.ask(BACKGROUND, prompt=PROMPT)
    slice_of(world, summary, read=64)
    world.ask(VOICE)
    world.pause(summary)
    world.end("r2", tokens=TokenCount(10, 0, 5))
    world.output(summary, 10)
    world.ask(VOICE)
    assert victims(world) == [summary] * 2


def test_of_two_prompts_the_one_in_slices_makes_room(world: World) -> None:
    world.server(capacity(slots=2))
    world.set(preemption=replace(RULES, while_reading=True), background_share=0.0)
    sliced = world.ask(BACKGROUND, prompt=PROMPT)
    world.now += 1.0
    slice_of(world, sliced, read=64)
    world.ask(BACKGROUND, prompt=50)
    world.now += 1.0
    world.ask(VOICE)
    assert victims(world) == [sliced]


def test_a_prompt_in_slices_makes_room_for_an_equal_who_is_far_behind(
    world: World,
) -> None:
    world.set(preemption=replace(RULES, threshold=100.0), background_share=0.0)
    ours = world.ask("child/direct/chat", prompt=PROMPT)
    slice_of(world, ours, read=64)
    slice_of(world, ours, read=640)
    world.ask(CHAT, prompt=50)
    assert victims(world) == [ours]


def test_a_used_up_quota_stops_a_prompt_between_its_slices() -> None:
    world = World()
    world.server(capacity(slots=1))
    quota = QuotaSpec(100, at_end=QuotaEnd.STOP)
    world.member("child", Workload.BACKGROUND, quota=quota)
    summary = world.ask(BACKGROUND, prompt=PROMPT)
    assert slice_of(world, summary, read=64) is Verdict.CONTINUE
    assert slice_of(world, summary, read=128) is Verdict.STOP_QUOTA


async def test_a_grant_tells_what_to_read_and_is_told_what_was() -> None:
    async with open_home() as home, home.queue.admit(home.request()) as grant:
        home.queue.expect(Workload.VOICE, 10.0)
        assert grant.next_slice(done=0, total=PROMPT) == Slice(64)
        home.clock.advance(0.01)
        grant.prompt_progress(uncached=64, cached=0)
        assert grant.note_slice(64, 0.01, lost=False) is Verdict.CONTINUE
        assert grant.next_slice(done=64, total=PROMPT) == Slice(PROMPT - 64)
        grant.read_in_one_go()
        assert home.queue.node_status(PARENT_CHAT).tokens.uncached == 64
        home.queue.close()
        assert grant.note_slice(64, 0.01, lost=False) is Verdict.STOP_CLOSED


@pytest.mark.parametrize("reports", [True, False])
async def test_one_who_reads_in_slices_is_asked_to_leave_at_its_next_report(
    reports: bool,  # noqa: FBT001 - a case of a table
) -> None:
    """Nobody writes meanwhile, so nothing else would have the queue look again."""
    async with open_home() as home:
        voice = RequestClass(SPOKEN, "parent/direct", Workload.VOICE)
        home.queue.put_class(voice)
        home.queue.configure(replace(home.queue.settings, preemption=RULES))
        asked = asyncio.Event()
        async with home.queue.admit(home.request()) as grant:
            grant.listen(asked.set)
            home.queue.expect(Workload.VOICE, 10.0)
            grant.next_slice(done=0, total=PROMPT)
            spoken = asyncio.create_task(speak(home))
            await settle()
            assert not asked.is_set()  # it was sent only now
            home.clock.advance(0.2)
            report = {
                True: lambda: grant.note_slice(64, 0.2, lost=False),
                False: lambda: grant.next_slice(done=0, total=PROMPT),
            }
            report[reports]()
            assert asked.is_set()
        await spoken


async def speak(home: Home) -> None:
    """Have a voice command answered."""
    async with home.queue.admit(home.request(class_id=SPOKEN)) as grant:
        grant.finish()
