"""What happens when a quota is used up, and quotas that are refilled."""

from datetime import timedelta

import pytest

from custom_components.fair_share.admission.model import (
    NodeSpec,
    QuotaEnd,
    QuotaSpec,
    Rejected,
    RejectReason,
    Rule,
    TokenCount,
    Verdict,
    Workload,
)

from .world import START, World, capacity

CHAT, OTHER = "parent/direct/chat", "child/direct/chat"


def limited(at_end: QuotaEnd, *, refill_per_s: float | None = None) -> World:
    """Return a household whose parent has a quota of 100 tokens, and one slot."""
    world = World()
    quota = QuotaSpec(100, at_end=at_end, refill_per_s=refill_per_s)
    world.member("parent", *Workload, quota=quota)
    world.member("child", *Workload)
    world.server(capacity(slots=1))
    world.set(background_share=0.0)
    return world


def use_up(world: World) -> None:
    """Let the parent use the whole quota."""
    world.end(world.ask(CHAT, prompt=120), tokens=TokenCount(120, 0, 1))


def test_finish_lets_a_running_answer_end_but_starts_nothing_more() -> None:
    world = limited(QuotaEnd.FINISH)
    running = world.ask(CHAT, prompt=120, output=500)
    waiting = world.ask(CHAT)
    assert {world.output(running) for _ in range(64)} == {Verdict.CONTINUE}
    world.decide()
    assert [each.request_id for each in world.rejected] == [waiting]
    with pytest.raises(Rejected) as refusal:
        world.ask(CHAT)
    assert refusal.value.reason is RejectReason.QUOTA


def test_demote_lets_everything_go_on_after_the_others() -> None:
    world = limited(QuotaEnd.DEMOTE)
    use_up(world)
    running = world.ask(OTHER, output=500)
    demoted = world.ask(CHAT)
    task = world.ask("child/direct/task")
    world.end(running)
    assert world.order()[-1] == task
    world.end(task)
    assert world.order()[-1] == demoted
    assert {world.output(demoted) for _ in range(32)} == {Verdict.CONTINUE}


def test_what_is_demoted_may_be_interrupted_like_background_work() -> None:
    world = limited(QuotaEnd.DEMOTE)
    entry = world.ask(CHAT, prompt=120)
    world.output(entry, 20)
    waiting = world.ask("child/direct/task")
    assert world.scheduler.status(world.now).requests[0].request_id == entry
    world.end(entry)
    assert world.order()[-1] == waiting


def test_a_bucket_lets_requests_wait_for_the_refill() -> None:
    world = limited(QuotaEnd.STOP, refill_per_s=1.0)
    use_up(world)
    waiting = world.ask(CHAT)
    other = world.ask(OTHER)
    assert world.order()[-1] == other
    status = world.scheduler.status(world.now).requests
    rules = {each.request_id: each.rule for each in status}
    assert rules[waiting] is Rule.QUOTA
    assert world.scheduler.next_reset() == START + timedelta(seconds=22)
    world.end(other)
    world.pass_time(21)
    assert world.waiting() == 1
    world.pass_time(1)
    assert world.order()[-1] == waiting


def test_a_bucket_never_holds_more_than_its_size() -> None:
    world = limited(QuotaEnd.STOP, refill_per_s=1.0)
    world.pass_time(10_000)
    use_up(world)
    assert world.scheduler.node_status("parent").window.remaining_tokens == 0


def test_a_bucket_stops_a_running_answer_that_empties_it() -> None:
    world = limited(QuotaEnd.STOP, refill_per_s=1.0)
    running = world.ask(CHAT, prompt=90, output=500)
    verdicts = [world.output(running) for _ in range(16)]
    assert verdicts[-1] is Verdict.STOP_QUOTA


def test_a_buckets_window_shows_what_is_missing_now() -> None:
    world = limited(QuotaEnd.FINISH, refill_per_s=2.0)
    use_up(world)
    world.pass_time(30)
    window = world.scheduler.node_status("parent").window
    assert (window.used_tokens, window.remaining_tokens) == (61, 39)


def test_a_bucket_is_refilled_across_a_restart() -> None:
    world = limited(QuotaEnd.STOP, refill_per_s=1.0)
    use_up(world)
    world.pass_time(10)
    state = world.scheduler.export_state()
    again = limited(QuotaEnd.STOP, refill_per_s=1.0)
    again.scheduler.restore_state(state)
    again.pass_time(40)  # 30 s after the books were closed
    window = again.scheduler.node_status("parent").window
    assert (window.used_tokens, window.remaining_tokens) == (81, 19)


def test_a_quota_that_becomes_a_bucket_lacks_what_was_used_at_most_all_of_it() -> None:
    world = limited(QuotaEnd.STOP)
    use_up(world)
    world.pass_time(1000)
    for tokens in (300, 50):
        spec = QuotaSpec(tokens, at_end=QuotaEnd.STOP)
        world.scheduler.put_node(NodeSpec("parent", quota=spec), world.wall)
        bucket = QuotaSpec(tokens, at_end=QuotaEnd.STOP, refill_per_s=1.0)
        world.scheduler.put_node(NodeSpec("parent", quota=bucket), world.wall)
        window = world.scheduler.node_status("parent").window
        assert window.used_tokens == min(121, tokens)
    world.pass_time(10)
    assert world.scheduler.node_status("parent").window.remaining_tokens == 10


def test_quotas_hold_at_every_level() -> None:
    world = limited(QuotaEnd.STOP)
    world.scheduler.put_node(
        NodeSpec("child/direct", "child", quota=QuotaSpec(10)), world.wall
    )
    world.end(world.ask(OTHER, prompt=20), tokens=TokenCount(20, 0, 1))
    with pytest.raises(Rejected):
        world.ask(OTHER)
    world.source("child", "tablet")
    assert world.ask("child/tablet/chat") == world.order()[-1]


@pytest.mark.parametrize("refill_per_s", [None, 0.001])
def test_finish_lets_an_interrupted_answer_end_too(refill_per_s: float | None) -> None:
    world = limited(QuotaEnd.FINISH, refill_per_s=refill_per_s)
    answer = world.ask(CHAT, prompt=120, output=500)
    world.output(answer, 20)
    world.scheduler.close_server("server", world.now)
    world.scheduler.preempted(answer, world.now)
    world.decide()
    assert world.rejected == []
    world.server(capacity(slots=1))
    world.decide()
    assert [d.request_id for d in world.dispatched] == [answer, answer]


def test_stop_refuses_an_interrupted_answer() -> None:
    world = limited(QuotaEnd.STOP)
    answer = world.ask(CHAT, prompt=120, output=500)
    world.output(answer, 20)
    world.scheduler.preempted(answer, world.now)
    world.decide()
    assert [each.request_id for each in world.rejected] == [answer]
