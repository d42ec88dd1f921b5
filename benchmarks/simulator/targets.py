"""How near a run comes to what each policy aims at.

Members are compared, not clients: a member's requests of all kinds count together,
except where a kind is named.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from custom_components.fair_share.admission.model import DEFAULT_PROFILES, Workload

from .household_run import Played

type Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Targets:
    """What the four policies aim at, of one run.

    ``service_gap``: the most by which the service of two members, in weighted tokens
    per weight, drifted apart while both had something waiting without a break (equal
    tokens: at least). ``jain_of_mean_waits``: Jain's index of the members' mean waits,
    1 when all are equal (equal waiting: at most). ``on_time_spread``: largest less
    smallest part of a member's requests whose answer was complete in time (equal
    completion: at least). ``voice_within_target``: part of the voice requests whose
    first token came in time (latency first: at most). ``on_time``: part of all
    requests whose answer was complete in time.
    """

    service_gap: float
    jain_of_mean_waits: float
    on_time_spread: float
    voice_within_target: float
    on_time: float


def targets(played: Played) -> Targets:
    """Measure one run."""
    in_time: dict[str, list[bool]] = {}
    waits_s: dict[str, list[float]] = {}
    for served in played.run.served:
        client = played.client(served)
        took_s = served.end_s - served.job.arrival_s
        limit_s = DEFAULT_PROFILES[client.workload].completion_target_s
        in_time.setdefault(client.member, []).append(took_s <= limit_s)
        waits_s.setdefault(client.member, []).append(played.waits_s[served.job.job_id])
    rates = [fmean(each) for each in in_time.values()]
    voice = played.of(Workload.VOICE)
    target_s = DEFAULT_PROFILES[Workload.VOICE].ttft_target_s
    return Targets(
        service_gap=service_gap(played),
        jain_of_mean_waits=jain([fmean(each) for each in waits_s.values()]),
        on_time_spread=max(rates) - min(rates),
        voice_within_target=fmean(served.ttft_s <= target_s for served in voice),
        on_time=fmean(each for several in in_time.values() for each in several),
    )


def jain(values: Sequence[float]) -> float:
    """Return Jain's index: 1 when all are equal, 1/n when one has everything."""
    squares = sum(value**2 for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def service_gap(played: Played) -> float:
    """Return the largest drift of two members that both wait, over any time."""
    backlogs: dict[str, list[Span]] = {}
    for served in played.run.served:
        job = served.job
        began_s = job.arrival_s + played.waits_s[job.job_id]
        member = played.client(served).member
        backlogs.setdefault(member, []).append((job.arrival_s, began_s))
    joined = {member: _joined(spans) for member, spans in backlogs.items()}
    return max(
        (
            _drift(played, one, other, _common(joined[one], joined[other]))
            for one, other in combinations(joined, 2)
        ),
        default=0.0,
    )


def _drift(played: Played, one: str, other: str, spans: Sequence[Span]) -> float:
    """Return by how much the difference of two members' service moved in a span."""
    clients = played.scenario.clients
    signs = {one: 1, other: -1}
    left = deque(spans)
    most = difference = lowest = highest = 0.0
    for service in played.services:
        while left and service.at_s > left[0][1]:
            left.popleft()
            difference = lowest = highest = 0.0
        client = clients[service.client]
        if left and service.at_s > left[0][0] and client.member in signs:
            difference += signs[client.member] * service.charge / client.weight
            lowest, highest = min(lowest, difference), max(highest, difference)
            most = max(most, highest - lowest)
    return most


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Join spans that touch or overlap."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _common(ours: Iterable[Span], theirs: Sequence[Span]) -> list[Span]:
    both = (
        (max(one[0], other[0]), min(one[1], other[1]))
        for one in ours
        for other in theirs
    )
    return sorted((start, end) for start, end in both if start < end)
