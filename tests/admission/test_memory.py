"""Planning with a shared pool: over-commitment by trial, and who may overtake."""

import pytest

from custom_components.fair_share.admission.model import (
    Caps,
    NodeSpec,
    Outcome,
    Request,
    Rule,
    TokenCount,
    Workload,
)

from .world import World, capacity

CHAT = "parent/direct/chat"


def roomy(*, survives: bool) -> World:
    """Return a household with a pool of 1,000 tokens and many slots."""
    world = World()
    world.member("parent", *Workload)
    world.member("child", *Workload)
    world.server(capacity(slots=9, context=5000, pool=1000, survives=survives))
    return world


def fits_beside_another(world: World, output: int) -> bool:
    """Try whether a request of so much output may start beside a small one."""
    first = world.ask(CHAT, prompt=100, output=16)
    second = world.ask(CHAT, prompt=100, output=output)
    both = world.running() == 2
    for request_id in (first, second):
        world.end(request_id, Outcome.CANCELLED)
    return both


def test_after_an_exhausted_pool_less_is_planned_with() -> None:
    world = roomy(survives=True)
    learn_long_answers(world)
    assert fits_beside_another(world, 800)
    world.scheduler.note_exhausted("server", 10)
    assert not fits_beside_another(world, 800)
    assert fits_beside_another(world, 700)
    world.scheduler.note_exhausted("unknown")
    assert fits_beside_another(world, 700)


def test_requests_that_end_without_it_win_it_back() -> None:
    world = roomy(survives=True)
    learn_long_answers(world)
    world.scheduler.note_exhausted("server", 5)
    assert not fits_beside_another(world, 830)
    for _ in range(100):
        world.end(world.ask(CHAT, prompt=50), tokens=TokenCount(50, 0, 2000))
    assert fits_beside_another(world, 830)


def test_half_a_pool_is_always_planned_with() -> None:
    world = roomy(survives=True)
    world.scheduler.note_exhausted("server", 1000)
    learn_long_answers(world)
    assert fits_beside_another(world, 400)
    assert not fits_beside_another(world, 450)


@pytest.mark.parametrize(("output", "both_run"), [(440, True), (460, False)])
def test_at_most_a_tenth_more_than_a_pool_is_planned_with(
    output: int, *, both_run: bool
) -> None:
    world = roomy(survives=True)
    learn_long_answers(world)
    for _ in range(400):
        world.end(world.ask(CHAT, prompt=50), tokens=TokenCount(50, 0, 2000))
    world.ask(CHAT, prompt=100, output=output)
    world.ask(CHAT, prompt=100, output=output)
    assert (world.running() == 2) is both_run


def test_a_pool_whose_end_kills_is_never_planned_to_its_end() -> None:
    world = roomy(survives=False)
    world.pass_time(3600)
    world.ask(CHAT, prompt=100, output=2000)
    assert world.dispatched[0].max_output_tokens == 850


def test_an_exhausted_pool_never_shuts_out_a_lone_request() -> None:
    world = roomy(survives=True)
    for _ in range(20):
        world.scheduler.note_exhausted("server")
    assert world.ask(CHAT, prompt=900, output=30) == world.order()[-1]


def learn_long_answers(world: World) -> None:
    """Let the class be known for answers as long as they may be."""
    for _ in range(20):
        world.end(world.ask(CHAT, prompt=50), tokens=TokenCount(50, 0, 2000))


def test_an_answer_longer_than_usual_is_still_given_room() -> None:
    world = roomy(survives=True)
    for _ in range(20):
        world.end(world.ask(CHAT, prompt=100), tokens=TokenCount(100, 0, 10))
    long = world.ask(CHAT, prompt=700, output=250)
    world.output(long, 200)
    waiting = world.ask(CHAT, prompt=60, output=10)
    status = world.scheduler.status(world.now)
    rules = {each.request_id: each.rule for each in status.requests}
    assert rules[waiting] is Rule.NO_KV


def test_the_forecast_says_who_is_ahead_and_about_when() -> None:
    world = World()
    world.member("parent", *Workload)
    world.member("child", *Workload)
    world.server(capacity(slots=1))
    learn = world.ask(CHAT, prompt=100, output=100)
    world.pass_time(1)
    world.output(learn)
    world.pass_time(10)
    world.output(learn, 99)
    world.end(learn, tokens=TokenCount(100, 0, 100))
    world.ask(CHAT, prompt=100, output=100)
    second = world.ask(CHAT, prompt=100, output=100)
    voice = world.ask("child/direct/voice", prompt=100, output=100)
    requests = world.scheduler.status(world.now, ahead=50).requests
    forecast = {each.request_id: (each.ahead, each.starts_in_s) for each in requests}
    assert forecast[voice] == (0, 10.0)
    assert forecast[second][0] == 1
    before = world.scheduler.node_status("child").counter
    world.scheduler.status(world.now, ahead=50)
    assert world.scheduler.node_status("child").counter == before


def test_the_forecast_is_silent_where_nothing_can_start() -> None:
    world = World()
    world.member("parent", *Workload)
    waiting = world.ask(CHAT)
    request = world.scheduler.status(world.now, ahead=50).requests[0]
    assert (request.request_id, request.ahead) == (waiting, None)
    assert request.rule is Rule.NO_SERVER


def test_who_is_at_an_own_limit_is_told_so() -> None:
    world = roomy(survives=False)
    world.scheduler.put_node(NodeSpec("parent", caps=Caps(in_flight=1)), world.wall)
    world.ask(CHAT)
    waiting = world.ask(CHAT)
    rules = {each.request_id: each.rule for each in world.scheduler.status(0).requests}
    assert rules[waiting] is Rule.IN_FLIGHT_CAP


def test_what_could_start_is_only_behind_others_until_the_next_decision() -> None:
    world = roomy(survives=False)
    world.scheduler.submit(Request("new", CHAT, 10, 10), world.now, world.wall)
    assert world.scheduler.status(0).requests[0].rule is Rule.BEHIND_OTHERS


def test_an_overdue_request_is_not_overtaken_after_another_overdue_one() -> None:
    world = World()
    for member in ("parent", "child", "teen"):
        world.member(member)
    world.server(capacity(slots=2, pool=1000))
    chat = "parent/direct/chat"
    world.ask(chat, prompt=300, output=300)
    filler = world.ask(chat, output=10)
    first = world.ask("teen/direct/chat", output=10)
    world.ask("child/direct/chat", prompt=400, output=300)
    world.pass_time(61)
    small = world.ask("teen/direct/chat", output=10)
    world.end(filler)
    assert world.order()[-1] == first
    assert world.dispatched[-1].rule is Rule.OVERDUE
    world.end(first)
    assert world.order()[-1] == first
    assert world.scheduler.knows(small)


def test_who_may_overtake_only_the_one_that_waits_first_now_starts_at_once() -> None:
    world = World()
    for member in ("parent", "child", "teen"):
        world.member(member, *Workload)
    world.server(capacity(slots=4, pool=1000))
    world.end(world.ask("teen/direct/chat"), tokens=TokenCount(2000, 0, 0))
    world.end(world.ask(CHAT), tokens=TokenCount(1500, 0, 0))
    world.ask("child/direct/voice", prompt=300, output=300)
    world.ask("child/direct/task", prompt=400, output=300)
    command = world.ask("teen/direct/voice", output=10)
    assert world.waiting() == 2
    world.ask(CHAT, prompt=400, output=300)
    assert world.order()[-1] == command
