"""What runs on a server past the queue is taken off what the queue may use of it."""

import pytest

from custom_components.fair_share.admission.model import Outcome, Rule
from custom_components.fair_share.admission.status import ServerStatus

from .world import World, capacity

CHAT = "parent/direct/chat"


@pytest.fixture
def world() -> World:
    """A household with one server of two slots, and memory for a little more."""
    world = World()
    world.member("parent")
    world.server(capacity(slots=2, pool=1000))
    return world


def foreign(world: World, running: int, kv_tokens: int = 0) -> None:
    """Let so much run past the queue."""
    world.scheduler.put_foreign("server", running, kv_tokens, world.now)
    world.decide()


def server(world: World) -> ServerStatus:
    """Return how the server is."""
    (status,) = world.scheduler.status(world.now).servers
    return status


def why_it_waits(world: World, request_id: str) -> Rule:
    """Return the reason shown for a waiting request."""
    return next(
        each.rule
        for each in world.scheduler.status(world.now).requests
        if each.request_id == request_id
    )


def test_foreign_requests_take_slots_until_they_are_gone(world: World) -> None:
    foreign(world, 1)
    first, second = world.ask(CHAT), world.ask(CHAT)
    assert world.order() == [first]
    assert why_it_waits(world, second) is Rule.NO_SLOT
    assert server(world).foreign == 1
    foreign(world, 0)
    assert world.order() == [first, second]
    assert server(world).foreign == 0


def test_more_foreign_requests_than_slots_leave_none_and_stop_nobody(
    world: World,
) -> None:
    running = world.ask(CHAT)
    foreign(world, 5)
    waiting = world.ask(CHAT)
    assert world.order() == [running]
    world.end(running)
    assert world.order() == [running]
    foreign(world, 1)
    assert world.order() == [running, waiting]


@pytest.mark.parametrize(
    ("held", "beside"), [(0, True), (430, True), (440, False), (900, False)]
)
def test_foreign_tokens_take_memory(world: World, held: int, *, beside: bool) -> None:
    foreign(world, 1, held)
    request_id = world.ask(CHAT, prompt=300, output=215)
    assert (world.order() == [request_id]) == beside


def test_who_waits_for_foreign_memory_starts_when_there_is_enough(
    world: World,
) -> None:
    foreign(world, 1, 900)
    request_id = world.ask(CHAT, prompt=300, output=200)
    assert why_it_waits(world, request_id) is Rule.NO_KV
    foreign(world, 1, 100)
    assert world.order() == [request_id]
    world.end(request_id, Outcome.CANCELLED)


def test_the_foreign_load_of_an_unknown_server_is_ignored(world: World) -> None:
    world.scheduler.put_foreign("unknown", 3, 1000, world.now)
    assert server(world).foreign == 0
