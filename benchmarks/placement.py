"""What it brings to place requests by their predicted finish, with two servers.

An evening of three members (``simulator/scenario.py``) before two servers, of which one
is so many times faster. Every request starts either on the server with the most free
slots, or where its answer is predicted to be done first, maybe after a wait.
"""

import argparse
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
import json
from statistics import fmean
from typing import Any

from custom_components.fair_share.admission.entry import Entry
from custom_components.fair_share.admission.model import Settings, Workload
from custom_components.fair_share.admission.placement import Placement
from custom_components.fair_share.admission.servers import Server

from .simulator.machine import HOME_TIMES, Machine
from .simulator.metrics import percentile
from .simulator.profile import EngineProfile
from .simulator.scenario import EVENING, Scenario
from .simulator.several import SeveralFront, run_several
from .tables import Column, print_table

SLOWER = 4.0

LOADS = {
    "evening": EVENING,
    "half_as_much": replace(
        EVENING,
        flows=[replace(flow, every_s=2 * flow.every_s) for flow in EVENING.flows],
    ),
}

_COLUMNS = (
    Column("mean completion s", "completion_mean_s", 2),
    Column("completion p95 s", "completion_p95_s", 2),
    Column("voice first word p95 s", "voice_ttft_p95_s", 2),
    Column("on the fast server", "on_fast", 3),
)


@dataclass(frozen=True, slots=True)
class Row:
    """From arrival to the last token; ``on_fast`` is the part of all requests."""

    completion_mean_s: float
    completion_p95_s: float
    voice_ttft_p95_s: float
    on_fast: float


class LeastBusy(Placement):
    """Takes the server with the most free slots."""

    def choose(
        self, entry: Entry, fitting: Collection[Server], now: float
    ) -> Server | None:
        """Return it, whatever its speed."""
        del entry, now
        return max(fitting, key=Server.free_slots, default=None)


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this benchmark to the command line."""
    parser = benchmarks.add_parser("placement", help=__doc__.splitlines()[0])
    parser.add_argument(
        "--runs", type=int, default=5, help="draws of the scenario, as a mean"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--markdown", action="store_true", help="print for the docs")
    parser.set_defaults(run=run, parser=parser)


def run(arguments: argparse.Namespace) -> None:
    """Simulate both ways and print the table."""
    if arguments.runs < 1:
        arguments.parser.error("--runs is at least 1")
    table = {load: compare(each, range(arguments.runs)) for load, each in LOADS.items()}
    ratios = {load: _ratio(rows) for load, rows in table.items()}
    if arguments.json:
        rows = {
            load: {name: asdict(row) for name, row in each.items()}
            for load, each in table.items()
        }
        print(json.dumps({"placement": rows, "completion_ratio": ratios}))
        return
    lines = {
        f"{name}, {load}": row
        for load, each in table.items()
        for name, row in each.items()
    }
    print_table("placed by", lines, _COLUMNS, markdown=arguments.markdown)
    if not arguments.markdown:
        for load, ratio in ratios.items():
            print(f"{load}: mean completion {ratio:.3f} of that of the least busy")


def compare(scenario: Scenario, seeds: Sequence[int]) -> Mapping[str, Row]:
    """Return the mean of several draws for each way to place requests."""
    ways = {"least_busy": LeastBusy, "predicted_finish": Placement}
    return {
        name: _mean([measure(scenario, seed, way()) for seed in seeds])
        for name, way in ways.items()
    }


def measure(scenario: Scenario, seed: int, placement: Placement) -> Row:
    """Work one draw of a scenario off with two servers."""
    machines = {"fast": Machine(), "slow": Machine(times=_slower(HOME_TIMES))}
    front = SeveralFront(scenario, machines, placement, Settings())
    jobs = scenario.jobs(seed)
    served = run_several(jobs, machines, front).values()
    completions = [each.end_s - each.job.arrival_s for each in served]
    voice = [
        each.ttft_s
        for each in served
        if scenario.clients[each.job.client].workload is Workload.VOICE
    ]
    fast = [place for place in front.places.values() if place == "fast"]
    return Row(
        completion_mean_s=fmean(completions),
        completion_p95_s=percentile(completions, 0.95) or 0.0,
        voice_ttft_p95_s=percentile(voice, 0.95) or 0.0,
        on_fast=len(fast) / len(front.places),
    )


def _ratio(rows: Mapping[str, Row]) -> float:
    least_busy, predicted = rows["least_busy"], rows["predicted_finish"]
    return predicted.completion_mean_s / least_busy.completion_mean_s


def _mean(rows: Sequence[Row]) -> Row:
    return Row(*(fmean(values) for values in zip(*map(_values, rows), strict=True)))


def _values(row: Row) -> list[float]:
    return list(asdict(row).values())


def _slower(times: EngineProfile) -> EngineProfile:
    return EngineProfile(
        **{name: SLOWER * value for name, value in asdict(times).items()}
    )
