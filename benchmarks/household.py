"""A household's evening before one home server, under every queue.

Voice commands, chat questions and more background work than the server can do, for
fifteen minutes: how long each kind waits when requests go straight to the server, in
turns, by strict priority, by the virtual token counter, and through Fair Share's queue
under each of its policies, with interruptions. The server is a llama-server of four
slots that reads about 800 tokens of prompts a second (``simulator/machine.py``).
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
import json
from pathlib import Path
from statistics import fmean
from typing import Any

from custom_components.fair_share.admission.model import (
    DEFAULT_PROFILES,
    PreemptionRules,
    Workload,
)

from .plots import waits_of_queues
from .simulator.household_run import MakeFront, Played, our_queues, plain_queues, play
from .simulator.machine import HOME_TIMES, Machine
from .simulator.metrics import percentile, throughput
from .simulator.profile import EngineProfile
from .simulator.scenario import HOUSEHOLD, Scenario
from .tables import Column, print_table

CACHE_LOST = "_cache_lost"
_COLUMNS = (
    Column("voice p50 s", "voice_ttft_p50_s", 2),
    Column("p95 s", "voice_ttft_p95_s", 2),
    Column("chat p95 s", "chat_ttft_p95_s", 2),
    Column("background s", "background_done_p50_s", 1),
    Column("tok/s", "tokens_per_s", 1),
    Column("longest wait s", "longest_wait_s", 1),
    Column("bound s", "starvation_bound_s", 1),
    Column("aborted", "preemptions", 0),
    Column("recomputed", "recomputed_tokens", 0),
    Column("pause s", "longest_pause_s", 1),
)


@dataclass(frozen=True, slots=True)
class Waits:
    """The longest wait of one kind of request, and what it may be at most.

    From the arrival until work on it began. ``bound_s`` is ``None`` where a queue
    promises nothing.
    """

    longest_s: float
    bound_s: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """One queue, over all runs together.

    TTFT counts from a request's arrival to its first token, done to the last.
    ``longest_wait_s`` is the longest of ``waits``, with its bound beside it.
    ``preemptions`` were interruptions by the queue; ``longest_pause_s`` lies between
    two tokens of one answer, for whatever reason.
    """

    voice_ttft_p50_s: float
    voice_ttft_p95_s: float
    chat_ttft_p95_s: float
    background_done_p50_s: float
    tokens_per_s: float
    longest_wait_s: float
    starvation_bound_s: float | None
    preemptions: int
    recomputed_tokens: int
    longest_pause_s: float
    rejected: int
    waits: dict[str, Waits]


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this benchmark to the command line."""
    parser = benchmarks.add_parser("household", help=__doc__.splitlines()[0])
    parser.add_argument(
        "--runs", type=int, default=5, help="draws of the scenario, counted together"
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=Machine().batch_tokens,
        help="tokens that the server computes in one go (its -b)",
    )
    parser.add_argument("--profile", type=Path, help="JSON file of step times")
    parser.add_argument(
        "--spare-readers",
        action="store_true",
        help="interrupt only answers that are being written, no prompt",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--markdown", action="store_true", help="print for the docs")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write plots there")
    parser.set_defaults(run=run, parser=parser)


def run(arguments: argparse.Namespace) -> None:
    """Simulate all rows and print them."""
    if arguments.runs < 1 or arguments.batch < 1:
        arguments.parser.error("--runs and --batch are at least 1")
    times = HOME_TIMES
    if arguments.profile:
        times = EngineProfile.load(arguments.profile)
    machine = Machine(batch_tokens=arguments.batch, times=times)
    rules = PreemptionRules(while_reading=not arguments.spare_readers)
    played = simulate(HOUSEHOLD, machine, rules, range(arguments.runs))
    rows = {name: measure(runs, machine) for name, runs in played.items()}
    if arguments.plots:
        kept = {name: runs for name, runs in played.items() if CACHE_LOST not in name}
        waits_of_queues(kept, arguments.plots / "household_waits.png")
    if arguments.json:
        print(json.dumps({"rows": {name: asdict(row) for name, row in rows.items()}}))
    else:
        print_table("queue", rows, _COLUMNS, markdown=arguments.markdown)


def simulate(
    scenario: Scenario,
    machine: Machine,
    preemption: PreemptionRules,
    seeds: Sequence[int],
) -> dict[str, list[Played]]:
    """Return the runs of every row by its name.

    Fair Share's rows come once more before a server that forgets what was interrupted.
    """
    forgetful = replace(machine, cache_tokens=0)
    rows: dict[str, tuple[Machine, MakeFront]] = {}
    for name, make in plain_queues():
        rows[name] = machine, make
    for name, make in our_queues(preemption):
        rows[name] = machine, make
    for name, make in our_queues(preemption):
        rows[name + CACHE_LOST] = forgetful, make
    return {
        name: [play(scenario, seed, server, make) for seed in seeds]
        for name, (server, make) in rows.items()
    }


def measure(runs: Sequence[Played], machine: Machine) -> Row:
    """Return the row of several runs."""
    waits = {
        workload.value: _waits(runs, workload, machine)
        for workload in Workload
        if runs[0].of(workload)
    }
    longest = max(waits.values(), key=lambda each: each.longest_s)
    return Row(
        voice_ttft_p50_s=_ttft_s(runs, Workload.VOICE, 0.5),
        voice_ttft_p95_s=_ttft_s(runs, Workload.VOICE, 0.95),
        chat_ttft_p95_s=_ttft_s(runs, Workload.CHAT, 0.95),
        background_done_p50_s=_percentile(
            [
                served.end_s - served.job.arrival_s
                for each in runs
                for served in each.of(Workload.BACKGROUND)
            ],
            0.5,
        ),
        tokens_per_s=fmean(
            throughput(each.run.served, each.run.end_s) for each in runs
        ),
        longest_wait_s=longest.longest_s,
        starvation_bound_s=longest.bound_s,
        preemptions=sum(each.run.preemptions for each in runs),
        recomputed_tokens=sum(each.run.engine.recomputed_tokens for each in runs),
        longest_pause_s=max(
            served.longest_pause_s for each in runs for served in each.run.served
        ),
        rejected=sum(each.run.rejected for each in runs),
        waits=waits,
    )


def starvation_bound_s(played: Played, workload: Workload, slots: int) -> float | None:
    """Return how long a request may wait at the head of its class.

    ``W_max + 2 (n + 1) S_max / K``: it is overdue after W_max; then at most the n other
    classes are overdue before it, each with one request, since every second start goes
    to the one that is overdue longest; and one of the K slots comes free at least every
    S_max / K on average, with the longest time that an answer had a slot in this run.
    ``None`` for a queue that keeps no accounts.
    """
    if not played.records:
        return None
    longest_s = max(
        record.duration_s - record.wait_s - record.paused_s for record in played.records
    )
    others = len(played.scenario.clients) - 1
    patience_s = DEFAULT_PROFILES[workload].max_wait_s
    return patience_s + 2 * (others + 1) * longest_s / slots


def _waits(runs: Sequence[Played], workload: Workload, machine: Machine) -> Waits:
    """Take the longest wait of all runs, and the smallest of their bounds."""
    bounds = [starvation_bound_s(each, workload, machine.slots) for each in runs]
    return Waits(
        longest_s=max(
            each.waits_s[served.job.job_id]
            for each in runs
            for served in each.of(workload)
        ),
        bound_s=min((bound for bound in bounds if bound is not None), default=None),
    )


def _ttft_s(runs: Sequence[Played], workload: Workload, share: float) -> float:
    return _percentile(
        [served.ttft_s for each in runs for served in each.of(workload)], share
    )


def _percentile(values: Sequence[float], share: float) -> float:
    value = percentile(values, share)
    if value is None:
        raise ValueError("too short a scenario: a kind of request never came")
    return value
