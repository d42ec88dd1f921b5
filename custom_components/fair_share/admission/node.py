"""A node of the share tree, its account, and the queue at each leaf."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from math import inf

from .entry import Entry
from .model import (
    Caps,
    QuotaEnd,
    RequestClass,
    RequestRecord,
    TokenCount,
    Workload,
    WorkloadProfile,
)
from .predict import OutputPredictor
from .quota import WindowAccount
from .state import NodeState
from .status import NodeStatus

_LATEST = 20
"""So many of the latest requests count for waiting times and answers in time."""


class Node:
    """One node and its account. Counts and charges include everything below it.

    ``path`` are the nodes from the root down to this one. ``urgent_lead`` is the part
    of ``counter`` that the node gained by being more urgent than a sibling, not by the
    policy. ``held_back`` marks a node that waits on a limit of its own and so does not
    compete. ``delivered`` is ``counter`` without what is paid for in advance.
    """

    def __init__(
        self,
        node_id: str,
        parent: Node | None,
        weight: float,
        caps: Caps,
        window: WindowAccount,
    ) -> None:
        """Open an empty account."""
        self.node_id = node_id
        self.weight = weight
        self.caps = caps
        self.window = window
        self.children: dict[str, Node] = {}
        self.path: tuple[Node, ...] = ()
        self.parent: Node | None = None
        self.place_under(parent)
        self.counter: float = 0.0 if parent is None else parent.virtual_time
        self.delivered = self.counter
        self.virtual_time: float = 0.0
        self.urgent_lead = 0.0
        self.held_back = False
        self.charge = 0.0
        self._tokens = [0, 0, 0]
        self.waiting = 0
        self.running = 0
        self.requests = 0
        self.rejected = 0
        self.preemptions = 0
        self.last: RequestRecord | None = None
        self.mean_wait_s = 0.0
        self._in_time: deque[bool] = deque(maxlen=_LATEST)

    @property
    def tokens(self) -> TokenCount:
        """Tokens served since the account was opened."""
        return TokenCount(*self._tokens)

    def count(self, uncached: int, cached: int, output: int) -> None:
        """Count tokens, here and in the current quota window."""
        counts = self._tokens
        counts[0] += uncached
        counts[1] += cached
        counts[2] += output
        self.window.count(uncached + output)

    def place_under(self, parent: Node | None) -> None:
        """Take a place in the tree, with all that is below."""
        self.parent = parent
        self.path = (self,) if parent is None else (*parent.path, self)
        for child in self.children.values():
            child.place_under(self)

    def leaves(self) -> Iterator[Leaf]:
        """Yield the request classes at or below this node."""
        for child in self.children.values():
            yield from child.leaves()

    def lift(self) -> None:
        """Come back into the competition: at least at the level of the siblings."""
        if self.parent is not None:
            self.shift(max(0.0, self.parent.virtual_time - self.counter))
        self.held_back = False

    def reweigh(self, weight: float) -> None:
        """Change the weight; what is paid for in advance will be refunded by it."""
        ahead = (self.counter - self.delivered) * self.weight
        self.counter = self.delivered + ahead / weight
        self.weight = weight

    def at_capacity(self) -> bool:
        """Whether as many requests run as the node's own limit allows."""
        return self.caps.in_flight is not None and self.running >= self.caps.in_flight

    def shift(self, by: float) -> None:
        """Move to another level among the siblings."""
        self.counter += by
        self.delivered += by

    def note_rejected(self) -> None:
        """Count a refusal here and on every account above."""
        for node in self.path:
            node.rejected += 1

    def note_started(self, waited_s: float) -> None:
        """Count a request that starts to run here for the first time."""
        self.mean_wait_s += (waited_s - self.mean_wait_s) * 2 / (_LATEST + 1)

    def note_ended(self, record: RequestRecord, *, in_time: bool | None) -> None:
        """Count a request that ran here and has ended.

        ``in_time`` tells whether a whole answer was ready before its deadline.
        """
        self.requests += 1
        self.last = record
        if in_time is not None:
            self._in_time.append(in_time)

    def on_time_rate(self) -> float:
        """Return the smoothed part of the latest answers that were ready in time."""
        return (sum(self._in_time) + 1) / (len(self._in_time) + 2)

    def demotes(self) -> bool:
        """Whether a used-up quota here turns what runs into background work."""
        return self.window.at_end is QuotaEnd.DEMOTE and self.window.exhausted

    def status(self) -> NodeStatus:
        """Return a snapshot."""
        return NodeStatus(
            node_id=self.node_id,
            parent_id=None if self.parent is None else self.parent.node_id,
            weight=self.weight,
            waiting=self.waiting,
            running=self.running,
            requests=self.requests,
            rejected=self.rejected,
            preemptions=self.preemptions,
            tokens=self.tokens,
            charge=self.charge,
            counter=self.counter,
            window=self.window.status(),
            last=self.last,
        )

    def state(self, prepaid: float) -> NodeState:
        """Return what outlives a restart, without what is only prepaid."""
        started_at, used_tokens, granted_tokens = self.window.kept()
        return NodeState(
            node_id=self.node_id,
            tokens=self.tokens,
            charge=self.charge - prepaid,
            counter=self.delivered,
            virtual_time=self.virtual_time,
            requests=self.requests,
            rejected=self.rejected,
            preemptions=self.preemptions,
            window=self.window.window,
            window_started_at=started_at,
            used_tokens=used_tokens,
            granted_tokens=granted_tokens,
            bucket_tokens=self.window.level,
            bucket_at=self.window.level_at,
            counted_from=self.window.kept_from(started_at),
        )

    def restore(self, state: NodeState) -> None:
        """Take over the account from before a restart."""
        self._tokens = [state.tokens.uncached, state.tokens.cached, state.tokens.output]
        self.charge = state.charge
        self.counter = self.delivered = state.counter
        self.virtual_time = state.virtual_time
        self.requests = state.requests
        self.rejected = state.rejected
        self.preemptions = state.preemptions
        if state.window is self.window.window:
            self.window.restore(
                state.window_started_at,
                state.used_tokens,
                state.granted_tokens,
                state.counted_from,
            )
            self.window.restore_level(state.bucket_tokens, state.bucket_at)


class Leaf(Node):
    """A request class: the queue of one workload of one source.

    ``head`` is the request that is next in it. ``last_start_s`` is when one of it
    started last, ``may_be_demoted`` whether a quota above it may turn it into
    background work.
    """

    def __init__(
        self,
        spec: RequestClass,
        parent: Node,
        profile: WorkloadProfile,
        window: WindowAccount,
    ) -> None:
        """Open an empty queue."""
        super().__init__(spec.class_id, parent, spec.weight, Caps(), window)
        self.workload: Workload = spec.workload
        self.profile = profile
        self.queue: OrderedDict[str, Entry] = OrderedDict()
        self.head: Entry | None = None
        self.predictor = OutputPredictor()
        self.last_start_s = -inf
        self.may_be_demoted = False

    def leaves(self) -> Iterator[Leaf]:
        """Yield this class itself."""
        yield self

    def judge_anew(self) -> None:
        """Have it found out again how urgent the head is."""
        if self.head:
            self.head.judged_until_s = -inf

    def first(self, accepts: Callable[[Entry], object]) -> Entry | None:
        """Return the first request that is accepted, ``None`` if there is none."""
        return next((entry for entry in self.queue.values() if accepts(entry)), None)


def parting(ours: tuple[Node, ...], theirs: tuple[Node, ...]) -> tuple[Node, Node]:
    """Return the siblings at which two paths part; equal at the end if they don't."""
    pairs = list(zip(ours, theirs, strict=False))
    return next((pair for pair in pairs if pair[0] is not pair[1]), pairs[-1])
