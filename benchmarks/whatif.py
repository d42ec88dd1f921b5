"""Replay a household's day under every policy: who would have waited how long.

Takes the files of an activity log (docs/activity-log.md), and sends what was asked
then through the queue again, under each policy and without a queue, in front of a
simulated server with the slots and the memory of the household's own. How fast it is
says ``--profile``, which ``scripts/bench calibrate`` writes; without it, it is the
home server of ``simulator/machine.py`` (an 8B model on a small graphics card). The row
``as logged`` is what really happened. An example to try it with is
``benchmarks/examples/evening.jsonl``.
"""

import argparse
from collections.abc import Mapping
from dataclasses import asdict
import json
from pathlib import Path
import sys
from typing import Any

from custom_components.fair_share.admission.policies import POLICIES

from .simulator.activity import LogError, read_logs
from .simulator.machine import HOME_TIMES
from .simulator.profile import EngineProfile
from .simulator.replay import (
    STRAIGHT,
    Day,
    Machine,
    ReplayError,
    day_of,
    replay,
)
from .simulator.what_they_got import Outcome, as_logged, as_replayed
from .tables import Column, print_table
from .terminal import Progress

_LOGGED = "as logged"
_BATCH_TOKENS = 512
_MEMBER_COLUMNS = (
    Column("requests", "requests", 0),
    Column("tokens", "tokens", 0),
    Column("charge", "charge", 0),
    Column("share", "share", 2),
    Column("contended", "contended_share", 2),
    Column("mean wait s", "wait_mean_s", 2),
    Column("p95 s", "wait_p95_s", 2),
    Column("on time", "on_time", 2),
)
_WORKLOAD_COLUMNS = (
    Column("requests", "requests", 0),
    Column("p95 wait s", "wait_p95_s", 2),
    Column("ttft p50 s", "ttft_p50_s", 2),
    Column("p95 s", "ttft_p95_s", 2),
    Column("in target", "in_target", 2),
    Column("on time", "on_time", 2),
)


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this benchmark to the command line."""
    parser = benchmarks.add_parser("whatif", help=__doc__.splitlines()[0])
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG", help="its files")
    parser.add_argument("--profile", type=Path, help="JSON file of step times")
    parser.add_argument(
        "--batch",
        type=int,
        default=_BATCH_TOKENS,
        help=f"tokens that the server computes in one step; usually {_BATCH_TOKENS}",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run, parser=parser)


def run(arguments: argparse.Namespace) -> None:
    """Replay the day and print what everybody would have got."""
    if arguments.batch < 1:
        arguments.parser.error("--batch is at least 1")
    times = HOME_TIMES
    if arguments.profile:
        try:
            times = EngineProfile.load(arguments.profile)
        except (OSError, TypeError, ValueError) as err:
            sys.exit(f"whatif: {arguments.profile}: {err}")
    try:
        day = day_of(read_logs(arguments.logs))
        outcomes = what_if(day, Machine(times, arguments.batch))
    except (LogError, ReplayError) as err:
        sys.exit(f"whatif: {err}")
    if arguments.json:
        print(json.dumps(_as_json(day, outcomes)))
    else:
        _print(day, outcomes)


def what_if(day: Day, machine: Machine) -> dict[str, Outcome]:
    """Return what everybody would have got, by policy and without a queue.

    Raises ``ReplayError``.
    """
    outcomes: dict[str, Outcome] = {}
    with Progress("whatif") as progress:
        for policy in (*POLICIES, STRAIGHT):

            def tell(ended: int, policy: str = policy) -> None:
                progress.tell(f"{policy}, {ended} of {len(day.jobs)} answers")

            outcomes[policy] = as_replayed(day, replay(day, policy, machine, tell))
    return outcomes


def _as_json(day: Day, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    return {
        "policy": day.log.household.settings.policy,
        "replayed": len(day.jobs),
        "left_out": dict(day.left_out),
        "torn_lines": day.log.torn_lines,
        "logged": _outcome_as_json(as_logged(day)),
        "policies": {
            policy: _outcome_as_json(outcome) for policy, outcome in outcomes.items()
        },
    }


def _outcome_as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "members": {
            member: {**asdict(row), "tokens": row.tokens}
            for member, row in outcome.members.items()
        },
        "workloads": {name: asdict(row) for name, row in outcome.workloads.items()},
        "refused": outcome.refused,
        "interruptions": outcome.interruptions,
    }


def _print(day: Day, outcomes: Mapping[str, Outcome]) -> None:
    capacity = day.capacity
    print(
        f"{len(day.jobs)} requests on {capacity.slots} slots of "
        f"{capacity.context_tokens} tokens; then the policy was "
        f"{day.log.household.settings.policy}"
    )
    for note in _notes(day):
        print(note)
    rows = {_LOGGED: as_logged(day), **outcomes}
    for member in rows[_LOGGED].members:
        print()
        print_table(
            f"member {member}",
            {
                name: outcome.members[member]
                for name, outcome in rows.items()
                if member in outcome.members
            },
            _MEMBER_COLUMNS,
        )
    for workload in rows[_LOGGED].workloads:
        print()
        print_table(
            workload,
            {
                name: outcome.workloads[workload]
                for name, outcome in rows.items()
                if workload in outcome.workloads
            },
            _WORKLOAD_COLUMNS,
        )
    print()
    for name, outcome in rows.items():
        print(
            f"{name}: {outcome.refused} refused, {outcome.interruptions} interruptions"
        )


def _notes(day: Day) -> list[str]:
    notes = []
    if day.left_out:
        counts = ", ".join(f"{n} {why}" for why, n in sorted(day.left_out.items()))
        notes.append(f"not replayed, as no server worked on them: {counts}")
    if day.log.torn_lines:
        notes.append("an unfinished last line was left out")
    if len(day.log.household.servers) > 1:
        notes.append("the slots of all servers are simulated as one server")
    return notes
