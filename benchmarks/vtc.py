"""Fair Share's queue in the published table of the virtual token counter (VTC).

The workloads of Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024),
on a simulated engine: rows that were published, the same schedulers simulated (so that
the simulator can be judged), and Fair Share's queue in front of an engine that knows
nothing of it. The trace of the suite ``real`` is not part of this repository:
``fair_bench/VTC/all_results_real.jsonl`` in https://github.com/Ying1123/VTC-artifact is
one, as it is.
"""

import argparse
from dataclasses import asdict, fields
import json
from pathlib import Path
from statistics import median_low
from typing import Any

from .simulator.metrics import Row
from .simulator.profile import EngineProfile, Jittered
from .simulator.published import PUBLISHED
from .simulator.rows import MakeRow, rows_of
from .simulator.suites import REAL, SUITES, Suite, load_suite

_JITTER = 0.03
_COLUMNS = (
    ("max", "max", 9, 2),
    ("avg", "avg", 8, 2),
    ("var", "var", 10, 1),
    ("tok/s", "tokens_per_s", 6, 0),
    ("rejected", "rejected", 9, 0),
    ("gap", "counter_gap", 8, 0),
    ("bound", "bound", 7, 0),
    ("pause s", "longest_pause_s", 8, 1),
    ("ttft p50", "light_ttft_p50_s", 9, 1),
    ("p95 s", "light_ttft_p95_s", 7, 1),
    ("evicted", "engine_preemptions", 8, 0),
    ("aborted", "preemptions", 8, 0),
    ("recomputed", "recomputed_tokens", 11, 0),
)
"""Title, field of a row, width, digits after the point."""


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this benchmark to the command line."""
    parser = benchmarks.add_parser("vtc", help=__doc__.splitlines()[0])
    parser.add_argument(
        "--suite", nargs="+", choices=SUITES, metavar="NAME", help=", ".join(SUITES)
    )
    parser.add_argument(
        "--trace",
        type=Path,
        help=f"file of the suite {REAL}: CSV or a published result",
    )
    parser.add_argument("--profile", type=Path, help="JSON file of step times")
    parser.add_argument(
        "--runs", type=int, default=1, help="medians of so many runs with some jitter"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run, parser=parser)


def run(arguments: argparse.Namespace) -> None:
    """Simulate the suites and print their tables."""
    names = arguments.suite or [
        name for name in SUITES if name != REAL or arguments.trace
    ]
    if REAL in names and not arguments.trace:
        arguments.parser.error(f"the suite {REAL} needs --trace")
    if arguments.runs < 1:
        arguments.parser.error("--runs is at least 1")
    profile = EngineProfile()
    if arguments.profile:
        profile = EngineProfile.load(arguments.profile)
    tables: dict[str, dict[str, dict[str, float | None]]] = {}
    for name in names:
        table = simulate(load_suite(name, arguments.trace), profile, arguments.runs)
        tables[name] = {row: asdict(values) for row, values in table.items()}
        if not arguments.json:
            _print(name, table)
    if arguments.json:
        print(json.dumps({"suites": tables}))


def simulate(suite: Suite, profile: EngineProfile, runs: int) -> dict[str, Row]:
    """Return all rows of a suite, the published ones first."""
    table = dict(PUBLISHED[suite.name])
    for name, make in rows_of(suite).items():
        table[name] = median_row(make, suite, profile, runs)
    return table


def median_row(make: MakeRow, suite: Suite, profile: EngineProfile, runs: int) -> Row:
    """Return one run as it is, or the median of each value over several."""
    if runs == 1:
        return make(suite, profile)
    rows = [make(suite, Jittered(profile, seed, _JITTER)) for seed in range(runs)]
    medians: dict[str, Any] = {}
    for field in fields(Row):
        values = [getattr(row, field.name) for row in rows]
        medians[field.name] = None if None in values else median_low(values)
    return Row(**medians)


def _print(name: str, table: dict[str, Row]) -> None:
    heading = "".join(f"{title:>{width}}" for title, _, width, _ in _COLUMNS)
    print(f"{name:24}{heading}")
    for row, values in table.items():
        cells = "".join(
            _cell(getattr(values, field), width, digits)
            for _, field, width, digits in _COLUMNS
        )
        print(f"{row:24}{cells}")
    print(flush=True)


def _cell(value: float | None, width: int, digits: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:{width}.{digits}f}"
