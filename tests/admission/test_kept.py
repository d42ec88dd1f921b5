"""What is kept of waiting requests, to be quick, is not kept for too long."""

from dataclasses import replace

import pytest

from custom_components.fair_share.admission.model import (
    DEFAULT_PROFILES,
    Caps,
    NodeSpec,
    Outcome,
    PreemptionRules,
    QuotaEnd,
    QuotaSpec,
    Rule,
    TokenCount,
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


def test_new_rules_end_at_once_what_an_overdue_request_held_up() -> None:
    world = World()
    for member in ("parent", "child", "teen"):
        world.member(member)
    world.server(capacity(slots=3, pool=1000))
    world.end(world.ask(CHILD), tokens=TokenCount(50, 0, 0))
    world.ask(PARENT, prompt=300, output=300)
    world.ask(CHILD, prompt=400, output=300)
    world.pass_time(61)
    small = world.ask("teen/direct/chat", output=10)
    assert world.waiting() == 2
    patient = {
        kind: replace(each, max_wait_s=1e9, age_step_s=1e9)
        for kind, each in DEFAULT_PROFILES.items()
    }
    world.set(profiles=patient)
    world.decide()
    assert world.order()[-1] == small
