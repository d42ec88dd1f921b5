"""What the household measures of itself while it runs: waits, speed, shares."""

from collections.abc import Callable

from ..admission.metrics import Group, Measure, Metrics
from ..admission.model import ROOT_ID, Ending
from ..admission.policy_match import PolicyMeter, Standing
from ..admission.queue import AdmissionQueue
from ..admission.status import NodeStatus
from .updates import INTERVAL_S


class Measures:
    """The latest requests and the last hour, as far as this process has seen them."""

    def __init__(
        self, queue: AdmissionQueue, member_ids: Callable[[], tuple[str, ...]]
    ) -> None:
        """Measure what goes through ``queue`` for these members."""
        self._queue = queue
        self._member_ids = member_ids
        self._metrics = Metrics()
        self._meter = PolicyMeter()
        self._looked_at_s = 0.0
        self._output_tokens = 0
        self.tokens_per_second = 0.0

    def note(self, ending: Ending) -> None:
        """Note a request that has left the queue."""
        if (record := ending.record) is None:
            return
        now = self._queue.clock.monotonic()
        self._metrics.note(ending.path[:-1], record, now)
        profile = self._queue.settings.profiles[record.workload]
        self._meter.note(ending.path, record, profile, now)

    def start(self) -> None:
        """Begin to count; what was written before is not of now."""
        self._output_tokens = self._queue.node_status(ROOT_ID).tokens.output

    def look(self) -> bool:
        """Look at everybody, once every few seconds while anything goes on.

        Returns whether to look once more, though nothing changes any more.
        """
        now = self._queue.clock.monotonic()
        self._meter.look(
            {
                status.node_id: Standing(
                    status.weight, status.waiting > 0, status.charge
                )
                for status in self._members()
            },
            now,
        )
        root = self._queue.node_status(ROOT_ID)
        # While nothing goes on nobody looks: what is new came just now.
        passed_s = min(max(now - self._looked_at_s, 1.0), INTERVAL_S)
        written = max(0, root.tokens.output - self._output_tokens)
        self.tokens_per_second = written / passed_s
        self._looked_at_s, self._output_tokens = now, root.tokens.output
        return self.tokens_per_second > 0 and not root.running

    def percentile(self, group: Group, measure: Measure, percent: int) -> float | None:
        """Return what so many percent of the latest requests did not exceed."""
        now = self._queue.clock.monotonic()
        return self._metrics.percentile(group, measure, percent, now)

    def policy_match(self) -> float | None:
        """Return how near the last hour came to the policy's aim, in percent."""
        weights = {status.node_id: status.weight for status in self._members()}
        now = self._queue.clock.monotonic()
        return self._meter.match(self._queue.settings.policy, weights, now)

    def share_observed(self, status: NodeStatus) -> float | None:
        """Return a node's part of what its parent was charged in the last hour."""
        charges = self._meter.shares(self._queue.clock.monotonic())
        siblings = self._siblings(status)
        whole = sum(charges.get(sibling.node_id, 0.0) for sibling in siblings)
        return charges.get(status.node_id, 0.0) / whole if whole else None

    def share_entitled(self, status: NodeStatus) -> float | None:
        """Return the part its weight gives a node among those that asked since then.

        ``None`` if it did not ask itself.
        """
        charges = self._meter.shares(self._queue.clock.monotonic())
        asked = {
            sibling.node_id: sibling.weight
            for sibling in self._siblings(status)
            if sibling.waiting or sibling.running or charges.get(sibling.node_id)
        }
        if status.node_id not in asked:
            return None
        return asked[status.node_id] / sum(asked.values())

    def _members(self) -> list[NodeStatus]:
        return [self._queue.node_status(node_id) for node_id in self._member_ids()]

    def _siblings(self, status: NodeStatus) -> list[NodeStatus]:
        if status.parent_id is None:
            return [status]
        return self._queue.children(status.parent_id)
