"""A running vLLM: the household's mixed load, and answers that are interrupted.

Everything is smaller than before llama.cpp, to fit into the 2,048 tokens of context
that ``scripts/vllm`` gives its model. The household is told of two slots, which is what
the server should have been started with (``--max-num-seqs 2``).
"""

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
import os
from statistics import median
from typing import Any

import aiohttp

from custom_components.fair_share.admission.model import Workload
from custom_components.fair_share.engines.base import EngineError, EngineKind
from custom_components.fair_share.engines.probe import find_server

from ..tables import Column, print_table
from .home import MEMBERS, NotReadyError, Server, running_home, until
from .mixed_load import Sizes
from .observing import WAYS, Plan, Ran, interruptions, observe
from .prompts import Prompts
from .rows import COLUMNS, Share, Side, shares_of, side_of
from .served import Served, follow
from .settings import add_run_options, check
from .sides import Queued, client_of

_SLOTS = 2
_SIZES = Sizes(
    summary_prompt=600,
    summary_output=100,
    voice_prefix=120,
    voice_prompt=159,
    chat_prompt=200,
    chat_output=50,
    chat_longest=800,
)
_QUICK = {"runs": 1, "seconds": 15.0, "warm_up": 5.0}
_PROMPT, _OUTPUT, _VOICE_OUTPUT = 100, 300, 20
_BEGUN_PIECES = 20
_LIMIT_S = 300.0
_PREEMPTION_COLUMNS = (
    Column("answers", "answers", 0),
    Column("whole", "whole", 0),
    Column("interrupted", "preemptions", 0),
    Column("recomputed", "recomputed_tokens", 0),
    Column("voice s", "voice_ttft_s", 2),
)


class VllmMissingError(NotReadyError):
    """There is no vLLM at that address."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """Background answers that a voice command interrupts, all runs together.

    ``whole``: all tokens came, in one text with an end. ``voice_ttft_s`` is the median.
    """

    answers: int
    whole: int
    preemptions: int
    recomputed_tokens: int
    voice_ttft_s: float


@dataclass(frozen=True, slots=True)
class Result:
    """All that was measured."""

    household: Mapping[str, Side]
    shares: Mapping[str, Share]
    preemption: Preemption
    load_average: float

    def as_json(self) -> dict[str, Any]:
        """Return the machine-readable form."""
        return {
            "household": {name: asdict(side) for name, side in self.household.items()},
            "shares": {name: asdict(share) for name, share in self.shares.items()},
            "preemption": asdict(self.preemption),
            "load_average": self.load_average,
        }

    def print(self) -> None:
        """Print both tables."""
        print_table("vLLM, 2 slots", self.household, COLUMNS)
        shares = (f"{name} {share.share:.1%}" for name, share in self.shares.items())
        print(f"shares of all service through the queue: {', '.join(shares)}")
        print_table("vLLM, 1 slot", {"queued": self.preemption}, _PREEMPTION_COLUMNS)
        print(f"load average before {self.load_average:.2f}")


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this benchmark to the command line."""
    parser = benchmarks.add_parser("vllm", help=__doc__.splitlines()[0])
    parser.add_argument(
        "--server",
        required=True,
        metavar="URL",
        help="of a vLLM; scripts/vllm runs one",
    )
    parser.add_argument("--seconds", type=float, default=90.0, help="of each run, 90")
    parser.add_argument(
        "--warm-up", type=float, default=30.0, help="seconds before that, 30"
    )
    add_run_options(parser)
    parser.set_defaults(measure=measure, parser=parser)


async def measure(arguments: argparse.Namespace, tell: Callable[[str], None]) -> Result:
    """Measure the server. Raises what ``run`` of the command catches."""
    if arguments.quick:
        vars(arguments).update(_QUICK)
    check(arguments, "runs", "seconds")
    load = os.getloadavg()[0]
    server = await _find(arguments.server)
    plan = Plan(arguments.warm_up, arguments.seconds, _SIZES)
    ways: dict[str, list[Ran]] = {way: [] for way in WAYS}
    seen: list[Preemption] = []
    for number in range(arguments.runs):
        for way, ran in ways.items():
            tell(f"run {number + 1} of {arguments.runs}, {way}")
            ran.append(await observe(server, way, plan, number))
            await _idle(server)
        tell(f"run {number + 1} of {arguments.runs}, interruptions")
        seen.append(await _interrupt(server, number))
    return Result(
        {way: side_of(ran) for way, ran in ways.items()},
        shares_of(ran.observed for ran in ways["queued"]),
        _all(seen),
        load,
    )


async def _find(address: str) -> Server:
    async with aiohttp.ClientSession() as session:
        try:
            found = await find_server(session, address)
        except EngineError as err:
            raise VllmMissingError(
                f"no vLLM answers at {address} ({err}); scripts/vllm runs one"
            ) from err
    if found.engine.kind is not EngineKind.VLLM:
        raise VllmMissingError(f"what answers at {address} is not vLLM")
    return Server(found.address, EngineKind.VLLM, separate=False, slots=_SLOTS)


async def _idle(server: Server) -> None:
    """Wait until the server is done with whom the last run left."""
    async with client_of(server) as client, asyncio.timeout(_LIMIT_S):
        while (await client.load()).running:  # noqa: ASYNC110 - another process works
            await asyncio.sleep(0.2)


async def _interrupt(server: Server, seed: int) -> Preemption:
    """Have a voice command interrupt background work that has the only slot."""
    one_slot = Server(server.url, server.kind, separate=False, slots=1)
    async with client_of(one_slot) as client:
        prompts = await Prompts.for_engine(client, seed)
    async with running_home([one_slot]) as home, asyncio.timeout(_LIMIT_S):
        way = Queued(home).open
        writing = Served(Workload.BACKGROUND, MEMBERS[1], _PROMPT, fresh=True)
        request = prompts.fresh(_PROMPT, _OUTPUT)
        opened = way(Workload.BACKGROUND, MEMBERS[1], request)
        task = asyncio.create_task(follow(opened, writing))
        await until(lambda: len(writing.times) >= _BEGUN_PIECES or task.done())
        spoken = Served(Workload.VOICE, MEMBERS[0], _PROMPT)
        request = prompts.fresh(_PROMPT, _VOICE_OUTPUT)
        await follow(way(Workload.VOICE, MEMBERS[0], request), spoken)
        await task
        preemptions, recomputed = interruptions(home)
    whole = (writing.whole_with(_OUTPUT), spoken.whole_with(_VOICE_OUTPUT))
    waited_s = (spoken.first_s or spoken.ended_s or 0.0) - spoken.asked_s
    return Preemption(len(whole), sum(whole), preemptions, recomputed, waited_s)


def _all(seen: Sequence[Preemption]) -> Preemption:
    return Preemption(
        answers=sum(each.answers for each in seen),
        whole=sum(each.whole for each in seen),
        preemptions=sum(each.preemptions for each in seen),
        recomputed_tokens=sum(each.recomputed_tokens for each in seen),
        voice_ttft_s=median(each.voice_ttft_s for each in seen),
    )
