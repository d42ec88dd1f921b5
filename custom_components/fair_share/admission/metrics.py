"""How the latest requests fared, by who asked, what kind they were, and where."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from .model import Outcome, RequestRecord, Workload

LATEST = 100
"""So many of the latest requests count,"""

SPAN_S = 86400.0
"""of those that ended within the last day."""


class Measure(StrEnum):
    """What is measured of a request, in seconds.

    ``WAIT``: for its first start. ``TTFT``: from its arrival to its first token.
    ``ITL``: between two tokens, on the average of an answer and without pauses.
    ``COMPLETION``: from its arrival to its whole answer. ``LATENCY``: from its start
    to its first token, what its server is answerable for.
    """

    WAIT = "wait"
    TTFT = "ttft"
    ITL = "itl"
    COMPLETION = "completion"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class ByNode:
    """Requests at or below a node of the share tree."""

    node_id: str


@dataclass(frozen=True, slots=True)
class ByWorkload:
    """Requests of a kind."""

    workload: Workload


@dataclass(frozen=True, slots=True)
class ByServer:
    """Requests that a server answered."""

    server_id: str


type Group = ByNode | ByWorkload | ByServer


class Metrics:
    """Keeps the accounts of the latest requests that started; forgets by itself."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._latest: dict[Group, deque[tuple[float, RequestRecord]]] = {}

    def note(self, node_ids: Iterable[str], record: RequestRecord, now: float) -> None:
        """Note a request that has ended, with the ids of its accounts."""
        if record.server_id is None:
            return
        groups: list[Group] = [ByNode(node_id) for node_id in node_ids]
        groups += [ByWorkload(record.workload), ByServer(record.server_id)]
        for group in groups:
            latest = self._latest.setdefault(group, deque(maxlen=LATEST))
            latest.append((now, record))

    def percentile(
        self, group: Group, measure: Measure, percent: int, now: float
    ) -> float | None:
        """Return what so many percent of a group did not exceed, in seconds.

        By nearest rank; ``None`` where there is nothing to measure.
        """
        values = sorted(
            value
            for ended_s, record in self._latest.get(group, ())
            if ended_s >= now - SPAN_S
            and (value := _value(measure, record)) is not None
        )
        return values[ceil(len(values) * percent / 100) - 1] if values else None


def _value(measure: Measure, record: RequestRecord) -> float | None:
    if measure is Measure.WAIT:
        return record.wait_s
    if measure is Measure.COMPLETION:
        return record.duration_s if record.outcome is Outcome.FINISHED else None
    if record.ttft_s is None:
        return None
    if measure is Measure.TTFT:
        return record.ttft_s
    if measure is Measure.LATENCY:
        return max(0.0, record.ttft_s - record.wait_s)
    gaps = record.tokens.output - 1
    writing_s = record.duration_s - record.ttft_s - record.paused_s
    return max(0.0, writing_s) / gaps if gaps > 0 else None
