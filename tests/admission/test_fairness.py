"""The promise of equal tokens, measured on what was delivered."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, cycle

from hypothesis import given, settings, strategies as st
import pytest

from custom_components.fair_share.admission.model import (
    CostWeights,
    NodeSpec,
    TokenCount,
)

from .world import World, capacity

COSTS = CostWeights()


@dataclass
class Client:
    """A member that keeps requests outstanding, except while it is away."""

    name: str
    weight: float
    shapes: Sequence[tuple[int, int]]
    outstanding: int = 3
    away: tuple[int, int] = (0, 0)
    devices: int = 1
    service: float = 0.0
    history: list[float] = field(default_factory=list)
    waiting: list[bool] = field(default_factory=list)

    def is_away(self, step: int) -> bool:
        """Whether the member asks for nothing new at this step."""
        return self.away[0] <= step < self.away[1]


class Box:
    """An engine that gives one token to each running request at every step."""

    def __init__(self, clients: Sequence[Client], slots: int) -> None:
        """Furnish a household with one member for each client."""
        self.world = World()
        self.clients = clients
        self.slots = slots
        self._step = 0
        self._open: dict[str, tuple[Client, int, int]] = {}
        self._left: dict[str, int] = {}
        self._started: list[str] = []
        self._shapes = {client.name: cycle(client.shapes) for client in clients}
        self._devices = {
            client.name: cycle(range(client.devices)) for client in clients
        }
        for client in clients:
            self.world.member(client.name, weight=client.weight, source="0")
            for device in range(1, client.devices):
                self.world.source(client.name, str(device))
        self.world.server(capacity(slots=slots, context=100_000))

    def run(self, steps: int) -> None:
        """Let so many decode steps go by."""
        for _ in range(steps):
            for client in self.clients:
                self._arrive(client, self._step)
            self._step += 1
            self._start()
            for request_id in [*self._left]:
                self._decode(request_id)
            for client in self.clients:
                status = self.world.scheduler.node_status(client.name)
                client.history.append(client.service)
                client.waiting.append(status.waiting > 0)

    def unit(self) -> float:
        """Return the most that can be in flight at once, by the smallest weight."""
        shapes = [shape for client in self.clients for shape in client.shapes]
        largest = max(COSTS.charge(prompt, 0, output) for prompt, output in shapes)
        return self.slots * largest / min(client.weight for client in self.clients)

    def _arrive(self, client: Client, step: int) -> None:
        status = self.world.scheduler.node_status(client.name)
        missing = client.outstanding - status.waiting - status.running
        for _ in range(0 if client.is_away(step) else missing):
            prompt, output = next(self._shapes[client.name])
            class_id = f"{client.name}/{next(self._devices[client.name])}/chat"
            request_id = self.world.ask(class_id, prompt=prompt, output=output)
            self._open[request_id] = (client, prompt, output)

    def _start(self) -> None:
        for request_id in self.world.order()[len(self._started) :]:
            client, prompt, output = self._open[request_id]
            self._started.append(request_id)
            self._left[request_id] = output
            client.service += COSTS.charge(prompt, 0, 0) / client.weight

    def _decode(self, request_id: str) -> None:
        client, prompt, output = self._open[request_id]
        self.world.output(request_id)
        client.service += COSTS.output / client.weight
        self._left[request_id] -= 1
        if self._left[request_id] == 0:
            del self._left[request_id]
            self.world.end(request_id, tokens=TokenCount(prompt, 0, output))
            self._start()


def gaps(one: Client, other: Client) -> list[float]:
    """Return the growth of the service difference in each spell of common waiting."""
    found: list[float] = []
    start: int | None = None
    for step, both in enumerate(zip(one.waiting, other.waiting, strict=True)):
        if not all(both):
            start = None
            continue
        start = step if start is None else start
        grown = (one.history[step] - one.history[start]) - (
            other.history[step] - other.history[start]
        )
        found.append(abs(grown))
    return found


SHAPE = st.tuples(st.integers(1, 200), st.integers(1, 60))


@settings(max_examples=40, deadline=None)
@given(
    slots=st.integers(1, 3),
    weights=st.tuples(*(st.sampled_from((0.5, 1.0, 3.0)) for _ in range(3))),
    shapes=st.tuples(*(st.lists(SHAPE, min_size=1, max_size=3) for _ in range(3))),
    away=st.tuples(st.integers(0, 300), st.integers(0, 600)),
    devices=st.integers(1, 3),
)
def test_members_that_wait_together_are_served_alike_within_the_published_bound(
    slots: int,
    weights: tuple[float, float, float],
    shapes: tuple[list[tuple[int, int]], ...],
    away: tuple[int, int],
    devices: int,
) -> None:
    """|W_f/w_f - W_g/w_g| <= 2U (Theorem 4.4), also after one of them was away."""
    start, length = away
    clients = [
        Client("parent", weights[0], shapes[0], devices=devices),
        Client("child", weights[1], shapes[1], away=(start, start + length)),
        Client("teen", weights[2], shapes[2], outstanding=5),
    ]
    box = Box(clients, slots)
    box.run(1200)
    for one, other in combinations(clients, 2):
        assert max(gaps(one, other), default=0.0) <= 2 * box.unit()


def shares(clients: Sequence[Client]) -> list[float]:
    """Return each client's share of all that was delivered."""
    served = [client.service * client.weight for client in clients]
    return [each / sum(served) for each in served]


@pytest.mark.parametrize(
    ("clients", "expected"),
    [
        pytest.param(
            [Client("short", 1, [(20, 20)], 8), Client("long", 1, [(400, 80)])],
            [0.5, 0.5],
            id="long and short requests alike",
        ),
        pytest.param(
            [Client("one", 1, [(50, 50)]), Client("three", 3, [(50, 50)], 9)],
            [0.25, 0.75],
            id="by weight",
        ),
        pytest.param(
            [Client("few", 1, [(50, 50)], 2), Client("many", 1, [(50, 50)], 40)],
            [0.5, 0.5],
            id="not by the number of requests that wait",
        ),
        pytest.param(
            [
                Client("one device", 1, [(50, 50)], 4),
                Client("five devices", 1, [(50, 50)], 20, devices=5),
            ],
            [0.5, 0.5],
            id="not by the number of devices",
        ),
    ],
)
def test_what_is_delivered_is_shared(
    clients: list[Client], expected: list[float]
) -> None:
    box = Box(clients, slots=2)
    box.run(4000)
    assert shares(clients) == pytest.approx(expected, abs=0.03)


def test_who_was_away_gets_no_more_than_the_others_afterwards() -> None:
    here = Client("here", 1, [(50, 50)])
    back = Client("back", 1, [(50, 50)], away=(0, 4000))
    box = Box([here, back], slots=2)
    box.run(4000)
    before = here.service
    box.run(2000)
    assert here.service - before == pytest.approx(back.service, rel=0.1)


def test_who_was_served_while_alone_is_not_made_to_pay_for_it() -> None:
    alone = Client("alone", 1, [(50, 50)])
    late = Client("late", 1, [(50, 50)], away=(0, 4000))
    box = Box([alone, late], slots=2)
    box.run(4400)
    assert alone.history[-1] - alone.history[4000] > 0.3 * late.service


def test_who_pauses_keeps_the_debt_of_what_was_served_before() -> None:
    greedy = Client("greedy", 1, [(50, 50)], away=(1000, 1100))
    steady = Client("steady", 1, [(50, 50)], away=(0, 990))
    box = Box([greedy, steady], slots=1)
    box.run(3000)
    together = greedy.history[-1] - greedy.history[1100]
    assert together == pytest.approx(
        steady.history[-1] - steady.history[1100], abs=2 * box.unit()
    )


def test_the_bound_holds_when_a_weight_is_lowered_under_a_running_answer() -> None:
    world = World()
    world.member("parent", weight=2.0)
    world.member("child", weight=2.0)
    world.server(capacity(slots=1))
    running = world.ask("parent/direct/chat", prompt=100, output=100)
    world.ask("parent/direct/chat")
    world.ask("child/direct/chat")
    world.scheduler.put_node(NodeSpec("parent", weight=0.5), world.wall)
    world.end(running)
    status = world.scheduler.status(world.now)
    assert status.fairness_gap == (100 + 2 * 100) / 0.5
    assert status.fairness_gap <= status.fairness_bound
