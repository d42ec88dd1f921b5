"""What somebody who listens notices when a long prompt enters beside their answer.

A voice answer is being written when background work with a prompt of 3,000 tokens
comes: the time between two pieces of the answer until the prompt is read. *Direct* is
straight to the server, *sliced* through the household.
"""

import argparse
import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
import os
from statistics import median
from time import monotonic
from typing import Any

from custom_components.fair_share.admission.model import Workload

from ..simulator.metrics import percentile
from ..tables import Column, print_table
from .home import MEMBERS, Server, running_home, until
from .prompts import Prompts
from .served import Served, follow
from .settings import Machine, add_engine_options, add_run_options, check
from .sides import Open, Queued, Straight, client_of

_CONTEXT = 4096
_LONG_PROMPT, _LONG_OUTPUT = 3000, 4
_QUICK_PROMPT = 600
_VOICE_PROMPT, _VOICE_OUTPUT = 60, 3500
_BEGUN_PIECES = 20
_LIMIT_S = 300.0
_COLUMNS = (
    Column("gap p95 ms", "gap_p95_ms", 0),
    Column("gap max ms", "gap_max_ms", 0),
    Column("prompt read s", "prefill_s", 1),
    Column("voice tok/s meanwhile", "voice_tokens_per_s", 1),
)


@dataclass(frozen=True, slots=True)
class Side:
    """One way to the server, medians over the runs.

    Gaps lie between two pieces of the voice answer; ``prefill_s`` counts from the
    moment at which the long prompt was sent to the first token of its answer.
    """

    gap_p95_ms: float
    gap_max_ms: float
    prefill_s: float
    voice_tokens_per_s: float


@dataclass(frozen=True, slots=True)
class Result:
    """Both ways."""

    sides: dict[str, Side]
    load_average: float

    def as_json(self) -> dict[str, Any]:
        """Return the machine-readable form."""
        sides = {name: asdict(side) for name, side in self.sides.items()}
        return {**sides, "load_average": self.load_average}

    def print(self) -> None:
        """Print the table."""
        print_table("a long prompt enters", self.sides, _COLUMNS)
        print(f"load average before {self.load_average:.2f}")


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this benchmark to the command line."""
    parser = benchmarks.add_parser("prefill", help=__doc__.splitlines()[0])
    add_run_options(parser)
    add_engine_options(parser)
    parser.set_defaults(measure=measure, parser=parser)


async def measure(arguments: argparse.Namespace, tell: Callable[[str], None]) -> Result:
    """Have both ways try it. Raises what ``run`` of the command catches."""
    check(arguments, "runs", "threads")
    load = os.getloadavg()[0]
    runs = 1 if arguments.quick else arguments.runs
    length = _QUICK_PROMPT if arguments.quick else _LONG_PROMPT
    machine = Machine.from_arguments(arguments)
    seen: dict[str, list[Side]] = {"direct": [], "sliced": []}
    for number in range(runs):
        for way, sides in seen.items():
            tell(f"run {number + 1} of {runs}, {way}")
            sides.append(await _run(machine, way, number, length))
    return Result({way: _medians(sides) for way, sides in seen.items()}, load)


async def _run(machine: Machine, way: str, seed: int, length: int) -> Side:
    async with machine.engine(slots=2, context=_CONTEXT) as engine:
        server = Server(engine.url)
        async with client_of(server) as client:
            prompts = await Prompts.for_engine(client, seed)
            if way == "direct":
                return await _enter(Straight(client).open, prompts, length)
        async with running_home([server]) as home:
            return await _enter(Queued(home).open, prompts, length)


async def _enter(way: Open, prompts: Prompts, length: int) -> Side:
    voice = Served(Workload.VOICE, MEMBERS[0], _VOICE_PROMPT)
    request = prompts.fresh(_VOICE_PROMPT, _VOICE_OUTPUT)
    opened = way(Workload.VOICE, MEMBERS[0], request, None)
    speaking = asyncio.create_task(follow(opened, voice))
    try:
        async with asyncio.timeout(_LIMIT_S):
            await until(lambda: len(voice.times) >= _BEGUN_PIECES or speaking.done())
            request = prompts.fresh(length, _LONG_OUTPUT)
            reading = Served(Workload.BACKGROUND, MEMBERS[1], length, fresh=True)
            await follow(way(Workload.BACKGROUND, MEMBERS[1], request, None), reading)
    finally:
        speaking.cancel()
        await asyncio.gather(speaking, return_exceptions=True)
    first_s = reading.first_s or monotonic()
    return seen_meanwhile(voice.times, reading.asked_s, first_s)


def seen_meanwhile(times: Sequence[float], from_s: float, to_s: float) -> Side:
    """Return what was seen of an answer's pieces while a prompt was read.

    A gap that began before or lasts longer counts whole.
    """
    gaps = [
        (after - before) * 1000
        for before, after in pairwise(times)
        if after > from_s and before < to_s
    ]
    # Nothing came any more: the answer waited for all of that time.
    gaps = gaps or [(to_s - from_s) * 1000]
    return Side(
        gap_p95_ms=percentile(gaps, 0.95) or 0.0,
        gap_max_ms=max(gaps),
        prefill_s=to_s - from_s,
        voice_tokens_per_s=sum(from_s < at <= to_s for at in times) / (to_s - from_s),
    )


def _medians(sides: Sequence[Side]) -> Side:
    return Side(
        gap_p95_ms=median(side.gap_p95_ms for side in sides),
        gap_max_ms=median(side.gap_max_ms for side in sides),
        prefill_s=median(side.prefill_s for side in sides),
        voice_tokens_per_s=median(side.voice_tokens_per_s for side in sides),
    )
