"""What is paused waits, everything else goes on, and nothing is lost."""

from typing import Any

import pytest

from custom_components.fair_share.admission.model import (
    Outcome,
    PreemptionRules,
    Rule,
    Workload,
)
from tests.admission.world import World, capacity

CHAT, BACKGROUND = Workload.CHAT, Workload.BACKGROUND


@pytest.fixture(name="world")
def fixture_world() -> World:
    """Parent and Child before a server with one slot."""
    world = World()
    world.server(capacity(slots=1))
    world.member("parent", CHAT, BACKGROUND)
    world.member("child", CHAT, BACKGROUND)
    return world


def rules(world: World) -> dict[str, Rule]:
    """Return why each request waits or runs."""
    status = world.scheduler.status(world.now)
    return {request.request_id: request.rule for request in status.requests}


@pytest.mark.parametrize("node_id", ["parent", "parent/direct", "parent/direct/chat"])
def test_nothing_starts_below_a_paused_node(world: World, node_id: str) -> None:
    world.set(paused_nodes=frozenset({node_id}))
    first = world.ask("parent/direct/chat")
    second = world.ask("child/direct/chat")
    assert world.order() == [second]
    assert rules(world)[first] is Rule.PAUSED
    world.end(second)
    assert world.order() == [second]
    world.set()
    world.decide()
    assert world.order() == [second, first]


def test_nothing_of_a_paused_workload_starts(world: World) -> None:
    world.set(paused_workloads=frozenset({BACKGROUND}))
    waits = world.ask("parent/direct/background")
    starts = world.ask("parent/direct/chat")
    assert world.order() == [starts]
    assert rules(world)[waits] is Rule.PAUSED


def test_what_runs_may_end(world: World) -> None:
    runs = world.ask("parent/direct/chat")
    world.set(paused_nodes=frozenset({"parent"}))
    world.decide()
    assert world.output(runs) == "continue"
    assert world.end(runs).outcome is Outcome.FINISHED


def test_a_pause_of_somebody_unknown_pauses_nobody(world: World) -> None:
    world.set(paused_nodes=frozenset({"stranger"}))
    asked = world.ask("parent/direct/chat")
    assert world.order() == [asked]


def test_a_pause_saves_up_no_right_to_service(world: World) -> None:
    world.set(paused_nodes=frozenset({"parent"}))
    for _ in range(4):
        world.ask("parent/direct/chat")
    ends = world.ask("child/direct/chat")
    for _ in range(8):
        following = world.ask("child/direct/chat")
        world.output(ends, 50)
        world.end(ends)
        ends = following
    world.set()
    world.ask("child/direct/chat")
    world.output(ends, 50)
    begun = len(world.order())
    world.end(ends)
    parent, child = (world.scheduler.node_status(i) for i in ("parent", "child"))
    assert world.order()[begun:] == ["r1"]
    assert child.counter - parent.counter < 400


def test_what_is_paused_counts_in_no_forecast(world: World) -> None:
    runs = world.ask("child/direct/chat")
    world.output(runs)
    world.pass_time(10)
    world.output(runs, 90)
    world.end(runs)  # so many tokens a second are known now
    world.ask("child/direct/chat")
    world.ask("parent/direct/chat")
    before = world.scheduler.expected_wait_s("child/direct/chat", world.now)
    world.set(paused_nodes=frozenset({"parent"}))
    after = world.scheduler.expected_wait_s("child/direct/chat", world.now)
    assert 0 < after < before
    status = world.scheduler.status(world.now, ahead=5)
    assert [request.starts_in_s for request in status.requests] == [None, None]


@pytest.mark.parametrize(
    ("paused", "is_owed"),
    [
        ({}, True),
        ({"paused_nodes": frozenset({"child"})}, True),
        ({"paused_nodes": frozenset({"parent"})}, False),
        ({"paused_workloads": frozenset({BACKGROUND})}, False),
    ],
)
def test_only_background_work_that_may_start_is_owed_its_share(
    world: World, paused: dict[str, Any], *, is_owed: bool
) -> None:
    world.server(capacity(slots=1))
    world.member("teen", CHAT)
    world.set(**paused)
    runs = world.ask("teen/direct/chat", output=1000)
    world.ask("parent/direct/background")
    world.output(runs, 900)
    assert bool(world.scheduler.status(world.now).background_owed) is is_owed


def test_what_runs_can_be_asked_to_leave_and_goes_on_later(world: World) -> None:
    runs = world.ask("parent/direct/chat")
    world.output(runs, 10)
    world.set(paused_nodes=frozenset({"parent"}), preemption=PreemptionRules())
    assert world.scheduler.ask_paused_to_leave() == (runs,)
    assert world.scheduler.ask_paused_to_leave() == ()  # it is leaving already
    world.pause(runs)
    assert rules(world) == {runs: Rule.PAUSED}
    world.pass_time(3600)
    assert world.running() == 0
    world.set()
    world.decide()
    assert world.order() == [runs, runs]
    assert world.end(runs).preemptions == 1


def test_what_cannot_go_on_and_what_is_not_paused_is_left_alone(world: World) -> None:
    world.server(capacity(slots=4))
    world.ask("parent/direct/chat", preemptible=False)
    world.ask("child/direct/chat")
    shielded = world.ask("parent/direct/chat")
    world.scheduler.shield(shielded, shielded=True)
    world.set(paused_nodes=frozenset({"parent"}))
    assert world.scheduler.ask_paused_to_leave() == ()
