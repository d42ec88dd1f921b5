"""What is kept of waiting requests, to be quick, is not kept for too long."""

import pytest

from custom_components.fair_share.admission.model import (
    Caps,
    NodeSpec,
    Outcome,
    PreemptionRules,
    QuotaEnd,
    QuotaSpec,
    Rule,
    Workload,
)

from .world import World, capacity

VOICE = "child/direct/voice"
PARENT, CHILD = "parent/direct/chat", "child/direct/chat"


@pytest.fixture
def world() -> World:
    """A household in which who waits is looked at also while all slots are busy."""
    world = World()
    world.set(preemption=PreemptionRules())
    world.member("parent", Workload.CHAT)
    world.member("child", Workload.CHAT, Workload.VOICE)
    world.server(capacity(slots=2))
    return world


def test_who_waited_behind_interrupted_ones_of_its_class_is_not_overdue_by_that(
    world: World,
) -> None:
    first, second, third = (world.ask(VOICE) for _ in range(3))
    world.pass_time(9.5)
    world.scheduler.close_server("server", world.now)
    for request_id in (first, second):
        world.scheduler.preempted(request_id, world.now, lost=True)
    world.pass_time(0.5)
    world.server(capacity(slots=1))
    world.decide()
    assert world.order()[-1] == second
    world.end(first, Outcome.CANCELLED)
    world.pass_time(6)
    world.end(second, Outcome.CANCELLED)
    assert world.dispatched[-1].request_id == third
    assert world.dispatched[-1].rule is Rule.POLICY


def test_a_quota_that_is_used_up_when_it_is_set_demotes_what_waits_already(
    world: World,
) -> None:
    running = [world.ask(VOICE) for _ in range(2)]
    waiting = world.ask(VOICE)
    other = world.ask(PARENT)
    world.output(running[0], 5)
    quota = QuotaSpec(1, at_end=QuotaEnd.DEMOTE)
    world.scheduler.put_node(NodeSpec("child", quota=quota), world.wall)
    world.end(running[0])
    assert world.order()[-1] == other
    world.end(running[1])
    assert world.order()[-1] == waiting


def test_who_was_held_back_by_a_limit_of_before_competes_when_it_is_interrupted(
    world: World,
) -> None:
    limit = NodeSpec("parent", caps=Caps(in_flight=1))
    world.scheduler.put_node(limit, world.wall)
    running, held_back = world.ask(PARENT), world.ask(PARENT)
    world.end(held_back, Outcome.CANCELLED)
    world.scheduler.put_node(NodeSpec("parent"), world.wall)
    others = [world.ask(CHILD) for _ in range(2)]
    world.output(others[0], 50)
    world.server(capacity(slots=1))
    world.pause(running)
    world.end(others[0])
    assert world.order()[-1] == running
    world.member("teen", Workload.CHAT)
    world.ask("teen/direct/chat")
    assert world.scheduler.node_status("teen").counter == 0
