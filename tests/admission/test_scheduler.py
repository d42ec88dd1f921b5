"""Who starts next, where and why: one situation at a time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from custom_components.fair_share.admission.model import (
    DEFAULT_PROFILES,
    Caps,
    CostWeights,
    Limits,
    NodeSpec,
    Outcome,
    QuotaSpec,
    QuotaWindow,
    Rejected,
    RejectReason,
    Request,
    RequestClass,
    Rule,
    Settings,
    TokenCount,
    Verdict,
    Workload,
)
from custom_components.fair_share.admission.scheduler import Scheduler

from .world import START, World, capacity

HASTY = {
    # No ageing, so that only being overdue makes patient work urgent.
    workload: replace(profile, age_step_s=1e9)
    for workload, profile in DEFAULT_PROFILES.items()
}
ADA, BEN = "parent/direct/chat", "child/direct/chat"


@pytest.fixture
def world() -> World:
    """Two members who chat, and one server with one slot."""
    made = World()
    made.member("parent", *Workload)
    made.member("child", *Workload)
    made.server(capacity(slots=1))
    return made


def rule_of(world: World, request_id: str) -> Rule:
    """Return why a request waits or runs."""
    status = world.scheduler.status(world.now)
    return next(each.rule for each in status.requests if each.request_id == request_id)


# Order


def test_a_class_is_served_first_come_first_served(world: World) -> None:
    asked = [world.ask(ADA) for _ in range(4)]
    for request_id in asked:
        world.end(request_id)
    assert world.order() == asked


def test_who_was_served_less_goes_first(world: World) -> None:
    first = world.ask(ADA, prompt=500)
    second = world.ask(ADA)
    other = world.ask(BEN)
    world.end(first, tokens=TokenCount(500, 0, 100))
    assert world.order() == [first, other]
    world.end(other, tokens=TokenCount(10, 0, 10))
    assert world.order() == [first, other, second]
    assert world.dispatched[1].rule is Rule.POLICY


def test_equals_are_served_in_the_order_of_their_arrival(world: World) -> None:
    blocker = world.ask("parent/direct/voice")
    late = World.ask
    child, parent = late(world, BEN), late(world, ADA)
    world.end(blocker, Outcome.CANCELLED)
    assert world.order() == [blocker, child]
    world.end(child, Outcome.CANCELLED)
    assert world.order() == [blocker, child, parent]


def test_urgent_work_goes_before_patient_work(world: World) -> None:
    running = world.ask("child/direct/background")
    world.ask("child/direct/background")
    chat = world.ask(ADA)
    voice = world.ask("parent/direct/voice", prompt=1000)
    world.end(running)
    assert world.order() == [running, voice]
    assert world.dispatched[1].rule is Rule.BAND
    assert rule_of(world, voice) is Rule.BAND
    world.end(voice)
    assert world.order() == [running, voice, chat]


def test_waiting_makes_patient_work_more_urgent(world: World) -> None:
    running = world.ask(ADA)
    task = world.ask("child/direct/task")
    world.pass_time(61)
    fresh = world.ask("parent/direct/chat")
    world.end(running)
    assert world.order() == [running, task]
    world.end(task)
    assert world.order()[-1] == fresh


def test_overdue_work_is_certain_of_every_second_start(world: World) -> None:
    running = world.ask("parent/direct/background")
    late = [
        world.ask(f"{who}/direct/{kind}")
        for who, kind in (("child", "background"), ("parent", "task"))
    ]
    world.set(profiles=HASTY, background_share=0.0)
    world.pass_time(1900)
    for _ in range(3):
        world.ask("child/direct/voice")
    for _ in range(4):
        world.end(world.order()[-1], tokens=TokenCount(10, 0, 1000))
    rules = [dispatch.rule for dispatch in world.dispatched]
    assert [rule is Rule.OVERDUE for rule in rules] == [False, True, False, True, False]
    assert set(world.order()[1::2]) == set(late)
    assert running == world.order()[0]


def test_of_two_overdue_the_one_that_was_due_first_goes_first(world: World) -> None:
    world.set(profiles=HASTY, background_share=0.0)
    running = world.ask(ADA)
    world.ask("parent/direct/background")
    world.pass_time(1600)
    second = world.ask("child/direct/task")
    world.pass_time(350)
    world.end(running)
    assert world.dispatched[-1].rule is Rule.OVERDUE
    assert world.order()[-1] != second


def test_a_long_queue_of_ones_own_makes_nobody_overdue(world: World) -> None:
    for _ in range(6):
        world.ask(ADA)
    for _ in range(4):
        world.pass_time(50)
        world.end(world.order()[-1], tokens=TokenCount(10, 0, 100))
    assert Rule.OVERDUE not in {dispatch.rule for dispatch in world.dispatched}


def test_what_no_server_in_reach_can_hold_holds_up_nobody_behind_it(
    world: World,
) -> None:
    world.server(capacity("large", slots=1, context=50_000))
    world.scheduler.close_server("large", world.now)
    large = world.ask(ADA, prompt=20_000)
    small = world.ask(ADA)
    assert world.order() == [small]
    assert rule_of(world, large) is Rule.NO_SERVER
    assert world.scheduler.next_deadline(world.now) == 120
    world.pass_time(120)
    assert [each.request_id for each in world.rejected] == [large]


def test_what_comes_into_reach_again_is_patient_anew(world: World) -> None:
    world.server(capacity("large", slots=1, context=50_000))
    running = world.ask(ADA, prompt=20_000)
    large = world.ask(ADA, prompt=20_000)
    world.scheduler.close_server("large", world.now)
    world.pass_time(100)
    world.server(capacity("large", slots=1, context=50_000))
    world.pass_time(100)
    assert world.rejected == []
    world.end(running)
    assert world.order()[-1] == large


def test_the_next_request_of_a_turn_goes_before_its_class(world: World) -> None:
    running = world.ask(ADA)
    behind = world.ask(ADA)
    again = world.ask(ADA, continues=True)
    world.end(running)
    world.end(again)
    assert world.order() == [running, again, behind]


# Capacity


def test_never_more_runs_than_there_are_slots(world: World) -> None:
    world.server(capacity(slots=2))
    asked = [world.ask(ADA) for _ in range(5)]
    assert world.order() == asked[:2]
    assert rule_of(world, asked[2]) is Rule.NO_SLOT
    assert rule_of(world, asked[3]) is Rule.BEHIND_OTHERS


def test_a_server_that_lost_a_slot_starts_nothing_until_it_has_one_again(
    world: World,
) -> None:
    world.server(capacity(slots=2))
    first, second, third = (world.ask(ADA) for _ in range(3))
    world.server(capacity(slots=1))
    world.end(first)
    assert world.order() == [first, second]
    world.end(second)
    assert world.order() == [first, second, third]


def test_of_three_that_together_exceed_the_pool_the_third_waits() -> None:
    world = World()
    world.member("parent")
    world.server(capacity(slots=4, context=1000, pool=1000))
    first, second, third = (world.ask(ADA, prompt=350, output=100) for _ in range(3))
    assert world.order() == [first, second]
    assert rule_of(world, third) is Rule.NO_KV
    world.end(first)
    assert world.order() == [first, second, third]


def test_an_engine_that_makes_room_itself_is_planned_with_likely_lengths() -> None:
    world = World()
    world.member("parent")
    world.server(capacity(slots=9, context=2000, pool=2000, block=16, survives=True))
    for _ in range(3):
        world.end(
            world.ask(ADA, prompt=100, output=1500), tokens=TokenCount(100, 0, 20)
        )
    asked = [world.ask(ADA, prompt=100, output=1500) for _ in range(5)]
    assert world.running() == len(asked)


def test_what_waits_for_memory_is_overtaken_only_by_so_much() -> None:
    world = World()
    for who in ("parent", "child", "teen"):
        world.member(who, Workload.CHAT)
    world.server(capacity(slots=9, context=1000, pool=1400))
    world.set(bypass=700.0)
    running = world.ask("teen/direct/chat", prompt=600, output=100)
    large = world.ask(BEN, prompt=700, output=16)
    small = [world.ask(ADA, prompt=10, output=150) for _ in range(4)]
    assert rule_of(world, large) is Rule.NO_KV
    overtook = [each for each in world.dispatched if each.rule is Rule.BYPASS]
    assert [each.request_id for each in overtook] == small[:2]
    assert rule_of(world, small[2]) is Rule.BEHIND_BLOCKED
    assert rule_of(world, small[3]) is Rule.BEHIND_OTHERS
    world.end(running)
    assert large in world.order()


def test_the_answer_is_limited_to_what_has_room(world: World) -> None:
    world.ask(ADA, prompt=4000, output=1000)
    assert world.dispatched[0].max_output_tokens == 96


def test_a_prompt_that_no_server_can_hold_is_refused_at_once(world: World) -> None:
    with pytest.raises(Rejected) as refusal:
        world.ask(ADA, prompt=4090, output=1000)
    assert refusal.value.reason is RejectReason.TOO_LONG
    assert refusal.value.limit_tokens == 4096
    assert world.scheduler.node_status("parent").rejected == 1
    assert world.waiting() == 0


def test_what_waits_is_refused_when_the_last_server_that_could_hold_it_shrinks(
    world: World,
) -> None:
    world.ask(ADA)
    large = world.ask(ADA, prompt=2000)
    world.server(capacity(slots=1, context=1024))
    world.decide()
    assert [rejection.request_id for rejection in world.rejected] == [large]
    assert world.rejected[0].error.reason is RejectReason.TOO_LONG


def test_a_limit_of_requests_at_once_holds_one_back_and_nobody_else(
    world: World,
) -> None:
    world.server(capacity(slots=3))
    world.scheduler.put_node(NodeSpec("parent", caps=Caps(in_flight=1)), world.wall)
    first, second = world.ask(ADA), world.ask(ADA)
    other = world.ask(BEN)
    assert world.order() == [first, other]
    assert rule_of(world, second) is Rule.IN_FLIGHT_CAP
    world.end(first)
    assert world.order() == [first, other, second]


def test_who_was_held_back_by_an_own_limit_saved_up_nothing() -> None:
    world = World()
    world.member("parent", caps=Caps(in_flight=1))
    world.member("child")
    world.server(capacity(slots=2))
    world.ask(ADA, output=4000)
    world.ask(ADA, output=4000)
    for _ in range(20):
        world.end(world.ask(BEN), tokens=TokenCount(100, 0, 100))
        world.ask(BEN)
        world.end(world.order()[-1], tokens=TokenCount(100, 0, 100))
    world.scheduler.put_node(NodeSpec("parent"), world.wall)
    world.decide()
    parent, child = (
        world.scheduler.node_status(member) for member in ("parent", "child")
    )
    assert parent.counter >= child.counter - 1000


# Servers


def test_a_request_goes_where_most_is_free(world: World) -> None:
    world.server(capacity("big", slots=3))
    for _ in range(3):
        world.ask(ADA)
    assert [each.server_id for each in world.dispatched] == ["big", "big", "server"]


def test_a_request_goes_where_its_prefix_is(world: World) -> None:
    world.server(capacity("big", slots=3))
    world.ask(ADA, preferred="server")
    assert world.dispatched[0].server_id == "server"


def test_a_request_that_needs_a_full_server_does_not_hold_up_the_others(
    world: World,
) -> None:
    world.server(capacity("other", slots=1))
    only = frozenset({"server"})
    running = world.ask(ADA, servers=only)
    bound = world.ask(ADA, servers=only)
    free = world.ask(BEN)
    assert world.order() == [running, free]
    assert rule_of(world, bound) is Rule.NO_SLOT


def test_while_no_server_can_be_reached_requests_wait_for_their_patience(
    world: World,
) -> None:
    world.scheduler.close_server("server", world.now)
    voice = world.ask("parent/direct/voice")
    background = world.ask("parent/direct/background")
    assert rule_of(world, voice) is Rule.NO_SERVER
    assert world.scheduler.next_deadline(world.now) == 60
    world.pass_time(60)
    assert [each.request_id for each in world.rejected] == [voice]
    assert world.rejected[0].error.reason is RejectReason.NO_SERVER
    world.server(capacity(slots=1))
    world.decide()
    assert world.order() == [background]
    assert world.scheduler.next_deadline(world.now) is None


def test_patience_begins_when_the_last_server_was_lost(world: World) -> None:
    world.ask("parent/direct/voice")
    waiting = world.ask("parent/direct/voice")
    world.pass_time(100)
    assert world.rejected == []
    world.scheduler.close_server("server", world.now)
    world.scheduler.close_server("server", world.now)
    world.scheduler.close_server("nobody", world.now)
    world.pass_time(59)
    assert world.rejected == []
    world.pass_time(1)
    assert [each.request_id for each in world.rejected] == [waiting]


def test_another_server_keeps_patience_from_running_out(world: World) -> None:
    world.server(capacity("other", slots=1))
    world.scheduler.close_server("server", world.now)
    assert world.scheduler.next_deadline(world.now) is None


def test_a_removed_server_gives_its_places_away(world: World) -> None:
    first = world.ask(ADA)
    second = world.ask(ADA)
    world.server(capacity("other", slots=1))
    world.scheduler.remove_server("server", world.now)
    world.decide()
    world.end(first, Outcome.FAILED)
    assert world.order() == [first, second]
    assert world.running() == 1


# Accounts


def test_a_request_is_prepaid_charged_beyond_it_and_refunded(world: World) -> None:
    request_id = world.ask(ADA, prompt=100, output=1000, cached=50)
    assert world.scheduler.node_status("parent").charge == 50 + 5 + 2 * 128
    world.output(request_id, 15)
    assert world.scheduler.node_status("parent").charge == 55 + 2 * 128
    world.output(request_id, 1)
    assert world.scheduler.node_status("parent").charge == 55 + 2 * (16 + 128)
    world.output(request_id, 184)
    assert world.scheduler.node_status("parent").charge == 55 + 2 * 256
    world.output(request_id, 66)
    assert world.scheduler.node_status("parent").charge == 55 + 2 * (266 + 66)
    record = world.end(request_id, tokens=TokenCount(20, 80, 266))
    assert record.charge == pytest.approx(20 + 8 + 2 * 266)
    assert world.scheduler.node_status("household").charge == record.charge
    assert world.scheduler.node_status("child").charge == 0


def test_a_request_that_was_cancelled_is_charged_for_what_was_done(
    world: World,
) -> None:
    request_id = world.ask(ADA, prompt=100)
    world.scheduler.prompt_progress(request_id, uncached=60, cached=0)
    record = world.end(request_id, Outcome.CANCELLED)
    assert record.charge == 60
    assert record.tokens == TokenCount(60, 0, 0)
    assert record.ttft_s is None


def test_the_record_tells_waiting_and_first_token_from_arrival(world: World) -> None:
    first = world.ask(ADA)
    second = world.ask(ADA)
    world.pass_time(3)
    world.end(first)
    world.pass_time(2)
    world.output(second)
    world.pass_time(1)
    record = world.end(second)
    assert (record.wait_s, record.ttft_s, record.duration_s) == (3, 5, 6)
    assert world.scheduler.node_status("parent").last == record


def test_a_request_that_leaves_the_queue_leaves_nothing_behind(world: World) -> None:
    running = world.ask(ADA)
    waiting = world.ask(ADA)
    record = world.end(waiting, Outcome.CANCELLED)
    assert (record.charge, record.rule, record.server_id) == (0, None, None)
    world.end(running)
    assert (world.running(), world.waiting()) == (0, 0)


def test_new_prices_hold_for_what_starts_from_now_on(world: World) -> None:
    first = world.ask(ADA, prompt=100, output=10)
    world.set(costs=CostWeights(2, 0, 5))
    second = world.ask(ADA, prompt=100, output=10)
    assert world.end(first, tokens=TokenCount(100, 0, 10)).charge == 120
    assert world.end(second, tokens=TokenCount(100, 0, 10)).charge == 250


# Quotas


@pytest.fixture
def limited(world: World) -> World:
    """The same with a daily quota of 100 tokens for one of them."""
    world.scheduler.put_node(NodeSpec("parent", quota=QuotaSpec(100)), world.wall)
    return world


def test_a_running_answer_is_stopped_at_the_end_of_a_quota(limited: World) -> None:
    request_id = limited.ask(ADA, prompt=50, output=500)
    verdicts = [limited.output(request_id) for _ in range(64)]
    assert verdicts.index(Verdict.STOP_QUOTA) == 63
    assert verdicts[:63] == [Verdict.CONTINUE] * 63


def test_with_a_quota_used_up_nothing_more_starts_until_it_resets(
    limited: World,
) -> None:
    request_id = limited.ask(ADA, prompt=200)
    waiting = limited.ask(ADA)
    limited.output(request_id)
    limited.decide()
    assert [each.request_id for each in limited.rejected] == [waiting]
    with pytest.raises(Rejected) as refusal:
        limited.ask(ADA)
    assert refusal.value.reason is RejectReason.QUOTA
    assert refusal.value.retry_after_s == 12 * 3600
    limited.end(request_id)
    limited.pass_time(12 * 3600)
    assert limited.scheduler.node_status("parent").window.used_tokens == 0
    assert "parent" in limited.reset
    assert limited.ask(ADA) == limited.order()[-1]


def test_a_request_right_after_midnight_finds_the_new_window(limited: World) -> None:
    limited.end(limited.ask(ADA, prompt=200), tokens=TokenCount(200, 0, 1))
    limited.wall += timedelta(hours=12)
    assert limited.ask(ADA) == limited.order()[-1]


def test_granted_tokens_open_a_quota_again(limited: World) -> None:
    limited.end(limited.ask(ADA, prompt=200), tokens=TokenCount(200, 0, 1))
    limited.scheduler.grant("parent", 200)
    assert limited.ask(ADA) == limited.order()[-1]


def test_cached_prompt_tokens_are_free_of_the_quota(limited: World) -> None:
    limited.end(limited.ask(ADA, prompt=50), tokens=TokenCount(5, 4000, 5))
    assert limited.scheduler.node_status("parent").window.used_tokens == 10


# Refusals


def test_a_full_queue_says_how_long_it_will_take(world: World) -> None:
    world.set(limits=Limits(queued=2))
    for _ in range(3):
        world.ask(ADA)
    with pytest.raises(Rejected) as refusal:
        world.ask(BEN)
    assert refusal.value.reason is RejectReason.QUEUE_FULL
    assert refusal.value.retry_after_s == 30


def test_a_request_that_could_start_at_once_expects_no_wait(world: World) -> None:
    assert world.scheduler.expected_wait_s(ADA, world.now) == 0


def test_the_expected_wait_follows_speed_and_what_is_ahead(world: World) -> None:
    request_id = world.ask(ADA, prompt=100, output=100)
    world.pass_time(2)
    world.output(request_id)
    world.pass_time(10)
    world.output(request_id, 99)
    world.end(request_id, tokens=TokenCount(100, 0, 100))
    world.ask(ADA, prompt=100, output=100)
    world.ask(ADA, prompt=100, output=100)
    expected = world.scheduler.expected_wait_s(BEN, world.now)
    assert expected == pytest.approx(10 + 12)
    assert world.scheduler.expected_wait_s("child/direct/voice", world.now) == 10


def test_one_class_cannot_fill_the_queue(world: World) -> None:
    world.set(limits=Limits(queued_per_class=1))
    world.ask(ADA)
    world.ask(ADA)
    with pytest.raises(Rejected):
        world.ask(ADA)
    assert world.ask(BEN)


def test_the_next_request_of_a_turn_is_never_refused_by_a_full_queue(
    world: World,
) -> None:
    world.set(limits=Limits(queued=1))
    world.ask(ADA)
    world.ask(ADA)
    assert world.ask(ADA, continues=True)
    assert world.waiting() == 2


def test_a_member_can_have_a_limit_of_its_own(world: World) -> None:
    world.scheduler.put_node(NodeSpec("parent", caps=Caps(queued=1)), world.wall)
    world.ask(ADA)
    world.ask(ADA)
    with pytest.raises(Rejected):
        world.ask("parent/direct/voice")


def test_closing_refuses_what_waits_and_leaves_what_runs(world: World) -> None:
    running = world.ask(ADA)
    waiting = world.ask(ADA)
    world.scheduler.close()
    world.decide()
    assert [each.request_id for each in world.rejected] == [waiting]
    assert world.rejected[0].error.reason is RejectReason.CLOSED
    assert world.end(running)


# The household changes


def test_what_waits_for_a_member_who_is_removed_is_refused(world: World) -> None:
    running = world.ask(ADA)
    waiting = world.ask(ADA)
    other = world.ask(BEN)
    world.scheduler.remove_node("parent")
    world.decide()
    assert [each.request_id for each in world.rejected] == [waiting]
    assert world.rejected[0].error.reason is RejectReason.CLASS_REMOVED
    world.end(running, tokens=TokenCount(10, 0, 5))
    assert world.order() == [running, other]
    with pytest.raises(KeyError):
        world.ask(ADA)


def test_removing_who_is_not_there_is_no_error(world: World) -> None:
    world.scheduler.remove_node("nobody")
    world.scheduler.remove_node("household")
    assert world.scheduler.has_class(ADA)


def test_a_device_that_moves_to_another_member_takes_along_what_waits(
    world: World,
) -> None:
    blocker = world.ask("child/direct/voice")
    world.source("parent", "tablet")
    waiting = world.ask("parent/tablet/chat")
    world.scheduler.put_node(NodeSpec("parent/tablet", "child"), world.wall)
    assert world.scheduler.node_status("parent").waiting == 0
    assert world.scheduler.node_status("child").waiting == 1
    world.end(blocker)
    world.end(waiting, tokens=TokenCount(10, 0, 1))
    assert world.scheduler.node_status("child").tokens == TokenCount(10, 0, 1)
    assert world.scheduler.node_status("parent").tokens == TokenCount()


def test_a_device_that_moves_while_idle_starts_level_with_its_new_siblings(
    world: World,
) -> None:
    world.source("parent", "tablet")
    world.scheduler.put_node(NodeSpec("parent/tablet", "child", weight=2), world.wall)
    status = world.scheduler.node_status("parent/tablet")
    assert (status.parent_id, status.weight, status.waiting) == ("child", 2, 0)


def test_a_request_for_something_that_is_no_class_is_a_mistake(world: World) -> None:
    with pytest.raises(KeyError):
        world.ask("parent")
    with pytest.raises(KeyError):
        world.ask("nobody/direct/chat")


def test_two_requests_of_one_id_are_a_mistake(world: World) -> None:
    request = Request("same", ADA, 10, 10)
    world.scheduler.submit(request, 0, START)
    with pytest.raises(ValueError, match="same"):
        world.scheduler.submit(request, 0, START)
    world.decide()
    with pytest.raises(ValueError, match="same"):
        world.scheduler.submit(request, 0, START)


def test_adding_a_class_twice_keeps_what_waits_in_it(world: World) -> None:
    world.ask(ADA)
    world.ask(ADA)
    world.scheduler.put_class(RequestClass(ADA, "parent/direct", Workload.CHAT), START)
    assert world.waiting() == 1


def test_a_policy_that_does_not_exist_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        Scheduler(START, settings=Settings(policy="first come, first served"))


# Restart


def test_accounts_outlive_a_restart(world: World) -> None:
    world.end(world.ask(ADA, prompt=80), tokens=TokenCount(80, 0, 20))
    state = world.scheduler.export_state()
    again = World()
    again.scheduler.restore_state(state)
    again.member("parent", *Workload)
    before = world.scheduler.node_status("parent")
    after = again.scheduler.node_status("parent")
    assert (after.tokens, after.charge, after.counter, after.requests) == (
        before.tokens,
        before.charge,
        before.counter,
        before.requests,
    )
    assert after.window == before.window


def test_what_is_only_prepaid_does_not_outlive_a_restart(world: World) -> None:
    request_id = world.ask(ADA, prompt=80, output=200)
    world.scheduler.prompt_progress(request_id, uncached=80, cached=0)
    world.output(request_id, 10)
    again = World()
    again.scheduler.restore_state(world.scheduler.export_state())
    again.member("parent", *Workload)
    assert again.scheduler.node_status("parent").charge == 100
    assert again.scheduler.node_status("parent").counter == 100


def test_use_of_today_is_found_again_after_a_boot_with_a_wrong_clock(
    world: World,
) -> None:
    world.scheduler.put_node(NodeSpec("parent", quota=QuotaSpec(1000)), world.wall)
    world.end(world.ask(ADA, prompt=80), tokens=TokenCount(80, 0, 20))
    again = World(Scheduler(datetime(1970, 1, 1, tzinfo=UTC)))
    again.wall = datetime(1970, 1, 1, tzinfo=UTC)
    again.scheduler.restore_state(world.scheduler.export_state())
    again.member("parent", *Workload, quota=QuotaSpec(1000))
    third = World(Scheduler(datetime(1970, 1, 1, tzinfo=UTC)))
    third.scheduler.restore_state(again.scheduler.export_state())
    third.member("parent", *Workload, quota=QuotaSpec(1000))
    for world_ in (again, third):
        world_.wall = START
        world_.decide()
    assert third.scheduler.node_status("parent").window.used_tokens == 100
    assert again.scheduler.node_status("parent").window.used_tokens == 100


def test_accounts_of_who_is_not_back_yet_are_kept(world: World) -> None:
    world.end(world.ask(ADA, prompt=80), tokens=TokenCount(80, 0, 20))
    again = World()
    again.scheduler.restore_state(world.scheduler.export_state())
    third = World()
    third.scheduler.restore_state(again.scheduler.export_state())
    third.member("parent", *Workload)
    assert third.scheduler.node_status(ADA).tokens == TokenCount(80, 0, 20)


def test_use_of_another_kind_of_window_is_not_restored(world: World) -> None:
    world.end(world.ask(ADA, prompt=80), tokens=TokenCount(80, 0, 20))
    again = World()
    again.scheduler.restore_state(world.scheduler.export_state())
    again.member("parent", *Workload, quota=QuotaSpec(1000, QuotaWindow.WEEK))
    assert again.scheduler.node_status("parent").window.used_tokens == 0


def test_use_of_an_older_window_is_not_restored(world: World) -> None:
    world.end(world.ask(ADA, prompt=80), tokens=TokenCount(80, 0, 20))
    again = World(Scheduler(datetime(2026, 12, 1, tzinfo=UTC)))
    again.wall = datetime(2026, 12, 1, tzinfo=UTC)
    again.scheduler.restore_state(world.scheduler.export_state())
    again.member("parent", *Workload)
    assert again.scheduler.node_status("parent").window.used_tokens == 0
    assert again.scheduler.node_status("parent").tokens == TokenCount(80, 0, 20)


def test_a_slot_that_is_still_busy_is_not_used(world: World) -> None:
    running = world.ask(ADA)
    waiting = world.ask(ADA)
    world.scheduler.hold_slot("server")
    world.end(running, Outcome.CANCELLED)
    assert world.order() == [running]
    world.scheduler.free_slot("server")
    world.scheduler.free_slot("server")
    world.ask(ADA)
    assert world.order() == [running, waiting]


def test_slots_of_a_server_that_is_gone_are_nobodys(world: World) -> None:
    world.scheduler.hold_slot("unknown")
    world.scheduler.free_slot("unknown")
    assert world.ask(ADA) == world.order()[0]
