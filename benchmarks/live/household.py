"""The same mixed load straight to a server and through the household's queue.

Six summaries of 1,500 tokens and 200 of answer are always outstanding, three of each of
two members; a voice command of 289 tokens, 250 of them always the same, comes every
five seconds, and a chat goes on. *Idle* is the server with nothing but the voice
commands. Every run has a server process of its own.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
import os
from statistics import median
from typing import Any

from custom_components.fair_share.admission.model import (
    CostWeights,
    Workload,
)

from ..simulator.metrics import percentile
from ..tables import Column, print_table
from .home import MEMBERS, Home, Server, running_home
from .mixed_load import MixedLoad, Observed, Sizes
from .prompts import Prompts
from .settings import Machine, add_engine_options, add_run_options, check
from .sides import Queued, Straight, client_of

_CONTEXT = 2048
_QUICK = {"runs": 1, "seconds": 15.0, "warm_up": 5.0, "slots": [2]}
_SMALL = Sizes(summary_prompt=200, summary_output=20, voice_prefix=60, voice_prompt=99)
_COLUMNS = (
    Column("voice p50 s", "voice_ttft_p50_s", 2),
    Column("p95 s", "voice_ttft_p95_s", 2),
    Column("waiting", "voice_still_waiting", 0),
    Column("chat p95 s", "chat_ttft_p95_s", 2),
    Column("background tok/s", "background_tokens_per_s", 1),
    Column("done", "summaries_done", 0),
    Column("interrupted", "preemptions", 0),
    Column("recomputed", "recomputed_tokens", 0),
    Column("failed", "failed", 0),
)


@dataclass(frozen=True, slots=True)
class Side:
    """One way to the server: medians over the runs, ``failed`` of all together.

    TTFT counts from the moment at which a command was given; one that still waits at
    the end counts with its wait until then (``voice_still_waiting``).
    ``background_tokens_per_s`` are the uncached prompt tokens and output tokens of
    summaries that were computed in the window, also of unfinished ones, each once.
    """

    voice_ttft_p50_s: float
    voice_ttft_p95_s: float
    background_tokens_per_s: float
    failed: int
    voice_commands: int
    voice_still_waiting: int
    chat_ttft_p50_s: float | None
    chat_ttft_p95_s: float | None
    summaries_done: int
    preemptions: int | None = None
    recomputed_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """What part of all service a member got, and what part was theirs by weight."""

    share: float
    entitled: float


@dataclass(frozen=True, slots=True)
class Plan:
    """How long each run takes, in seconds, and of what."""

    runs: int
    slots: tuple[int, ...]
    warm_up_s: float
    window_s: float
    sizes: Sizes
    machine: Machine


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of one way."""

    observed: Observed
    preemptions: int | None = None
    recomputed: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """All ways by the number of slots; shares of both members in all queued runs."""

    slots: Mapping[int, Mapping[str, Side]]
    shares: Mapping[str, Share]
    load_before: float
    load_after: float

    def as_json(self) -> dict[str, Any]:
        """Return the machine-readable form."""
        return {
            "slots": {
                str(slots): {name: asdict(side) for name, side in sides.items()}
                for slots, sides in self.slots.items()
            },
            "shares": {name: asdict(share) for name, share in self.shares.items()},
            "load_average": self.load_before,
            "load_average_after": self.load_after,
        }

    def print(self) -> None:
        """Print the table and the ratios that are aimed at."""
        for slots, sides in self.slots.items():
            print_table(f"{slots} slots", sides, _COLUMNS)
            idle, direct, queued = (sides[n] for n in ("idle", "direct", "queued"))
            voice = queued.voice_ttft_p95_s / idle.voice_ttft_p95_s
            kept = _ratio(
                queued.background_tokens_per_s, direct.background_tokens_per_s
            )
            print(f"  queued voice p95 is {voice:.1f} times that of the idle server;")
            print(f"  background work gets {kept:.0%} of the tokens/s it gets straight")
        shares = (
            f"{name} {share.share:.1%} ({share.entitled:.0%} theirs)"
            for name, share in self.shares.items()
        )
        print(f"shares of all service through the queue: {', '.join(shares)}")
        print(
            f"load average before {self.load_before:.2f}, after {self.load_after:.2f}"
        )


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this benchmark to the command line."""
    parser = benchmarks.add_parser("household", help=__doc__.splitlines()[0])
    parser.add_argument(
        "--slots",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[2, 4],
        metavar="N,N",
        help="of the server, one after the other; by default 2,4",
    )
    parser.add_argument(
        "--seconds", type=float, default=90.0, help="measured in each run, 90"
    )
    parser.add_argument(
        "--warm-up", type=float, default=30.0, help="seconds before that, 30"
    )
    add_run_options(parser)
    add_engine_options(parser)
    parser.set_defaults(measure=measure, parser=parser)


async def measure(arguments: argparse.Namespace, tell: Callable[[str], None]) -> Result:
    """Run all ways in turns. Raises what ``run_live`` catches."""
    if arguments.quick:
        vars(arguments).update(_QUICK)
    check(arguments, "runs", "seconds", "threads")
    plan = Plan(
        arguments.runs,
        tuple(arguments.slots),
        arguments.warm_up,
        arguments.seconds,
        _SMALL if arguments.quick else Sizes(),
        Machine.from_arguments(arguments),
    )
    load_before = os.getloadavg()[0]
    runs: dict[int, dict[str, list[Ran]]] = {}
    for number in range(plan.runs):
        for slots in plan.slots:
            ways = runs.setdefault(slots, {})
            for way in ("idle", "direct", "queued"):
                tell(f"run {number + 1} of {plan.runs}, {slots} slots, {way}")
                ways.setdefault(way, []).append(await _run(plan, slots, way, number))
    queued = [ran.observed for ways in runs.values() for ran in ways["queued"]]
    return Result(
        {
            slots: {way: side_of(ran) for way, ran in ways.items()}
            for slots, ways in runs.items()
        },
        shares_of(queued),
        load_before,
        os.getloadavg()[0],
    )


async def _run(plan: Plan, slots: int, way: str, seed: int) -> Ran:
    async with plan.machine.engine(slots=slots, context=_CONTEXT) as engine:
        server = Server(engine.url)
        if way == "queued":
            async with client_of(server) as client:
                prompts = await Prompts.for_engine(client, seed)
            async with running_home([server]) as home:
                load = MixedLoad(Queued(home).open, prompts, plan.sizes)
                before = _interruptions(home)
                observed = await _watch(load, plan)
                after = _interruptions(home)
            return Ran(observed, after[0] - before[0], after[1] - before[1])
        async with client_of(server) as client:
            prompts = await Prompts.for_engine(client, seed)
            load = MixedLoad(Straight(client).open, prompts, plan.sizes)
            return Ran(await _watch(load, plan, voice_only=way == "idle"))


async def _watch(load: MixedLoad, plan: Plan, *, voice_only: bool = False) -> Observed:
    return await load.run(
        warm_up_s=plan.warm_up_s, window_s=plan.window_s, voice_only=voice_only
    )


def _interruptions(home: Home) -> tuple[int, int]:
    """Return how many there were by now, and the tokens that were read twice."""
    household = home.household
    status = household.node_status("household")
    return status.preemptions, household.status().recomputed.prompt


def side_of(runs: Iterable[Ran]) -> Side:
    """Return the medians of several runs of one way."""
    runs = list(runs)
    seen = [ran.observed for ran in runs]

    def wait(workload: Workload, share: float) -> float | None:
        waits = (percentile(each.waits_s(workload), share) for each in seen)
        known = [each for each in waits if each is not None]
        return median(known) if known else None

    counted = [ran for ran in runs if ran.preemptions is not None]
    return Side(
        voice_ttft_p50_s=wait(Workload.VOICE, 0.5) or 0.0,
        voice_ttft_p95_s=wait(Workload.VOICE, 0.95) or 0.0,
        background_tokens_per_s=median(map(background_tokens_per_s, seen)),
        failed=sum(each.failed() for each in seen),
        voice_commands=sum(len(each.waits_s(Workload.VOICE)) for each in seen),
        voice_still_waiting=sum(each.still_waiting(Workload.VOICE) for each in seen),
        chat_ttft_p50_s=wait(Workload.CHAT, 0.5),
        chat_ttft_p95_s=wait(Workload.CHAT, 0.95),
        summaries_done=int(median(e.finished(Workload.BACKGROUND) for e in seen)),
        preemptions=int(median(r.preemptions or 0 for r in counted))
        if counted
        else None,
        recomputed_tokens=(
            int(median(r.recomputed or 0 for r in counted)) if counted else None
        ),
    )


def background_tokens_per_s(observed: Observed) -> float:
    """Return what was computed for background work, in tokens per second."""
    done = observed.done(workload=Workload.BACKGROUND)
    return (done.uncached + done.output) / (observed.to_s - observed.from_s)


def shares_of(windows: Iterable[Observed]) -> dict[str, Share]:
    """Return each member's share of all that was done, in weighted tokens.

    Both always have work waiting and the same weight, so half of it is theirs.
    """
    costs = CostWeights()
    served = dict.fromkeys(MEMBERS, 0.0)
    for observed in windows:
        for member in MEMBERS:
            done = observed.done(member=member)
            served[member] += costs.charge(done.uncached, done.cached, done.output)
    total = sum(served.values())
    return {
        name: Share(_ratio(charge, total), 1 / len(MEMBERS))
        for name, charge in served.items()
    }


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
