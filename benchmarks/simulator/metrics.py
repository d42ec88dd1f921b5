"""The numbers of the published table, and those that belong beside them.

The service difference is the last variant of the VTC artifact's ``visualize.py``: at 19
ticks, 28.5 s apart, the service of each client in a window of 60 s is compared with
that of the client that got most, but never by more than what the client asked for.
Rejecting work or serving less of it makes the difference smaller, so throughput,
rejections and waiting times always stand next to it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean, pvariance

from .job import Job
from .run import Run, Served

_WARM_UP_S = 30.0
_WINDOW_S = 60.0
_TICK_S = 28.5
_TICKS = 19
_ENOUGH_JOBS = 20


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table; ``None`` where nobody knows.

    ``avg``, ``max`` and ``var`` are of the service difference, in weighted tokens per
    second. ``tokens_per_s`` are prompt and output tokens of accepted requests by the
    time of the last one. ``light_ttft`` is of the client that asks for least.
    ``engine_preemptions`` were the engine's own, ``preemptions`` the queue's.
    """

    avg: float | None = None
    max: float | None = None
    var: float | None = None
    tokens_per_s: float | None = None
    rejected: int | None = None
    counter_gap: float | None = None
    bound: float | None = None
    longest_pause_s: float | None = None
    light_ttft_p50_s: float | None = None
    light_ttft_p95_s: float | None = None
    engine_preemptions: int | None = None
    preemptions: int | None = None
    recomputed_tokens: int | None = None


def measure(run: Run, jobs: Sequence[Job], weights: Mapping[int, float]) -> Row:
    """Return the row of one run of a workload."""
    differences = service_differences(run.served, weights)
    light = lightest(jobs, weights)
    ttft_s = [served.ttft_s for served in run.served if served.job.client == light]
    own_gap = run.front.counter_gap
    return Row(
        avg=fmean(differences),
        max=max(differences),
        var=pvariance(differences),
        tokens_per_s=throughput(run.served, run.end_s),
        rejected=run.rejected,
        counter_gap=run.engine.counter_gap if own_gap is None else own_gap,
        bound=run.engine.bound if own_gap is None else run.front.bound,
        longest_pause_s=max(served.longest_pause_s for served in run.served),
        light_ttft_p50_s=percentile(ttft_s, 0.5),
        light_ttft_p95_s=percentile(ttft_s, 0.95),
        engine_preemptions=run.engine.preemptions,
        preemptions=run.preemptions,
        recomputed_tokens=run.engine.recomputed_tokens,
    )


def throughput(served: Sequence[Served], end_s: float) -> float:
    """Return prompt and output tokens per second until the end."""
    tokens = sum(each.job.prompt_tokens + each.job.output_tokens for each in served)
    return tokens / end_s


def service_differences(
    served: Sequence[Served], weights: Mapping[int, float]
) -> list[float]:
    """Return the difference at each tick, in weighted tokens per second and weight."""
    return [
        _difference(served, weights, _WARM_UP_S + number * _TICK_S)
        for number in range(1, _TICKS + 1)
    ]


def service_rates(
    served: Sequence[Served],
    clients: Collection[int],
    middle_s: float,
    *,
    window_s: float,
) -> dict[int, float]:
    """Return the weighted tokens per second that each client got around a moment.

    As published, an answer is taken to be served evenly from its first token to its
    last.
    """
    start_s, end_s = middle_s - window_s / 2, middle_s + window_s / 2
    rates = dict.fromkeys(clients, 0.0)
    for each in served:
        overlap_s = min(end_s, each.end_s) - max(start_s, each.first_token_s)
        if overlap_s > 0:
            part = overlap_s / (each.end_s - each.first_token_s)
            rates[each.job.client] += each.job.charge * part / window_s
    return rates


def _difference(
    served: Sequence[Served], weights: Mapping[int, float], middle_s: float
) -> float:
    start_s, end_s = middle_s - _WINDOW_S / 2, middle_s + _WINDOW_S / 2
    service = service_rates(served, weights, middle_s, window_s=_WINDOW_S)
    demand = dict.fromkeys(weights, 0.0)
    for each in served:
        job = each.job
        if start_s <= job.arrival_s <= end_s:
            demand[job.client] += job.charge / weights[job.client] / _WINDOW_S
    for client, weight in weights.items():
        service[client] /= weight
    most = max(service.values())
    return sum(
        min(most - service[client], abs(demand[client] - service[client]))
        for client in weights
    )


def lightest(jobs: Sequence[Job], weights: Mapping[int, float]) -> int:
    """Return the client that asks for least for its weight.

    Among those with enough jobs for a percentile, if there are any.
    """
    asked = dict.fromkeys(weights, 0.0)
    counts = dict.fromkeys(weights, 0)
    for job in jobs:
        asked[job.client] += job.charge / weights[job.client]
        counts[job.client] += 1
    return min(
        weights, key=lambda client: (counts[client] < _ENOUGH_JOBS, asked[client])
    )


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the smallest value that so large a share is not above."""
    ordered = sorted(values)
    return ordered[ceil(share * len(ordered)) - 1] if ordered else None
