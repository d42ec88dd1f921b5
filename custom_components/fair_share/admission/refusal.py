"""Whether a request has to be refused, before it waits or while it does."""

from collections.abc import Collection
from datetime import datetime

from .board import Board
from .entry import Entry
from .model import Limits, QuotaEnd, Rejected, RejectReason
from .node import Leaf, Node
from .servers import Server


def too_long(entry: Entry, servers: Collection[Server]) -> Rejected | None:
    """Return a refusal if no server, reachable or not, could ever hold the request."""
    allowed = [server for server in servers if server.allowed_for(entry.request)]
    if not allowed or any(
        server.holds(entry.request, entry.counted.output) for server in allowed
    ):
        return None
    limit = max(server.room_tokens() for server in allowed)
    return Rejected(RejectReason.TOO_LONG, limit_tokens=limit)


def quota_used_up(
    leaf: Leaf, wall: datetime, *, resumed: bool = False
) -> Rejected | None:
    """Return a refusal, until the reset, if a quota above the class is used up.

    Not if the quota only demotes, nor if it is refilled steadily: then the request
    waits for the refill. What was ``resumed`` has begun, and may end like what runs.
    """
    closed = [
        node.window.opens_at()
        for node in leaf.path
        if _closed(node, resumed=resumed) and node.window.refill_per_s is None
    ]
    if not closed:
        return None
    wait = (max(closed) - wall).total_seconds()
    return Rejected(RejectReason.QUOTA, retry_after_s=max(wait, 0.0))


def waits_for_refill(leaf: Leaf, *, resumed: bool = False) -> datetime | None:
    """Return when a refilled quota lets the class go on, ``None`` if it may now.

    Or what of it was ``resumed``, as above.
    """
    return max(
        (
            node.window.opens_at()
            for node in leaf.path
            if _closed(node, resumed=resumed)
        ),
        default=None,
    )


def queue_full(leaf: Leaf, limits: Limits, expected_wait_s: float) -> Rejected | None:
    """Return a refusal if too much waits already, in all or in this branch."""
    path = leaf.path
    full = (
        path[0].waiting >= limits.queued
        or leaf.waiting >= limits.queued_per_class
        or any(
            node.caps.queued is not None and node.waiting >= node.caps.queued
            for node in path
        )
    )
    if not full:
        return None
    return Rejected(RejectReason.QUEUE_FULL, retry_after_s=expected_wait_s)


def _closed(node: Node, *, resumed: bool) -> bool:
    at_end = node.window.at_end
    stays_open = at_end is QuotaEnd.DEMOTE or (resumed and at_end is QuotaEnd.FINISH)
    return node.window.exhausted and not stays_open


class Refuser:
    """Refuses what waits and lost its chance; keeps the refusals until asked."""

    def __init__(self, board: Board) -> None:
        """Refuse requests of ``board``."""
        self._board = board
        self._refused: list[tuple[Entry, Rejected]] = []

    def take(self) -> list[tuple[Entry, Rejected]]:
        """Return what was refused since the last time, and why."""
        taken, self._refused = self._refused, []
        return taken

    def refuse(self, entry: Entry, error: Rejected) -> None:
        """Refuse a request that waits."""
        self._board.dequeue(entry)
        self.note_refused(entry, error)

    def note_refused(self, entry: Entry, error: Rejected) -> None:
        """Count the refusal of a request that waits no more."""
        entry.leaf.note_rejected()
        self._refused.append((entry, error))

    def refuse_hopeless(self) -> None:
        """Refuse what no server can hold any more."""
        for entry in list(self._board.waiting.values()):
            if rejected := too_long(entry, self._board.servers.values()):
                self.refuse(entry, rejected)

    def refuse_exhausted(self, wall: datetime) -> None:
        """Refuse what waits under a quota that is used up."""
        if not any(node.window.exhausted for node in self._board.tree.metered):
            return
        for leaf in list(self._board.backlogged.values()):
            rejected = quota_used_up(leaf, wall)
            if rejected is None:
                continue
            all_of_it = quota_used_up(leaf, wall, resumed=True) is not None
            for entry in list(leaf.queue.values()):
                if all_of_it or not entry.resumed:
                    self.refuse(entry, rejected)

    def refuse_impatient(self, now: float) -> None:
        """Refuse what has waited for a server in reach for longer than its patience."""
        for entry in self._board.out_of_reach():
            ends = entry.patience_ends_s()
            if ends is not None and ends <= now:
                self.refuse(entry, Rejected(RejectReason.NO_SERVER))
