"""The orders that home gateways offer: turns, and strict priority."""

from collections import deque
from collections.abc import Mapping, Sequence as Batch

from .job import Sequence


class RoundRobin:
    """One queue for each client, served in turns, whatever a request costs."""

    def __init__(self) -> None:
        """Start empty."""
        self._queues: dict[int, deque[Sequence]] = {}

    def append(self, sequence: Sequence, now: float) -> bool:  # noqa: ARG002 - protocol
        """Take a sequence in; a client that comes back has its turn last."""
        self._queues.setdefault(sequence.job.client, deque()).append(sequence)
        return True

    def head(self) -> Sequence | None:
        """Return the oldest sequence of the client whose turn it is."""
        return next((queue[0] for queue in self._queues.values()), None)

    def admitted(self) -> None:
        """Take the head out; its client's next turn comes after all others."""
        client, queue = next(iter(self._queues.items()))
        del self._queues[client]
        queue.popleft()
        if queue:
            self._queues[client] = queue

    def charge(self, batch: Batch[Sequence]) -> None:
        """Charge nothing."""

    def counter_gap(self) -> None:
        """There are no counters."""
        return


class StrictPriority:
    """The most urgent client first, and in order of arrival; nobody ages."""

    def __init__(self, bands: Mapping[int, int]) -> None:
        """Start empty; ``bands`` by client, 0 is the most urgent."""
        self._bands = bands
        self._queues: dict[int, deque[Sequence]] = {
            band: deque() for band in sorted(set(bands.values()))
        }

    def append(self, sequence: Sequence, now: float) -> bool:  # noqa: ARG002 - protocol
        """Take a sequence in."""
        self._queues[self._bands[sequence.job.client]].append(sequence)
        return True

    def head(self) -> Sequence | None:
        """Return the oldest sequence of the most urgent band that has one."""
        return next((queue[0] for queue in self._queues.values() if queue), None)

    def admitted(self) -> None:
        """Take the head out."""
        next(queue for queue in self._queues.values() if queue).popleft()

    def charge(self, batch: Batch[Sequence]) -> None:
        """Charge nothing."""

    def counter_gap(self) -> None:
        """There are no counters."""
        return
