"""What each policy aims at, and how near each comes to it: one table of all four.

An evening of three members who want very different amounts (``simulator/scenario.py``)
before the server of the household benchmark. Nothing is interrupted, so that the policy
has the say. Every column is the target of one policy, named in the heading.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
import json
from pathlib import Path
from statistics import fmean
from typing import Any

from .plots import waits_of_members
from .simulator.household_run import Played, our_queues, play
from .simulator.machine import Machine
from .simulator.scenario import EVENING, Scenario
from .simulator.targets import Targets, targets
from .tables import Column, print_table

BEST: Mapping[str, tuple[str, bool]] = {
    "equal_tokens": ("service_gap", False),
    "equal_waiting": ("jain_of_mean_waits", True),
    "equal_completion": ("on_time_spread", False),
    "latency_first": ("voice_within_target", True),
}
"""By policy: what it aims at, and whether more of that is better."""

_COLUMNS = (
    Column("service gap", "service_gap", 0),
    Column("Jain of waits", "jain_of_mean_waits", 3),
    Column("spread of on-time rates", "on_time_spread", 3),
    Column("voice within target", "voice_within_target", 3),
    Column("answers in time", "on_time", 3),
)


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this benchmark to the command line."""
    parser = benchmarks.add_parser("policies", help=__doc__.splitlines()[0])
    parser.add_argument(
        "--runs", type=int, default=5, help="draws of the scenario, as a mean"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--markdown", action="store_true", help="print for the docs")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write plots there")
    parser.set_defaults(run=run, parser=parser)


def run(arguments: argparse.Namespace) -> None:
    """Simulate all policies and print the table."""
    if arguments.runs < 1:
        arguments.parser.error("--runs is at least 1")
    played = simulate(EVENING, range(arguments.runs))
    table = {policy: mean(each) for policy, each in played.items()}
    if arguments.plots:
        waits_of_members(played, arguments.plots / "policies_waits.png")
    if arguments.json:
        rows = {policy: asdict(values) for policy, values in table.items()}
        print(json.dumps({"policies": rows}))
    else:
        print_table("policy", table, _COLUMNS, markdown=arguments.markdown)


def simulate(scenario: Scenario, seeds: Sequence[int]) -> dict[str, list[Played]]:
    """Return the runs of every policy by its name."""
    return {
        policy: [play(scenario, seed, Machine(), make) for seed in seeds]
        for policy, make in our_queues(preemption=None)
    }


def mean(runs: Sequence[Played]) -> Targets:
    """Return the mean of each value over several runs."""
    each = [targets(played) for played in runs]
    return Targets(
        **{
            field.name: fmean(getattr(values, field.name) for values in each)
            for field in fields(Targets)
        }
    )


def reaches_its_target_best(table: Mapping[str, Targets], policy: str) -> bool:
    """Whether a policy is better at what it aims at than every other one."""
    field, more_is_better = BEST[policy]
    sign = 1 if more_is_better else -1
    own = sign * getattr(table[policy], field)
    others = [sign * getattr(table[name], field) for name in table if name != policy]
    return all(own > other for other in others)
