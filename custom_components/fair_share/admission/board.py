"""What waits, what runs, and where: the state that all rules of the queue share."""

from collections.abc import Collection
from datetime import datetime

from .entry import Entry
from .model import OUTSIDE_ID, ServerCapacity, Workload
from .node import Leaf
from .servers import Server
from .speed import Speeds
from .tree import ShareTree

_BOUNDLESS = 2**60
"""Of whatever is elsewhere there is enough."""


class Board:
    """Tree, servers and requests, and the moves that keep them consistent."""

    def __init__(self, wall: datetime) -> None:
        """Start empty."""
        self.tree = ShareTree(wall)
        self.servers: dict[str, Server] = {}
        self._outside = Server(
            ServerCapacity(OUTSIDE_ID, slots=_BOUNDLESS, context_tokens=_BOUNDLESS),
            Speeds(),
        )
        self._outside_waiting = 0
        self.waiting: dict[str, Entry] = {}
        self.running: dict[str, Entry] = {}
        self.backlogged: dict[str, Leaf] = {}
        self.any_held_back = False
        self._background_waiting = 0
        self.in_flight_cost = 0.0
        self._out_of_reach: dict[str, Entry] = {}
        self._latest_hosts: tuple[Server, ...] = ()

    def knows(self, request_id: str) -> bool:
        """Whether a request of this id waits or runs."""
        return request_id in self.waiting or request_id in self.running

    def candidates(self, entry: Entry) -> Collection[Server]:
        """Return the servers that count for a request, in reach or not."""
        return (self._outside,) if entry.request.outside else self.servers.values()

    def hosts(self, entry: Entry) -> tuple[Server, ...]:
        """Return the servers in reach that could run the request if it were alone."""
        return tuple(
            server
            for server in self.candidates(entry)
            if server.usable and server.holds(entry.request, entry.counted.output)
        )

    @property
    def any_out_of_reach(self) -> bool:
        """Whether something waits that no server in reach could run."""
        return bool(self._out_of_reach)

    def weigh(self, entry: Entry) -> None:
        """Note the most that a running request can be charged, as is known now."""
        cost = entry.worst_cost()
        self.in_flight_cost += cost - entry.in_flight_cost
        entry.in_flight_cost = cost

    def slots(self) -> int:
        """Return how many requests can run at once on the servers in reach."""
        return sum(
            server.capacity.slots for server in self.servers.values() if server.usable
        )

    def free_slots(self) -> int:
        """Return how many more could start now, memory aside."""
        return sum(
            server.free_slots() for server in self.servers.values() if server.usable
        )

    def may_start(self) -> bool:
        """Whether anything that waits could start now, memory aside."""
        return self._outside_waiting > 0 or self.free_slots() > 0

    def placed(self) -> list[Entry]:
        """Return the running requests that hold a slot of a server."""
        return [e for e in self.running.values() if not e.request.outside]

    def background_waits(self) -> bool:
        """Whether background work waits that is not paused."""
        if not self._background_waiting or not self.tree.pauses_any:
            return self._background_waiting > 0
        return any(
            leaf.workload is Workload.BACKGROUND and not self.tree.is_paused(leaf)
            for leaf in self.backlogged.values()
        )

    def note_reach(self, entry: Entry, now: float) -> None:
        """Note whether any server in reach could run a waiting request."""
        hosts = self.hosts(entry)
        # Most requests have the same ones: one tuple serves them all.
        if hosts != self._latest_hosts:
            self._latest_hosts = hosts
        entry.hosts = self._latest_hosts
        if hosts:
            entry.unreachable_since_s = None
            self._out_of_reach.pop(entry.request.request_id, None)
        elif entry.unreachable_since_s is None:
            entry.unreachable_since_s = now
            self._out_of_reach[entry.request.request_id] = entry

    def note_servers(self, now: float) -> None:
        """Note that servers came, went or changed."""
        for entry in self.waiting.values():
            self.note_reach(entry, now)

    def out_of_reach(self) -> list[Entry]:
        """Return the waiting requests that no server in reach could run."""
        return list(self._out_of_reach.values())

    def enqueue(self, entry: Entry, *, front: bool, lift: bool = True) -> None:
        """Let a request wait; see ``ShareTree.enqueue``."""
        self.waiting[entry.request.request_id] = entry
        self.backlogged[entry.leaf.node_id] = entry.leaf
        self._background_waiting += entry.leaf.workload is Workload.BACKGROUND
        self._outside_waiting += entry.request.outside
        self.tree.enqueue(entry, front=front, lift=lift)

    def dequeue(self, entry: Entry) -> None:
        """Let a request wait no more."""
        del self.waiting[entry.request.request_id]
        self._out_of_reach.pop(entry.request.request_id, None)
        entry.unreachable_since_s = None
        self._background_waiting -= entry.leaf.workload is Workload.BACKGROUND
        self._outside_waiting -= entry.request.outside
        self.tree.dequeue(entry)
        if not entry.leaf.queue:
            del self.backlogged[entry.leaf.node_id]
        for server in self.servers.values():
            server.unblock(entry)

    def start(self, entry: Entry, server: Server) -> None:
        """Move a waiting request to a server."""
        self.dequeue(entry)
        self.running[entry.request.request_id] = entry
        server.running[entry.request.request_id] = entry

    def leave_server(self, entry: Entry, now: float) -> None:
        """Take a request off the server where it runs."""
        del self.running[entry.request.request_id]
        server = entry.at()
        server.running.pop(entry.request.request_id)
        server.pace.leave(entry, now)
        self.in_flight_cost -= entry.in_flight_cost
        entry.in_flight_cost = 0.0
        for node in entry.path:
            node.running -= 1
