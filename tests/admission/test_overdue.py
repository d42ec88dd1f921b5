"""What has waited too long, for a start or to go on."""

from custom_components.fair_share.admission.model import (
    PreemptionRules,
    Rule,
    Settings,
    Workload,
)
from tests.admission.world import World, capacity

PARENT, CHILD, TEEN = "parent/direct/chat", "child/direct/chat", "teen/direct/chat"
VOICE = "teen/direct/voice"


def household(*, slots: int, pool: int | None = None) -> World:
    """Return three members and a server."""
    world = World()
    world.server(capacity(slots=slots, pool=pool))
    world.member("parent")
    world.member("child")
    world.member("teen", Workload.CHAT, Workload.VOICE)
    return world


def test_an_overdue_request_that_waits_for_memory_is_not_overtaken() -> None:
    world = household(slots=4, pool=1000)
    world.ask(PARENT, prompt=100, output=400)
    large = world.ask(CHILD, prompt=600, output=200)
    early = world.ask(TEEN, prompt=10, output=20)
    assert world.order() == ["r1", early]
    world.pass_time(61)
    late = world.ask(TEEN, prompt=10, output=20)
    assert world.order() == ["r1", early]
    world.end("r1")
    world.end(early)
    assert world.order()[2:] == [large, late]


def test_interrupted_answers_go_on_one_right_after_the_other() -> None:
    world = household(slots=2)
    world.scheduler.configure(Settings(preemption=PreemptionRules()))
    for class_id in (PARENT, CHILD):
        world.output(world.ask(class_id, output=500), 10)
    for _ in range(2):
        world.ask(VOICE)
        world.pause(world.preempted[-1].request_id)
    world.ask(TEEN)
    assert world.order() == ["r1", "r2", "r3", "r4"]
    world.pass_time(10)
    world.end("r3")
    world.end("r4")
    assert sorted(world.order()[4:]) == ["r1", "r2"]
    assert [each.rule for each in world.dispatched[4:]] == [Rule.OVERDUE, Rule.OVERDUE]
