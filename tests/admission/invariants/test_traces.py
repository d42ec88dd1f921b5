"""What is promised of whole courses of events, not of every step."""

from collections.abc import Sequence
from itertools import cycle, islice

from hypothesis import given, strategies as st
import pytest

from custom_components.fair_share.admission.model import TokenCount, Workload

from ..world import World, capacity
from .budget import TRACES

pytestmark = pytest.mark.timeout(3600)

SIZES = st.tuples(st.integers(1, 300), st.integers(1, 200))
QUEUES = st.lists(SIZES, min_size=1, max_size=12)
WEIGHTS = st.sampled_from((0.5, 1.0, 2.0, 3.0))
OTHERS = ("child", "teen")
SLOTS, SHARE, DEBT = 3, 0.2, 1500.0
AFTERWARDS = 20


def finish(world: World, request_id: str, sizes: dict[str, tuple[int, int]]) -> None:
    """Let a running request write its whole answer."""
    prompt, output = sizes[request_id]
    world.output(request_id, output)
    world.end(request_id, tokens=TokenCount(prompt, 0, output))


def ask(
    world: World,
    class_id: str,
    size: tuple[int, int],
    sizes: dict[str, tuple[int, int]],
) -> None:
    """Ask for something and note how large it is."""
    prompt, output = size
    sizes[world.ask(class_id, prompt=prompt, output=output)] = size


def starts(
    weights: dict[str, float],
    queues: dict[str, Sequence[tuple[int, int]]],
    devices: int = 1,
) -> list[str]:
    """Return who starts, one after the other, when all that is asked waits at once."""
    world, sizes = World(), dict[str, tuple[int, int]]()
    for member, weight in weights.items():
        world.member(member, weight=weight)
    for device in range(devices):
        world.source("parent", f"device{device}")
    places = {member: [f"{member}/direct/chat"] for member in weights}
    if devices > 1:
        places["parent"] = [f"parent/device{each}/chat" for each in range(devices)]
    for member, queue in queues.items():
        for turn, size in enumerate(queue):
            ask(world, places[member][turn % len(places[member])], size, sizes)
    world.server(capacity(slots=1))
    world.decide()
    order: list[str] = []
    while len(order) < len(sizes):
        request_id = world.order()[-1]
        status = world.scheduler.status(world.now).requests
        order += [
            each.class_id.split("/")[0]
            for each in status
            if each.request_id == request_id
        ]
        finish(world, request_id, sizes)
    return order


@given(weights=st.tuples(WEIGHTS, WEIGHTS, WEIGHTS), queues=st.tuples(*[QUEUES] * 3))
@TRACES
def test_a_larger_weight_never_lowers_service(
    weights: tuple[float, ...], queues: tuple[Sequence[tuple[int, int]], ...]
) -> None:
    members = ("parent", *OTHERS)
    lighter = dict(zip(members, weights, strict=True))
    heavier = lighter | {"parent": 2 * lighter["parent"]}
    wanted = dict(zip(members, queues, strict=True))
    before, after = starts(lighter, wanted), starts(heavier, wanted)
    for count in range(len(before)):
        assert after[:count].count("parent") >= before[:count].count("parent")


@given(
    size=SIZES,
    asked=st.integers(1, 15),
    devices=st.integers(2, 5),
    queues=st.tuples(QUEUES, QUEUES),
)
@TRACES
def test_who_splits_what_it_asks_over_many_devices_gets_no_more_and_no_less(
    size: tuple[int, int],
    asked: int,
    devices: int,
    queues: tuple[Sequence[tuple[int, int]], ...],
) -> None:
    weights = dict.fromkeys(("parent", *OTHERS), 1.0)
    wanted = {"parent": [size] * asked, **dict(zip(OTHERS, queues, strict=True))}
    assert starts(weights, wanted, devices) == starts(weights, wanted)


@given(queues=st.tuples(QUEUES, QUEUES), background=QUEUES, rounds=st.integers(20, 80))
@TRACES
def test_background_work_gets_its_share_of_all_service_while_it_waits(
    queues: tuple[Sequence[tuple[int, int]], ...],
    background: Sequence[tuple[int, int]],
    rounds: int,
) -> None:
    world, sizes = World(), dict[str, tuple[int, int]]()
    world.set(background_share=SHARE, background_debt=DEBT)
    world.member("parent", Workload.CHAT)
    world.member("child", Workload.VOICE, Workload.BACKGROUND)
    world.server(capacity(slots=SLOTS))
    asked = dict(zip(("parent/direct/chat", "child/direct/voice"), queues, strict=True))
    asked["child/direct/background"] = background
    turns = {class_id: cycle(queue) for class_id, queue in asked.items()}
    for class_id in [*asked] * (SLOTS + 1):
        ask(world, class_id, next(turns[class_id]), sizes)
    for _ in range(rounds):
        oldest = next(
            each
            for each in world.scheduler.status(world.now).requests
            if each.server_id
        )
        ask(world, oldest.class_id, next(turns[oldest.class_id]), sizes)
        finish(world, oldest.request_id, sizes)
        served = world.scheduler.node_status("child/direct/background").charge
        total = world.scheduler.node_status("household").charge
        largest = max(prompt + 2 * output for prompt, output in sizes.values())
        assert served >= SHARE * total - DEBT - (SLOTS + 1) * largest * SHARE - largest


@given(queues=st.tuples(QUEUES, QUEUES), rounds=st.integers(1, 10))
@TRACES
def test_who_comes_new_gets_as_much_from_then_on_as_who_waits_already(
    queues: tuple[Sequence[tuple[int, int]], ...], rounds: int
) -> None:
    world, sizes = World(), dict[str, tuple[int, int]]()
    for member in ("parent", "child"):
        world.member(member)
    world.server(capacity(slots=1))
    for size in islice(cycle(queues[0]), rounds + AFTERWARDS):
        ask(world, "parent/direct/chat", size, sizes)
    for _ in range(rounds):
        finish(world, world.order()[-1], sizes)
    for size in islice(cycle(queues[1]), AFTERWARDS):
        ask(world, "child/direct/chat", size, sizes)
    before = world.scheduler.node_status("parent").charge
    largest = max(prompt + 2 * output for prompt, output in sizes.values())
    while world.scheduler.node_status("child").waiting and (
        world.scheduler.node_status("parent").waiting
    ):
        finish(world, world.order()[-1], sizes)
        mine = world.scheduler.node_status("child").charge
        theirs = world.scheduler.node_status("parent").charge - before
        assert abs(mine - theirs) <= 2 * largest
