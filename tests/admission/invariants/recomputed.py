"""What the scheduler keeps, so that it need not look again, worked out from scratch."""

from collections.abc import Iterator
from math import inf

import pytest

from custom_components.fair_share.admission.board import Board
from custom_components.fair_share.admission.entry import Entry
from custom_components.fair_share.admission.model import (
    CostWeights,
    QuotaEnd,
    Settings,
    Workload,
)
from custom_components.fair_share.admission.node import Leaf, Node
from custom_components.fair_share.admission.placement import finish_s
from custom_components.fair_share.admission.servers import Server

PATIENT, BACKGROUND = 2, 3
CLOSE = 1e-6


def leaves(board: Board) -> list[Leaf]:
    """Return all request classes."""
    return [node for node in board.tree.nodes.values() if isinstance(node, Leaf)]


def what_is_kept_of_nodes_is_right(board: Board) -> None:
    """Compare counts, counters and sets of the share tree."""
    tree = board.tree
    running = [*board.running.values()]
    for node in tree.nodes.values():
        below = [entry for leaf in node.leaves() for entry in leaf.queue.values()]
        charged = [entry for entry in running if node in entry.path]
        assert node.waiting == len(below)
        assert node.running == len(charged)
        ahead = sum(_prepaid(entry) for entry in charged) / node.weight
        assert node.counter - node.delivered == pytest.approx(ahead, abs=CLOSE)
    assert tree.metered == {
        node for node in tree.nodes.values() if node.window.limit is not None
    }
    assert tree.limited == {
        node
        for node in tree.nodes.values()
        if node.window.refill_per_s is not None or node.caps.in_flight is not None
    }
    held_back = [node for node in tree.nodes.values() if _waits_held_back(node)]
    assert board.any_held_back or not held_back


def what_is_kept_of_classes_is_right(board: Board, settings: Settings) -> None:
    """Compare heads, demotions and urgency."""
    for leaf in leaves(board):
        assert leaf.head is next(iter(leaf.queue.values()), None)
        assert leaf.profile == settings.profiles[leaf.workload]
        assert leaf.may_be_demoted == any(
            node.window.limit is not None and node.window.at_end is QuotaEnd.DEMOTE
            for node in leaf.path
        )
    filled = {leaf.node_id: leaf for leaf in leaves(board) if leaf.queue}
    assert board.backlogged == filled


def what_is_kept_of_urgency_is_right(board: Board, now: float) -> None:
    """Compare the band and deadline of each head, for as long as they should hold."""
    for leaf in board.backlogged.values():
        head = leaf.head
        assert head is not None
        if now < head.judged_until_s:
            assert head.band == band_of(head, now)
            assert head.overdue_s == pytest.approx(overdue_at(head))


def what_is_kept_of_requests_is_right(board: Board) -> None:
    """Compare hosts, reach, the cost of what runs and what waits where."""
    waiting = board.waiting.values()
    for entry in waiting:
        assert entry.hosts == tuple(
            server
            for server in board.servers.values()
            if server.usable and server.holds(entry.request, entry.counted.output)
        )
        assert (entry.unreachable_since_s is None) == bool(entry.hosts)
        assert (entry.dispatch, entry.server) == (None, None)
    lost = [entry for entry in waiting if not entry.hosts]
    assert sorted(_ids(board.out_of_reach())) == sorted(_ids(lost))
    assert board.background_waits() == any(
        entry.leaf.workload is Workload.BACKGROUND for entry in waiting
    )
    cost = sum(_worst_cost(entry) for entry in board.running.values())
    assert board.in_flight_cost == pytest.approx(cost, abs=CLOSE)
    for server in board.servers.values():
        here = {
            name: each for name, each in board.running.items() if each.server is server
        }
        assert server.running == here
        blocked = server.blocked
        assert blocked is None or board.waiting[_id(blocked.entry)] is blocked.entry


def band_of(entry: Entry, now: float) -> int:
    """Return how urgent a request is: from its workload, quotas and age alone."""
    demoted = any(
        node.window.at_end is QuotaEnd.DEMOTE and node.window.exhausted
        for node in entry.path or entry.leaf.path
    )
    profile = entry.leaf.profile
    band = BACKGROUND if demoted else profile.band
    aged = int((now - passed_over_since(entry)) // profile.age_step_s)
    return max(0, band - (entry.aged_by if entry.server else aged))


def passed_over_since(entry: Entry) -> float:
    """Return since when others start instead of a request."""
    paused = entry.paused_at_s
    waits_first = max(entry.arrived_s, entry.leaf.last_start_s)
    return waits_first if paused is None else paused


def overdue_at(entry: Entry) -> float:
    """Return when a waiting request is overdue."""
    profile = entry.leaf.profile
    paused = entry.paused_at_s is not None
    limit = profile.max_pause_s if paused else profile.max_wait_s
    return passed_over_since(entry) + limit


def competing(board: Board) -> Iterator[Entry]:
    """Yield the requests that may start next, one of each class."""
    for leaf in board.backlogged.values():
        if any(_closed(node) for node in leaf.path):
            continue
        yield from [entry for entry in leaf.queue.values() if entry.hosts][:1]


def could_start(
    board: Board, costs: CostWeights, now: float
) -> list[tuple[Entry, Server]]:
    """Return what could start at this moment, but waits: normally nothing."""
    return [
        (entry, server)
        for entry in competing(board)
        for server in entry.hosts
        if server.obstacle(entry, patient=is_patient(entry, now)) is None
        and server.may_overtake(entry, entry.expected_cost(costs))
        and not waits_for_better(entry, server, now)
    ]


def is_patient(entry: Entry, now: float) -> bool:
    """Tell whether a waiting request may wait until one more in flight pays."""
    return band_of(entry, now) >= PATIENT and now < overdue_at(entry)


def waits_for_better(entry: Entry, server: Server, now: float) -> bool:
    """Tell whether a request does well to wait although a server is free.

    Only if its answer will be there in half the time, and it is not overdue. What
    else was told to wait there is left out, so that it may have to wait longer.
    """
    busy = [
        each
        for each in entry.hosts
        if each.running and each.obstacle(entry, patient=is_patient(entry, now))
    ]
    soonest = min((_after_a_wait(entry, each) for each in busy), default=inf)
    return now < overdue_at(entry) and finish_s(entry, server) > 2 * soonest


def _after_a_wait(entry: Entry, server: Server) -> float:
    pace, busy = server.pace, len(server.running) + server.foreign_running
    first = min(
        pace.write_s(each.expected_left(), busy) for each in server.running.values()
    )
    return first + pace.write_s(entry.expected_left(), busy)


def _closed(node: Node) -> bool:
    cap, window = node.caps.in_flight, node.window
    full = cap is not None and node.running >= cap
    return full or (window.exhausted and window.at_end is not QuotaEnd.DEMOTE)


def _waits_held_back(node: Node) -> bool:
    return node.waiting > 0 and node.held_back


def _prepaid(entry: Entry) -> float:
    counted = entry.counted
    return entry.booked - entry.costs.charge(
        counted.uncached, counted.cached, counted.output
    )


def _worst_cost(entry: Entry) -> float:
    prompt = max(entry.request.prompt_tokens, entry.prompt.prompt)
    output = max(entry.output_bound, entry.counted.output)
    return entry.costs.charge(prompt, 0, output)


def _id(entry: Entry) -> str:
    return entry.request.request_id


def _ids(entries: list[Entry]) -> list[str]:
    return [_id(entry) for entry in entries]
