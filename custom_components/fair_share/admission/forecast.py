"""In which order and when the waiting requests will probably start."""

from heapq import heapify, heappop, heappush

from .board import Board
from .entry import Entry
from .model import CostWeights
from .node import Node
from .selection import Selector
from .speed import Speeds
from .status import Start


def service_s(entry: Entry, speeds: Speeds) -> float:
    """Return how long a request will probably run from its start."""
    read = 0 if entry.counted.output else entry.prompt.uncached
    return speeds.prefill_s(read) + speeds.decode_s(entry.expected_left())


def expected_wait_s(probe: Entry, board: Board, speeds: Speeds, now: float) -> float:
    """Return in about how many seconds ``probe`` would start; 0 if at once."""
    if board.free_slots() > 0 and not board.waiting:
        return 0.0
    band = probe.effective_band(now)
    ahead = sum(
        service_s(entry, speeds)
        for entry in board.waiting.values()
        if entry.effective_band(now) <= band and not board.tree.is_paused(entry.leaf)
    )
    soonest = min(
        (speeds.decode_s(entry.expected_left()) for entry in board.placed()),
        default=0.0,
    )
    return soonest + ahead / max(board.slots(), 1)


def forecast(
    board: Board,
    *,
    selector: Selector,
    speeds: Speeds,
    costs: CostWeights,
    now: float,
    most: int,
) -> dict[Entry, Start]:
    """Rehearse the next starts, at most ``most``, as if nothing more arrived.

    Memory is left out, and every answer is taken to be as long as its class's usual.
    The counters are moved as real starts would move them, and put back afterwards.
    """
    waiting = board.backlogged.values()
    leaves = [leaf for leaf in waiting if not board.tree.is_paused(leaf)]
    queues = {leaf: list(leaf.queue.values()) for leaf in leaves}
    ends = [speeds.decode_s(entry.expected_left()) for entry in board.placed()]
    slots = [*ends, *([0.0] * board.free_slots())]
    heapify(slots)
    before: dict[Node, float] = {}
    starts: dict[Entry, Start] = {}
    while slots and len(starts) < most:
        heads = [queue[0] for queue in queues.values() if queue]
        choice = selector.choose(heads, now=now, speeds=speeds)
        if choice is None:
            break
        entry = choice.entry
        queues[entry.leaf].pop(0)
        at = heappop(slots)
        starts[entry] = Start(len(starts), at)
        heappush(slots, at + service_s(entry, speeds))
        for node in entry.leaf.path:
            before.setdefault(node, node.counter)
            node.counter += entry.expected_cost(costs) / node.weight
    for node, counter in before.items():
        node.counter = counter
    return starts
