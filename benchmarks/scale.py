"""What a decision of the queue costs, and how that grows.

For each size a household is filled with classes and waiting requests, all slots are
busy, and then the time of one event with its decision is taken, as the median over
many: an arrival, one output token, and an end that lets the next request start.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
import json
import os
from statistics import median
from time import perf_counter
import tracemalloc
from typing import Any

from custom_components.fair_share.admission.model import (
    Limits,
    NodeSpec,
    Outcome,
    Request,
    RequestClass,
    ServerCapacity,
    Settings,
    Workload,
)
from custom_components.fair_share.admission.scheduler import Scheduler

SIZES = [
    (classes, queued)
    for classes in (5, 50, 500)
    for queued in (10, 1_000, 10_000, 100_000)
]
REPEATS = 300
SLOTS = 4
WALL = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Row:
    """Medians in microseconds, and memory of one waiting request in bytes."""

    classes: int
    queued: int
    arrival_us: float
    token_us: float
    finish_us: float
    bytes_per_queued: float


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this benchmark to the command line."""
    parser = benchmarks.add_parser("scale", help=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Measure every size and print the rows."""
    rows = [measure(classes, queued) for classes, queued in SIZES]
    if arguments.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}))
        return
    print(f"load average {os.getloadavg()[0]:.1f}; medians of {REPEATS} events each")
    print("classes   queued  arrival us  token us  finish us  bytes/queued")
    for row in rows:
        print(
            f"{row.classes:7} {row.queued:8} {row.arrival_us:11.1f} "
            f"{row.token_us:9.1f} {row.finish_us:10.1f} {row.bytes_per_queued:13.0f}"
        )


def measure(classes: int, queued: int) -> Row:
    """Measure one size."""
    scheduler = household(classes)
    names = _names(classes)
    running = _fill(scheduler, names, SLOTS)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    _fill(scheduler, names, queued)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    def arrive() -> None:
        request_id, class_id = next(names)
        scheduler.submit(Request(request_id, class_id, 100, 100), 0.0, WALL)
        scheduler.decide(0.0, WALL)

    def token() -> None:
        scheduler.output(running[0], 1, 0.0)

    def finish() -> None:
        scheduler.release(running.pop(0), Outcome.FINISHED, 0.0)
        decisions = scheduler.decide(0.0, WALL)
        running.extend(dispatch.request_id for dispatch in decisions.dispatches)

    arrival_us, token_us = _median_us(arrive), _median_us(token)
    # As many as are sure to be there, so that every end lets another one start.
    finish_us = _median_us(finish, min(REPEATS, queued))
    return Row(
        classes, queued, arrival_us, token_us, finish_us, (after - before) / queued
    )


def household(classes: int) -> Scheduler:
    """Return a household with so many members of one class each, and one server."""
    scheduler = Scheduler(WALL, settings=Settings(limits=Limits(10**9, 10**9)))
    for number in range(classes):
        member = f"m{number}"
        scheduler.put_node(NodeSpec(member), WALL)
        scheduler.put_node(NodeSpec(f"{member}/direct", member), WALL)
        scheduler.put_class(
            RequestClass(f"{member}/direct/chat", f"{member}/direct", Workload.CHAT),
            WALL,
        )
    scheduler.put_server(ServerCapacity("server", SLOTS, 4096), 0.0)
    return scheduler


def _names(classes: int) -> Iterator[tuple[str, str]]:
    number = 0
    while True:
        yield f"r{number}", f"m{number % classes}/direct/chat"
        number += 1


def _fill(
    scheduler: Scheduler, names: Iterator[tuple[str, str]], count: int
) -> list[str]:
    """Submit ``count`` requests; return the ids of those that start."""
    for _ in range(count):
        request_id, class_id = next(names)
        scheduler.submit(Request(request_id, class_id, 100, 100), 0.0, WALL)
    return [each.request_id for each in scheduler.decide(0.0, WALL).dispatches]


def _median_us(event: Callable[[], None], repeats: int = REPEATS) -> float:
    times: list[float] = []
    for _ in range(repeats):
        start = perf_counter()
        event()
        times.append(perf_counter() - start)
    return median(times) * 1e6
