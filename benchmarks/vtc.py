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

from .plots import service_over_time
from .simulator.metrics import Row
from .simulator.profile import EngineProfile, Jittered
from .simulator.published import PUBLISHED
from .simulator.rows import MakeRow, rows_of
from .simulator.service_runs import service_runs
from .simulator.suites import REAL, SUITES, Suite, load_suite
from .tables import Column, print_table

_JITTER = 0.03
_COLUMNS = (
    Column("max", "max", 2),
    Column("avg", "avg", 2),
    Column("var", "var", 1),
    Column("tok/s", "tokens_per_s", 0),
    Column("rejected", "rejected", 0),
    Column("gap", "counter_gap", 0),
    Column("bound", "bound", 0),
    Column("pause s", "longest_pause_s", 1),
    Column("ttft p50", "light_ttft_p50_s", 1),
    Column("p95 s", "light_ttft_p95_s", 1),
    Column("evicted", "engine_preemptions", 0),
    Column("aborted", "preemptions", 0),
    Column("recomputed", "recomputed_tokens", 0),
)


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
    parser.add_argument("--markdown", action="store_true", help="print for the docs")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write plots there")
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
        suite = load_suite(name, arguments.trace)
        table = simulate(suite, profile, arguments.runs)
        tables[name] = {row: asdict(values) for row, values in table.items()}
        if arguments.plots:
            service_over_time(
                service_runs(suite, profile),
                f"Service of each client, suite {name} (in windows of 60 s)",
                arguments.plots / f"service_{name}.png",
            )
        if not arguments.json:
            print_table(name, table, _COLUMNS, markdown=arguments.markdown)
            print()
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
