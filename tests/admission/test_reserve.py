"""The share that is kept for background work, however busy the rest is."""

from collections import Counter

import pytest

from custom_components.fair_share.admission.model import Rule, TokenCount, Workload

from .world import World, capacity

CHAT, BACKGROUND = "parent/direct/chat", "child/direct/background"


def busy_home(share: float) -> World:
    """Return a household in which chat and background work both never end."""
    world = World()
    world.member("parent", *Workload)
    world.member("child", *Workload)
    world.server(capacity(slots=1))
    world.set(background_share=share)
    return world


def serve(world: World, rounds: int) -> Counter[str]:
    """Keep one of each waiting; return the charge that each class got."""
    served: Counter[str] = Counter()
    waiting = {CHAT: 0, BACKGROUND: 0}
    classes: dict[str, str] = {}
    for _ in range(rounds):
        for class_id, count in waiting.items():
            for _ in range(2 - count):
                classes[world.ask(class_id, prompt=50, output=25)] = class_id
            waiting[class_id] = 2
        running = world.order()[-1]
        class_id = classes[running]
        waiting[class_id] -= 1
        world.now += 0.01
        served[class_id] += world.end(running, tokens=TokenCount(50, 0, 25)).charge
    return served


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_background_work_gets_its_share_beside_endless_urgent_work(
    share: float,
) -> None:
    world = busy_home(share)
    served = serve(world, 400)
    part = served[BACKGROUND] / served.total()
    assert part == pytest.approx(share, abs=0.02)
    assert Rule.RESERVED_SHARE in {each.rule for each in world.dispatched}


def test_without_a_reserved_share_urgent_work_goes_first() -> None:
    served = serve(busy_home(0.0), 100)
    assert served[BACKGROUND] <= 100


def test_what_is_owed_is_limited() -> None:
    world = busy_home(0.5)
    world.set(background_share=0.5, background_debt=300.0)
    world.ask(CHAT, prompt=3000)
    world.ask(BACKGROUND, prompt=2000)
    world.ask(CHAT)
    for _ in range(3):
        world.end(world.order()[-1], tokens=TokenCount(3000, 0, 10))
    assert world.scheduler.status(world.now).background_owed <= 300.0


def test_a_refund_gives_back_no_more_than_was_paid_off() -> None:
    world = busy_home(0.5)
    world.ask(BACKGROUND, prompt=10, output=1000)
    world.end(world.order()[-1], tokens=TokenCount(10, 0, 0))
    assert world.scheduler.status(world.now).background_owed == 0
