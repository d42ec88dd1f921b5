"""Whom an urgent request may interrupt, and what that costs whom."""

from dataclasses import replace

import pytest

from custom_components.fair_share.admission.model import (
    Caps,
    NodeSpec,
    Outcome,
    PreemptionRules,
    QuotaSpec,
    RejectReason,
    Rule,
    TokenCount,
    Workload,
)

from .world import World, capacity

CHAT, TASK = "parent/direct/chat", "parent/direct/task"
BACKGROUND, VOICE = "child/direct/background", "parent/direct/voice"
RULES = PreemptionRules(min_run_tokens=2, nearly_done_tokens=4)


@pytest.fixture
def world() -> World:
    """Two members, one slot, interruption allowed."""
    made = World()
    made.member("parent", *Workload)
    made.member("child", *Workload)
    made.server(capacity(slots=1))
    made.set(preemption=RULES, background_share=0.0)
    return made


def victims(world: World) -> list[str]:
    """Return the ids of the requests that were asked to stop, in order."""
    return [each.request_id for each in world.preempted]


def test_a_voice_command_interrupts_background_work(world: World) -> None:
    summary = world.ask(BACKGROUND)
    world.output(summary, 10)
    voice = world.ask(VOICE)
    assert victims(world) == [summary]
    assert world.preempted[0].for_request_id == voice
    assert world.order() == [summary]
    world.pause(summary)
    assert world.order() == [summary, voice]
    world.end(voice, tokens=TokenCount(10, 0, 5))
    assert world.order() == [summary, voice, summary]


def test_nothing_is_interrupted_unless_the_household_allows_it(world: World) -> None:
    world.set(preemption=None)
    world.output(world.ask(BACKGROUND), 10)
    world.ask(VOICE)
    assert victims(world) == []


def test_a_free_slot_interrupts_nobody(world: World) -> None:
    world.server(capacity(slots=2))
    world.output(world.ask(BACKGROUND), 10)
    world.ask(VOICE)
    assert victims(world) == []


def test_one_interruption_at_a_time_is_enough(world: World) -> None:
    world.output(world.ask(BACKGROUND), 10)
    world.ask(VOICE)
    world.ask(VOICE)
    world.decide()
    assert len(victims(world)) == 1


@pytest.mark.parametrize(
    ("output", "produced"),
    [
        pytest.param(100, 1, id="has hardly begun"),
        pytest.param(12, 9, id="is nearly done"),
        pytest.param(100, 0, id="still reads its prompt"),
    ],
)
def test_an_answer_is_left_alone_that(world: World, output: int, produced: int) -> None:
    request_id = world.ask(BACKGROUND, output=output)
    for _ in range(produced):
        world.output(request_id)
    world.ask(VOICE)
    assert victims(world) == []


def test_a_command_interrupts_a_prompt_where_that_pays(world: World) -> None:
    world.set(preemption=replace(RULES, while_reading=True), background_share=0.0)
    world.server(capacity(slots=2))
    writes, reads = world.ask(BACKGROUND), world.ask(BACKGROUND)
    world.output(writes, 10)
    world.now += 1
    voice = world.ask(VOICE)
    assert victims(world) == [reads]
    world.pause(reads)
    assert world.order() == [writes, reads, voice]
    world.end(voice, tokens=TokenCount(10, 0, 5))
    assert world.order()[-1] == reads


def test_a_command_interrupts_no_prompt_that_was_sent_in_the_same_moment(
    world: World,
) -> None:
    world.set(preemption=replace(RULES, while_reading=True), background_share=0.0)
    world.ask(BACKGROUND)
    world.ask(VOICE)
    assert victims(world) == []


def test_an_equal_interrupts_no_prompt(world: World) -> None:
    world.set(preemption=replace(RULES, while_reading=True, threshold=-1e9))
    world.ask(CHAT)
    world.ask("child/direct/chat")
    assert victims(world) == []


def test_equals_leave_interruptions_to_what_is_more_urgent(world: World) -> None:
    world.set(preemption=replace(RULES, threshold=-1e9))
    chat = world.ask(CHAT, output=1000)
    world.output(chat, 10)
    other = world.ask("child/direct/chat")
    world.pause(chat)
    world.end(other, tokens=TokenCount(10, 0, 5))
    world.output(chat, 10)
    world.ask("child/direct/chat")
    assert victims(world) == [chat]
    world.ask(VOICE)
    assert victims(world) == [chat, chat]


def test_what_cannot_go_on_later_is_left_alone(world: World) -> None:
    request_id = world.ask(BACKGROUND, preemptible=False)
    world.output(request_id, 10)
    world.ask(VOICE)
    assert victims(world) == []


def test_an_answer_that_can_not_be_cut_just_now_is_left_alone_until_it_can(
    world: World,
) -> None:
    summary = world.ask(BACKGROUND)
    world.output(summary, 20)
    world.scheduler.shield(summary, shielded=True)
    world.ask(VOICE)
    assert victims(world) == []
    world.scheduler.shield(summary, shielded=False)
    world.decide()
    assert victims(world) == [summary]


def test_equals_interrupt_each_other_only_beyond_the_threshold(world: World) -> None:
    request_id = world.ask(CHAT, output=2000)
    world.output(request_id, 300)
    world.ask("child/direct/chat")
    assert victims(world) == []
    world.output(request_id, 300)
    world.decide()
    assert victims(world) == [request_id]


def test_other_policies_do_not_interrupt_equals(world: World) -> None:
    world.set(preemption=RULES, policy="equal_waiting")
    request_id = world.ask(CHAT, output=2000)
    world.output(request_id, 1000)
    world.ask("child/direct/chat")
    assert victims(world) == []


def test_nobody_is_interrupted_more_than_three_times(world: World) -> None:
    summary = world.ask(BACKGROUND, output=1000)
    for _ in range(3):
        world.output(summary, 10)
        voice = world.ask(VOICE)
        world.pause(summary)
        world.end(voice, Outcome.CANCELLED)
    assert victims(world) == [summary] * 3
    world.output(summary, 10)
    world.ask(VOICE)
    assert victims(world) == [summary] * 3


def test_the_most_patient_is_interrupted_first(world: World) -> None:
    world.server(capacity(slots=2))
    summary = world.ask(BACKGROUND)
    task = world.ask(TASK)
    for request_id in (summary, task):
        world.output(request_id, 10)
    world.ask(VOICE)
    assert victims(world) == [summary]


def test_of_two_speakers_the_one_with_more_left_to_say_is_interrupted(
    world: World,
) -> None:
    world.set(preemption=PreemptionRules(min_run_tokens=2, threshold=-1e9))
    world.server(capacity(slots=2))
    world.member("teen", *Workload)
    behind = world.ask("child/direct/voice", output=400)
    ahead = world.ask("teen/direct/voice", output=400)
    world.output(behind, 60)
    world.pass_time(5)
    world.output(ahead, 60)
    status = world.scheduler.node_status
    assert status("child").counter == status("teen").counter
    world.ask(VOICE)
    assert victims(world) == [ahead]


def test_the_interrupted_pays_once_and_the_reading_again_is_nobodys(
    world: World,
) -> None:
    summary = world.ask(BACKGROUND, prompt=100)
    world.scheduler.prompt_progress(summary, uncached=100, cached=0)
    world.output(summary, 20)
    voice = world.ask(VOICE)
    world.pass_time(1)
    world.pause(summary)
    world.end(voice, Outcome.CANCELLED)
    world.pass_time(2)
    world.scheduler.prompt_progress(summary, uncached=30, cached=90)
    world.output(summary, 30)
    record = world.end(summary, tokens=TokenCount(30, 90, 31))
    assert record.tokens == TokenCount(100, 0, 51)
    assert record.charge == 100 + 2 * 51
    assert (record.preemptions, record.paused_s) == (1, 2)
    assert record.longest_pause_s == 2
    assert record.wait_s == 0
    assert world.scheduler.status(world.now).recomputed == TokenCount(30, 90)
    assert world.scheduler.node_status("child").preemptions == 1
    assert world.scheduler.node_status("child").charge == record.charge


def test_a_prompt_whose_reading_is_interrupted_is_paid_when_it_is_read(
    world: World,
) -> None:
    summary = world.ask(BACKGROUND, prompt=100, output=50)
    world.scheduler.prompt_progress(summary, uncached=60, cached=0)
    world.scheduler.close_server("server", world.now)
    world.scheduler.preempted(summary, world.now, lost=True)
    assert world.scheduler.node_status("child").charge == 60
    world.server(capacity(slots=1))
    world.decide()
    assert world.scheduler.node_status("child").charge == 100 + 2 * 50
    assert world.scheduler.node_status("child").tokens == TokenCount()
    record = world.end(summary, tokens=TokenCount(90, 10, 5))
    assert record.tokens == TokenCount(90, 10, 5)
    assert record.charge == 90 + 10 * 0.1 + 2 * 5
    assert record.recomputed == TokenCount(60)
    assert world.scheduler.status(world.now).recomputed == TokenCount(60)


def test_who_goes_on_is_given_the_room_that_is_left(world: World) -> None:
    summary = world.ask(BACKGROUND, output=100)
    world.output(summary, 30)
    voice = world.ask(VOICE)
    world.pause(summary)
    world.end(voice, Outcome.CANCELLED)
    assert world.dispatched[-1].max_output_tokens == 70


def test_a_pause_that_lasts_too_long_makes_overdue(world: World) -> None:
    chat = world.ask(CHAT, output=1000)
    world.output(chat, 10)
    world.ask("child/direct/voice")
    world.pause(chat)
    for _ in range(3):
        world.ask("child/direct/voice")
    world.pass_time(6)
    world.end(world.order()[-1], Outcome.CANCELLED)
    assert world.order()[-1] == chat
    assert world.dispatched[-1].rule is Rule.OVERDUE


def test_who_leaves_while_interrupted_leaves_nothing_behind(world: World) -> None:
    summary = world.ask(BACKGROUND)
    world.output(summary, 10)
    voice = world.ask(VOICE)
    world.pause(summary)
    record = world.end(summary, Outcome.CANCELLED)
    assert record.tokens.output == 10
    world.end(voice)
    assert (world.running(), world.waiting()) == (0, 0)
    assert world.scheduler.node_status("child").last == record


def test_a_quota_that_ends_during_an_interruption_ends_the_answer(
    world: World,
) -> None:
    summary = world.ask(BACKGROUND)
    world.output(summary, 10)
    world.ask(VOICE)
    world.pause(summary)
    world.scheduler.put_node(NodeSpec("child", quota=QuotaSpec(5)), world.wall)
    world.decide()
    assert [each.request_id for each in world.rejected] == [summary]


def test_a_class_that_is_removed_meanwhile_ends_the_answer(world: World) -> None:
    summary = world.ask(BACKGROUND)
    world.output(summary, 10)
    world.ask(VOICE)
    world.scheduler.remove_node("child")
    world.pause(summary)
    assert [each.request_id for each in world.rejected] == [summary]
    assert world.rejected[0].error.reason is RejectReason.CLASS_REMOVED
    assert world.running() == 1


def test_a_request_that_waits_for_memory_may_interrupt() -> None:
    world = World()
    world.member("parent", *Workload)
    world.member("child", *Workload)
    world.server(capacity(slots=4, context=1000, pool=1000))
    world.set(preemption=RULES, background_share=0.0)
    summary = world.ask(BACKGROUND, prompt=600, output=200)
    world.output(summary, 10)
    chat = world.ask(CHAT, prompt=400, output=100)
    assert victims(world) == [summary]
    world.pause(summary)
    assert world.order()[-1] == chat


def test_an_unreachable_server_interrupts_nobody(world: World) -> None:
    world.output(world.ask(BACKGROUND), 10)
    world.scheduler.close_server("server", world.now)
    world.ask(VOICE)
    assert victims(world) == []


def test_a_class_never_interrupts_itself(world: World) -> None:
    world.output(world.ask(CHAT, output=2000), 1000)
    world.ask(CHAT)
    assert victims(world) == []


def test_who_waits_at_an_own_limit_interrupts_nobody(world: World) -> None:
    world.server(capacity(slots=3))
    world.scheduler.put_node(NodeSpec("parent", caps=Caps(in_flight=1)), world.wall)
    world.output(world.ask(BACKGROUND), 10)
    world.ask(VOICE)
    world.ask(VOICE)
    assert victims(world) == []


def test_the_interrupted_goes_on_before_its_own_class(world: World) -> None:
    summary = world.ask(BACKGROUND)
    behind = world.ask(BACKGROUND)
    world.output(summary, 10)
    voice = world.ask(VOICE)
    world.pause(summary)
    world.end(voice, Outcome.CANCELLED)
    world.end(summary, tokens=TokenCount(10, 0, 5))
    assert world.order() == [summary, voice, summary, behind]


def test_an_interruption_is_no_absence_that_a_lift_would_end(world: World) -> None:
    summary = world.ask(BACKGROUND)
    world.server(capacity(slots=2))
    for _ in range(2):
        world.end(world.ask(CHAT), tokens=TokenCount(1000, 0, 1))
    world.ask(CHAT)
    world.ask(CHAT)
    world.end("r4", tokens=TokenCount(1000, 0, 1))
    assert world.scheduler.node_status("parent").counter > 2000
    world.output(summary, 20)
    world.ask(VOICE)
    world.scheduler.preempted(summary, world.now)
    assert world.scheduler.node_status("child").counter == 10 + 2 * 20


def test_interruptions_are_counted_up_to_the_household_and_outlive_a_restart(
    world: World,
) -> None:
    summary = world.ask(BACKGROUND)
    world.output(summary, 10)
    world.ask(VOICE)
    world.pause(summary)
    again = World()
    again.scheduler.restore_state(world.scheduler.export_state())
    again.member("parent", *Workload)
    again.member("child", *Workload)
    nodes = ("household", "child", BACKGROUND, "parent", VOICE)
    counted = [again.scheduler.node_status(node).preemptions for node in nodes]
    assert counted == [1, 1, 1, 0, 0]


def test_what_was_written_has_to_have_room_where_an_answer_goes_on(
    world: World,
) -> None:
    summary = world.ask(BACKGROUND, prompt=100, output=1000)
    world.output(summary, 200)
    world.server(capacity("small", context=250))
    world.scheduler.preempted(summary, world.now, lost=True)
    world.scheduler.close_server("server", world.now)
    world.decide()
    assert world.scheduler.status(world.now).waiting == 1
    world.server(capacity("fits", context=301))
    world.decide()
    assert world.dispatched[-1].server_id == "fits"
    assert world.dispatched[-1].max_output_tokens == 1


def test_an_interrupted_answer_goes_on_only_at_servers_that_can(world: World) -> None:
    summary = world.ask(BACKGROUND)
    world.output(summary, 20)
    world.scheduler.close_server("server", world.now)
    able = frozenset({"server", "able"})
    world.scheduler.preempted(summary, world.now, servers=able)
    for server_id in ("unable", "able"):
        world.server(capacity(server_id))
        world.decide()
    assert [d.server_id for d in world.dispatched] == ["server", "able"]
