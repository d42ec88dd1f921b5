"""Answers that fit one by one, but not together, in a pool that slots share.

Three answers of 260 tokens after prompts of 130 need more than the 1,024 tokens of
context that the three slots share. Straight to the server every answer on the pool dies
when it is used up.
"""

import argparse
import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass
import os
from typing import Any

from custom_components.fair_share.admission.model import Workload

from ..tables import Column, print_table
from .home import MEMBERS, Server, running_home
from .prompts import Prompts
from .served import Served, follow
from .settings import Machine, add_engine_options, add_run_options, check
from .sides import Open, Queued, Straight, client_of

_SLOTS = 3
_POOL_TOKENS = 1024
_PROMPT_TOKENS = 130
_OUTPUT_TOKENS = 260
_COLUMNS = (
    Column("answers", "answers", 0),
    Column("lost", "answers_lost", 0),
    Column("longest s", "longest_s", 1),
)


@dataclass(frozen=True, slots=True)
class Side:
    """One way to the server, all runs together.

    Lost is an answer that did not come to its end; ``longest_s`` is how long one took,
    from its question to its last word.
    """

    answers_lost: int
    answers: int
    longest_s: float


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
        print_table("shared pool", self.sides, _COLUMNS)
        print(f"load average before {self.load_average:.2f}")


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this benchmark to the command line."""
    parser = benchmarks.add_parser("memory", help=__doc__.splitlines()[0])
    add_run_options(parser, what="so many runs, counted together")
    add_engine_options(parser)
    parser.set_defaults(measure=measure, parser=parser)


async def measure(arguments: argparse.Namespace, tell: Callable[[str], None]) -> Result:
    """Have both ways try it. Raises what ``run`` of the command catches."""
    check(arguments, "runs", "threads")
    load = os.getloadavg()[0]
    seen: dict[str, list[Served]] = {"direct": [], "queued": []}
    runs = 1 if arguments.quick else arguments.runs
    for number in range(runs):
        tell(f"run {number + 1} of {runs}")
        machine = Machine.from_arguments(arguments)
        async with machine.engine(
            slots=_SLOTS, context=_POOL_TOKENS, unified=True
        ) as engine:
            server = Server(engine.url, separate=False)
            async with client_of(server) as client:
                prompts = await Prompts.for_engine(client, number)
                seen["direct"] += await _answers(Straight(client).open, prompts)
            async with running_home([server]) as home:
                seen["queued"] += await _answers(Queued(home).open, prompts)
    return Result({name: _side(served) for name, served in seen.items()}, load)


async def _answers(way: Open, prompts: Prompts) -> list[Served]:
    """Ask as many at once as there are slots."""
    seen = []
    async with asyncio.TaskGroup() as group:
        for number in range(_SLOTS):
            member = MEMBERS[number % len(MEMBERS)]
            request = prompts.fresh(_PROMPT_TOKENS, _OUTPUT_TOKENS)
            served = Served(Workload.CHAT, member, _PROMPT_TOKENS, fresh=True)
            seen.append(served)
            opened = way(Workload.CHAT, member, request, None)
            group.create_task(follow(opened, served))
    return seen


def _side(seen: list[Served]) -> Side:
    return Side(
        answers_lost=sum(not served.whole_with(_OUTPUT_TOKENS) for served in seen),
        answers=len(seen),
        longest_s=max((each.ended_s or 0) - each.asked_s for each in seen),
    )
