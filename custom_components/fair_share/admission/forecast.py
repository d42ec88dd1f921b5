"""In which order and when the waiting requests will probably start."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from .entry import Entry
from .model import CostWeights
from .selection import Selector
from .speed import Speeds
from .tree import Leaf, Node


@dataclass(frozen=True, slots=True)
class Start:
    """A request that will start after ``ahead`` others, in about ``in_s`` seconds."""

    entry: Entry
    ahead: int
    in_s: float


def service_s(entry: Entry, speeds: Speeds) -> float:
    """Return how long a request will probably run from its start."""
    read = 0 if entry.counted.output else entry.prompt.uncached
    return speeds.prefill_s(read) + speeds.decode_s(entry.expected_left())


def forecast(
    leaves: Iterable[Leaf],
    running: Collection[Entry],
    *,
    free_slots: int,
    selector: Selector,
    speeds: Speeds,
    costs: CostWeights,
    now: float,
    most: int,
) -> list[Start]:
    """Rehearse the next starts, at most ``most``, as if nothing more arrived.

    Memory is left out, and every answer is taken to be as long as its class's usual.
    The counters are moved as real starts would move them, and put back afterwards.
    """
    queues = {leaf: list(leaf.queue.values()) for leaf in leaves}
    ends = [speeds.decode_s(entry.expected_left()) for entry in running]
    slots = [*ends, *([0.0] * max(free_slots, 0))]
    heapify(slots)
    before: dict[Node, float] = {}
    starts: list[Start] = []
    while slots and len(starts) < most:
        heads = [queue[0] for queue in queues.values() if queue]
        choice = selector.choose(heads, now=now, speeds=speeds)
        if choice is None:
            break
        entry = choice.entry
        queues[entry.leaf].pop(0)
        at = heappop(slots)
        starts.append(Start(entry, len(starts), at))
        heappush(slots, at + service_s(entry, speeds))
        for node in entry.leaf.path:
            before.setdefault(node, node.counter)
            node.counter += entry.expected_cost(costs) / node.weight
    for node, counter in before.items():
        node.counter = counter
    return starts
