"""Work that is done elsewhere: it takes no slot, and keeps every other rule."""

import pytest

from custom_components.fair_share.admission.model import (
    OUTSIDE_ID,
    Caps,
    Outcome,
    PreemptionRules,
    QuotaEnd,
    QuotaSpec,
    Rejected,
    RejectReason,
    Request,
    Rule,
    TokenCount,
    Workload,
)
from tests.admission.world import World, capacity

CHAT, BACKGROUND = Workload.CHAT, Workload.BACKGROUND


@pytest.fixture(name="world")
def fixture_world() -> World:
    """Parent, Child and a server with one slot, which Parent holds."""
    world = World()
    world.server(capacity(slots=1))
    world.member("parent", CHAT, BACKGROUND)
    world.member("child", CHAT, BACKGROUND)
    world.ask("parent/direct/chat")
    return world


def ask_outside(world: World, class_id: str = "parent/direct/chat") -> str:
    """Submit work that is done elsewhere."""
    world.submitted += 1
    request = Request(
        f"r{world.submitted}",
        class_id,
        prompt_tokens=10_000,
        max_output_tokens=100,
        preemptible=False,
        outside=True,
    )
    world.scheduler.submit(request, world.now, world.wall)
    world.decide()
    return request.request_id


def rules(world: World) -> dict[str, Rule]:
    status = world.scheduler.status(world.now)
    return {request.request_id: request.rule for request in status.requests}


def test_it_starts_though_every_slot_is_taken_and_takes_none(world: World) -> None:
    waits = world.ask("child/direct/chat")
    starts = ask_outside(world)
    assert world.order() == ["r1", starts]
    assert world.dispatched[-1].server_id == OUTSIDE_ID
    (server,) = world.scheduler.status(world.now).servers
    assert (server.slots, server.running) == (1, 1)
    world.end("r1")
    assert world.order()[-1] == waits
    world.end(starts)
    world.end(waits)
    assert world.running() == world.waiting() == 0


def test_it_starts_where_there_is_no_server_and_nothing_else_does() -> None:
    world = World()
    world.member("parent", CHAT)
    waits = world.ask("parent/direct/chat")
    starts = ask_outside(world)
    assert world.order() == [starts]
    assert rules(world)[waits] is Rule.NO_SERVER


def test_nothing_else_is_ever_placed_where_it_is(world: World) -> None:
    ask_outside(world)
    waits = world.ask("child/direct/chat")
    assert rules(world)[waits] is Rule.NO_SLOT


def test_it_is_charged_like_everything_else(world: World) -> None:
    starts = ask_outside(world)
    record = world.end(starts, tokens=TokenCount(100, 50, 20))
    assert record.outcome is Outcome.FINISHED
    assert record.charge == 100 + 5 + 40
    assert record.server_id == OUTSIDE_ID
    assert world.scheduler.node_status("parent").tokens == TokenCount(100, 50, 20)


def test_what_was_not_told_is_not_charged(world: World) -> None:
    record = world.end(ask_outside(world), Outcome.FAILED)
    assert (record.charge, record.tokens) == (0, TokenCount())


def test_a_limit_of_requests_at_once_holds_it_back() -> None:
    world = World()
    world.member("parent", CHAT, caps=Caps(in_flight=1))
    first, second = ask_outside(world), ask_outside(world)
    assert world.order() == [first]
    assert rules(world)[second] is Rule.IN_FLIGHT_CAP
    world.end(first)
    assert world.order() == [first, second]


def test_a_limit_of_waiting_requests_refuses_it() -> None:
    world = World()
    world.member("parent", CHAT, caps=Caps(in_flight=1, queued=1))
    ask_outside(world)
    ask_outside(world)
    with pytest.raises(Rejected) as refused:
        ask_outside(world)
    assert refused.value.reason is RejectReason.QUEUE_FULL


def test_it_waits_while_it_is_paused(world: World) -> None:
    world.set(paused_nodes=frozenset({"child"}))
    waits = ask_outside(world, "child/direct/chat")
    assert rules(world)[waits] is Rule.PAUSED
    world.set()
    world.decide()
    assert world.order()[-1] == waits


def test_a_used_up_quota_refuses_it() -> None:
    world = World()
    quota = QuotaSpec(100, at_end=QuotaEnd.FINISH)
    world.member("parent", CHAT, quota=quota)
    world.end(ask_outside(world), tokens=TokenCount(100, 0, 20))
    with pytest.raises(Rejected) as refused:
        ask_outside(world)
    assert refused.value.reason is RejectReason.QUOTA


def test_it_makes_room_for_nobody(world: World) -> None:
    world.set(preemption=PreemptionRules(threshold=0.0, min_run_tokens=0))
    world.member("guest", Workload.VOICE)
    world.scheduler.shield("r1", shielded=True)
    starts = ask_outside(world, "child/direct/background")
    world.scheduler.settle(starts, TokenCount(10, 0, 500), estimated=False)
    world.pass_time(1.0)
    world.ask("guest/direct/voice")
    world.pass_time(1.0)
    assert world.preempted == []
