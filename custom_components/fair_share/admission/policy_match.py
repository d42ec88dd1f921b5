"""How near the household came, within the last hour, to what its policy aims at."""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .model import Outcome, RequestRecord, Workload, WorkloadProfile

SPAN_S = 3600.0
"""What is judged: the last hour."""

LEAST_TOGETHER_S = 60.0
"""Equal work is judged once members have waited together for so long."""

_MOST_REQUESTS = 5000
_SEVERAL = 2
"""Between so many at least there is something to compare."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a member stands at a moment; ``charge`` counts since long ago."""

    weight: float
    waiting: bool
    charge: float


@dataclass(frozen=True, slots=True)
class _Together:
    """What members got while they waited together, and what was their due."""

    ended_s: float
    lasted_s: float
    got: Mapping[str, float]
    due: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Request:
    ended_s: float
    member_id: str
    source_id: str
    record: RequestRecord
    in_time: bool
    spoken_in_time: bool | None


class PolicyMeter:
    """Judges the last hour by the policy in force, from 0 (not at all) to 100.

    Equal tokens: ``100 * (1 - sum |got - due| / 2)`` over the parts that members got
    of all service while at least two of them waited, against the parts that their
    weights give them then. Equal waiting: Jain's index of their mean waits times their
    weights, of those who had to wait. Equal completion: the smallest by the largest of
    their parts of answers in time. Latency first: the part of spoken requests whose
    first token was in time.
    """

    def __init__(self) -> None:
        """Have seen nothing yet."""
        self._looked_at_s = 0.0
        self._standings: Mapping[str, Standing] = {}
        self._together: deque[_Together] = deque()
        self._requests: deque[_Request] = deque(maxlen=_MOST_REQUESTS)

    def look(self, standings: Mapping[str, Standing], now: float) -> None:
        """Note how the members stand now, by their ids."""
        before, since = self._standings, self._looked_at_s
        self._standings, self._looked_at_s = standings, now
        both = [
            member_id
            for member_id, standing in standings.items()
            if standing.waiting and member_id in before and before[member_id].waiting
        ]
        if len(both) < _SEVERAL:
            return
        got = {
            member_id: max(0.0, standings[member_id].charge - before[member_id].charge)
            for member_id in both
        }
        served = sum(got.values())
        weights = sum(standings[member_id].weight for member_id in both)
        due = {
            member_id: served * standings[member_id].weight / weights
            for member_id in both
        }
        self._together.append(_Together(now, now - since, got, due))

    def note(
        self,
        path: Sequence[str],
        record: RequestRecord,
        profile: WorkloadProfile,
        now: float,
    ) -> None:
        """Note a request that has ended; ``path`` are its accounts from the root."""
        finished = record.outcome is Outcome.FINISHED
        in_time = finished and record.duration_s <= profile.completion_target_s
        spoken = record.workload in (Workload.VOICE, Workload.ACCESSIBILITY)
        first = record.ttft_s
        first_in_time = first is not None and first <= profile.ttft_target_s
        self._requests.append(
            _Request(
                now,
                path[1],
                path[2],
                record,
                in_time,
                first_in_time if spoken else None,
            )
        )

    def match(
        self, policy: str, weights: Mapping[str, float], now: float
    ) -> float | None:
        """Return how near the last hour came, ``None`` if it does not tell.

        ``weights`` are those of all members, by their ids.
        """
        self._forget(now)
        judge: dict[str, Callable[[Mapping[str, float]], float | None]] = {
            "equal_tokens": self._equal_tokens,
            "equal_waiting": self._equal_waiting,
            "equal_completion": self._equal_completion,
            "latency_first": self._latency_first,
        }
        part = judge[policy](weights)
        return None if part is None else 100 * part

    def shares(self, now: float) -> dict[str, float]:
        """Return what members and their sources were charged in the last hour."""
        self._forget(now)
        charges: dict[str, float] = defaultdict(float)
        for request in self._requests:
            charges[request.member_id] += request.record.charge
            charges[request.source_id] += request.record.charge
        return dict(charges)

    def _equal_tokens(self, _weights: Mapping[str, float]) -> float | None:
        if sum(each.lasted_s for each in self._together) < LEAST_TOGETHER_S:
            return None
        apart: dict[str, float] = defaultdict(float)
        served = 0.0
        for each in self._together:
            served += sum(each.got.values())
            for member_id, got in each.got.items():
                apart[member_id] += got - each.due[member_id]
        return 1 - sum(map(abs, apart.values())) / 2 / served if served else None

    def _equal_waiting(self, weights: Mapping[str, float]) -> float | None:
        waits: dict[str, list[float]] = defaultdict(list)
        for request in self._requests:
            if request.member_id in weights:
                waits[request.member_id].append(request.record.wait_s)
        means = [
            weights[member_id] * sum(values) / len(values)
            for member_id, values in waits.items()
            if max(values) > 0
        ]
        if len(means) < _SEVERAL:
            return None
        return sum(means) ** 2 / (len(means) * sum(mean**2 for mean in means))

    def _equal_completion(self, _weights: Mapping[str, float]) -> float | None:
        in_time: dict[str, list[bool]] = defaultdict(list)
        for request in self._requests:
            if request.record.outcome is Outcome.FINISHED:
                in_time[request.member_id].append(request.in_time)
        rates = [sum(values) / len(values) for values in in_time.values()]
        if len(rates) < _SEVERAL:
            return None
        return min(rates) / max(rates) if max(rates) else 1.0

    def _latency_first(self, _weights: Mapping[str, float]) -> float | None:
        spoken = [
            request.spoken_in_time
            for request in self._requests
            if request.spoken_in_time is not None
        ]
        return sum(spoken) / len(spoken) if spoken else None

    def _forget(self, now: float) -> None:
        for kept in (self._together, self._requests):
            while kept and kept[0].ended_s < now - SPAN_S:
                kept.popleft()
