"""The same mixed load straight to a server and through the household's queue.

Six summaries of 1,500 tokens and 200 of answer are always outstanding, three of each of
two members; a voice command of 289 tokens, 250 of them always the same, comes every
five seconds, and a chat goes on. *Idle* is the server with nothing but the voice
commands. Every run has a server process of its own.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
import os
from typing import Any

from ..tables import print_table
from .home import Server
from .mixed_load import Sizes
from .observing import WAYS, Plan, Ran, observe
from .rows import COLUMNS, Share, Side, ratio, shares_of, side_of
from .settings import Machine, add_engine_options, add_run_options, check

_CONTEXT = 2048
_QUICK = {"runs": 1, "seconds": 15.0, "warm_up": 5.0, "slots": [2]}
_SMALL = Sizes(summary_prompt=200, summary_output=20, voice_prefix=60, voice_prompt=99)


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
            print_table(f"{slots} slots", sides, COLUMNS)
            idle, direct, queued = (sides[n] for n in ("idle", "direct", "queued"))
            voice = queued.voice_ttft_p95_s / idle.voice_ttft_p95_s
            kept = ratio(queued.background_tokens_per_s, direct.background_tokens_per_s)
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
    """Run all ways in turns. Raises what ``run`` of the command catches."""
    if arguments.quick:
        vars(arguments).update(_QUICK)
    check(arguments, "runs", "seconds", "threads")
    machine = Machine.from_arguments(arguments)
    sizes = _SMALL if arguments.quick else Sizes()
    plan = Plan(arguments.warm_up, arguments.seconds, sizes)
    load_before = os.getloadavg()[0]
    runs: dict[int, dict[str, list[Ran]]] = {}
    for number in range(arguments.runs):
        for slots in arguments.slots:
            ways = runs.setdefault(slots, {})
            for way in WAYS:
                tell(f"run {number + 1} of {arguments.runs}, {slots} slots, {way}")
                async with machine.engine(slots=slots, context=_CONTEXT) as engine:
                    ran = await observe(Server(engine.url), way, plan, number)
                ways.setdefault(way, []).append(ran)
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
