"""How the published workloads draw their arrivals, number for number.

All of them start from seed 42 and draw in this order, so that a workload is the very
list of requests that was measured. Lengths do not vary and so draw nothing.
"""

from collections.abc import Iterator, Sequence
from random import Random

from .job import Job
from .numpy_stream import exponential, numpy_stream

_SEED = 42
_RATE_OF_INCREASE_FROM = 0.2

type Lengths = tuple[int, int]
"""Prompt and output tokens."""


def in_order(jobs: Iterator[Job]) -> tuple[Job, ...]:
    """Return the jobs by arrival; at the same moment those drawn first come first."""
    return tuple(sorted(jobs, key=lambda job: job.arrival_s))


def uniform(
    rates: Sequence[float],
    *,
    duration_s: float,
    on_off_s: float | None = None,
    lengths: Lengths = (256, 256),
) -> tuple[Job, ...]:
    """Evenly spaced arrivals with a random phase for each client.

    With ``on_off_s`` client 0 is silent in every second span of so many seconds.
    """
    stream = numpy_stream(_SEED)
    return in_order(
        _evenly(stream, rates, 0.0, duration_s, on_off_s=on_off_s, lengths=lengths)
    )


def shifting(duration_s: float, *, lengths: Lengths = (256, 256)) -> tuple[Job, ...]:
    """Three equal phases: client 0 on and off, both overloaded, one asks for more."""
    stream = numpy_stream(_SEED)
    phase_s = duration_s / 3

    def jobs() -> Iterator[Job]:
        yield from _evenly(stream, (0.5, 2), 0.0, phase_s, on_off_s=60, lengths=lengths)
        yield from _evenly(stream, (1, 1), phase_s, phase_s, lengths=lengths)
        yield from _evenly(stream, (0.5, 1.5), 2 * phase_s, phase_s, lengths=lengths)

    return in_order(jobs())


def increasing(
    steady_rate: float,
    final_rate: float,
    *,
    duration_s: float,
    lengths: Lengths = (256, 256),
) -> tuple[Job, ...]:
    """Client 0 at a steady rate, client 1 from 0.2 a second to ``final_rate``."""
    first = _RATE_OF_INCREASE_FROM

    def jobs() -> Iterator[Job]:
        now = 0.0
        for number in range(int(steady_rate * duration_s)):
            now += 1 / steady_rate
            yield Job(f"0-{number}", 0, now, *lengths)
        now = 0.0
        for number in range(int(0.5 * (first + final_rate) * duration_s)):
            now += 1 / (first + (final_rate - first) * now / duration_s)
            yield Job(f"1-{number}", 1, now, *lengths)

    return in_order(jobs())


def poisson(
    rates: tuple[float, float], lengths: tuple[Lengths, Lengths], *, duration_s: float
) -> tuple[Job, ...]:
    """Poisson arrivals of two clients whose requests have different lengths."""
    stream = numpy_stream(_SEED)
    total = sum(rates)
    count = int(total * duration_s)
    clients = [int(stream.random() > rates[0] / total) for _ in range(count)]
    now = 0.0
    jobs: list[Job] = []
    for number, client in enumerate(clients):
        now += exponential(stream, 1 / total)
        jobs.append(Job(f"{client}-{number}", client, now, *lengths[client]))
    return tuple(jobs)


def _evenly(
    stream: Random,
    rates: Sequence[float],
    start_s: float,
    duration_s: float,
    *,
    on_off_s: float | None = None,
    lengths: Lengths,
) -> Iterator[Job]:
    for client, rate in enumerate(rates):
        now = start_s + stream.random() / rate
        for number in range(int(rate * duration_s)):
            now += 1 / rate
            if on_off_s and client == 0 and int(now // on_off_s) % 2:
                continue
            yield Job(f"{client}-{start_s:g}-{number}", client, now, *lengths)
