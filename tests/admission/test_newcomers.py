"""Who comes back to the competition, and at which level."""

import pytest

from custom_components.fair_share.admission.model import NodeSpec, TokenCount
from tests.admission.world import World, capacity

PARENT, CHILD = "parent/direct/chat", "child/direct/chat"


@pytest.fixture
def world() -> World:
    """Parent and Child, and a server with four slots."""
    world = World()
    world.server(capacity(slots=4))
    for member in ("parent", "child"):
        world.member(member)
    return world


def counter(world: World, node_id: str) -> float:
    """Return a node's virtual token counter."""
    return world.scheduler.node_status(node_id).counter


def test_who_comes_back_may_catch_up_with_what_still_runs(world: World) -> None:
    running = [world.ask(PARENT, prompt=100, output=100) for _ in range(4)]
    world.ask(PARENT, prompt=100, output=100)
    world.ask(CHILD, prompt=100, output=100)
    # All four slots are Parent's, paid for in advance, and nothing is delivered.
    assert counter(world, "parent") == 4 * (100 + 2 * 100)
    assert counter(world, "child") == 0
    for request_id in running[:3]:
        world.end(request_id, tokens=TokenCount(100, 0, 100))
    assert [each.request_id for each in world.dispatched[4:]] == ["r6", "r5"]


def test_who_comes_back_starts_at_what_the_others_were_delivered(world: World) -> None:
    running = [world.ask(PARENT, prompt=100, output=100) for _ in range(4)]
    for _ in range(3):
        world.ask(PARENT, prompt=100, output=100)
    for request_id in running[:2]:
        world.end(request_id, tokens=TokenCount(100, 0, 100))
    world.ask(CHILD, prompt=100, output=100)
    # Two answers of 300 weighted tokens were delivered when the latest one started.
    assert counter(world, "child") == 600


def test_another_weight_changes_nothing_that_was_delivered(world: World) -> None:
    request_id = world.ask(PARENT, prompt=100, output=100)
    world.scheduler.prompt_progress(request_id, uncached=100, cached=0)
    world.member("parent", weight=2.0)
    assert counter(world, "parent") == 100 + 2 * 100 / 2
    world.end(request_id, tokens=TokenCount(100, 0, 0))
    assert counter(world, "parent") == 100


def test_a_move_to_another_parent_keeps_what_is_paid_for(world: World) -> None:
    request_id = world.ask(PARENT, prompt=100, output=100)
    world.scheduler.put_node(NodeSpec("parent/direct", "child"), world.wall)
    assert counter(world, "parent/direct") == 100 + 2 * 100
    world.end(request_id, tokens=TokenCount(0, 0, 0))
    assert counter(world, "parent/direct") == 0


def test_who_comes_new_starts_level_with_what_the_least_served_was_delivered() -> None:
    world = World()
    for member in ("parent", "child", "teen"):
        world.member(member)
    world.server(capacity(slots=2))
    parent, child = (world.ask(f"{each}/direct/chat") for each in ("parent", "child"))
    for member in ("parent", "child"):
        world.ask(f"{member}/direct/chat")
    world.output(parent, 20)
    world.output(child, 30)
    world.end(child)
    assert world.scheduler.node_status("parent").counter == 10 + 2 * 100
    world.ask("teen/direct/chat")
    assert world.scheduler.node_status("teen").counter == 10 + 2 * 20


def test_who_comes_new_never_starts_lower_than_who_came_before() -> None:
    world = World()
    for member in ("parent", "child", "teen"):
        world.member(member)
    world.server(capacity(slots=2))
    first = world.ask(PARENT)
    world.ask(CHILD)
    second = world.ask(PARENT)
    world.ask(PARENT)
    world.end(first, tokens=TokenCount(10, 0, 100))
    # What still runs is paid for, so that Child is not lifted; none of it is delivered.
    world.ask(CHILD)
    world.end(second, tokens=TokenCount(10, 0, 100))
    world.ask("teen/direct/chat")
    assert counter(world, "teen") == 10 + 2 * 100
