"""What our path adds to a direct connection, and what LiteLLM's proxy adds to it.

All ways lead to the same server, which costs next to nothing itself, by turns in one
run. First tokens are timed with answers of 50 tokens a second; tokens relayed and their
cost with answers as fast as the connection takes them.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
import json
import os
from statistics import median
import sys
from time import monotonic
from typing import Any

import aiohttp

from ..live.home import NotReadyError, Server, running_home
from ..simulator.metrics import percentile
from ..tables import Column, print_table
from ..terminal import Progress
from .fake_engine import FAST, PACED, fake_engine
from .litellm_proxy import ProxyMissingError, litellm_proxy
from .ways import HttpWay, OurWay, Streamed, Way, WayFailedError

_INTERRUPTED = 130
_COLUMNS = (
    Column("TTFT p50 ms", "ttft_p50_ms", 2),
    Column("p95 ms", "ttft_p95_ms", 2),
    Column("tok/s", "tokens_per_s", 0),
    Column("CPU us/token", "cpu_us_per_token", 1),
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is streamed with so many streams at once.

    ``asked`` answers of ``paced_tokens`` one after the other in each stream for the
    first tokens, one of ``fast_tokens`` for what is relayed.
    """

    asked: int
    paced_tokens: int
    fast_tokens: int


_SIZES = {1: Sizes(40, 3, 4000), 50: Sizes(4, 100, 200)}
_QUICK = {1: Sizes(5, 2, 200), 50: Sizes(1, 5, 10)}


@dataclass(frozen=True, slots=True)
class Row:
    """One way with so many streams at once, medians over the runs.

    ``cpu_us_per_token`` is the CPU time of one process by the tokens it relayed: of the
    client itself for ``direct``, of client and queue together (they are one process)
    for ``ours``, of the proxy alone for ``litellm``. So what a way adds is ``ours``
    less ``direct``, and all of ``litellm``. ``direct`` keeps its connections, what is
    there to be compared with at best; ``direct_new_connection`` opens one for each
    request, as ours does.
    """

    ttft_p50_ms: float
    ttft_p95_ms: float
    tokens_per_s: float
    cpu_us_per_token: float


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this benchmark to the command line."""
    parser = benchmarks.add_parser("overhead", help=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="medians of so many runs")
    parser.add_argument(
        "--without-litellm", action="store_true", help="do not install and measure it"
    )
    parser.add_argument(
        "--quick", action="store_true", help="one short run, to see that it works"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run, parser=parser)


def run(arguments: argparse.Namespace) -> None:
    """Measure all ways and print them."""
    if arguments.runs < 1:
        arguments.parser.error("--runs is at least 1")
    load = os.getloadavg()[0]
    try:
        with Progress("overhead") as progress:
            rows = asyncio.run(measure(arguments, progress.tell))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except (ProxyMissingError, NotReadyError, WayFailedError) as err:
        sys.exit(f"overhead: {err}")
    if arguments.json:
        ways = {
            name: {str(streams): asdict(row) for streams, row in row_of.items()}
            for name, row_of in rows.items()
        }
        print(json.dumps({**ways, "load_average": load}))
    else:
        _print(rows, load)


async def measure(
    arguments: argparse.Namespace, tell: Callable[[str], None]
) -> dict[str, dict[int, Row]]:
    """Measure by turns. Raises ``ProxyMissingError`` or ``NotReadyError``."""
    sizes = _QUICK if arguments.quick else _SIZES
    runs = 1 if arguments.quick else arguments.runs
    async with AsyncExitStack() as stack:
        tell("starting")
        ways = await _start(stack, litellm=not arguments.without_litellm)
        for way in ways.values():
            await _first_tokens(way, 1, _QUICK[1])  # whatever the first one sets up
        seen: dict[str, dict[int, list[Row]]] = {name: {} for name in ways}
        for number in range(runs):
            for streams, size in sizes.items():
                for name, way in ways.items():
                    tell(f"run {number + 1} of {runs}, {name}, {streams} streams")
                    row = await _row(way, streams, size)
                    seen[name].setdefault(streams, []).append(row)
    return {
        name: {streams: _medians(rows) for streams, rows in row_of.items()}
        for name, row_of in seen.items()
    }


async def _start(stack: AsyncExitStack, *, litellm: bool) -> dict[str, Way]:
    engine = await stack.enter_async_context(fake_engine())
    connector = aiohttp.TCPConnector(limit=0)
    session = await stack.enter_async_context(
        aiohttp.ClientSession(connector=connector)
    )
    home = await stack.enter_async_context(running_home([Server(engine.url)]))
    ways: dict[str, Way] = {
        "direct": HttpWay(session, engine.url),
        "direct_new_connection": HttpWay(session, engine.url, keep=False),
        "ours": OurWay(home),
    }
    if litellm:
        proxy = await stack.enter_async_context(litellm_proxy(engine.url))
        ways["litellm"] = HttpWay(session, proxy.url, proxy.pid)
    return ways


async def _row(way: Way, streams: int, size: Sizes) -> Row:
    ttft_ms = [each.ttft_s * 1000 for each in await _first_tokens(way, streams, size)]
    cpu_s, started_s = way.cpu_s(), monotonic()
    answers = await _at_once(
        [way.stream(FAST, size.fast_tokens) for _ in range(streams)]
    )
    took_s, cpu_s = monotonic() - started_s, way.cpu_s() - cpu_s
    tokens = sum(each.tokens for each in answers)
    if tokens != streams * size.fast_tokens:
        raise WayFailedError(f"{tokens} tokens came of {streams * size.fast_tokens}")
    return Row(
        ttft_p50_ms=percentile(ttft_ms, 0.5) or 0.0,
        ttft_p95_ms=percentile(ttft_ms, 0.95) or 0.0,
        tokens_per_s=tokens / took_s,
        cpu_us_per_token=cpu_s / tokens * 1e6,
    )


async def _first_tokens(way: Way, streams: int, size: Sizes) -> list[Streamed]:
    """Have answers streamed at a pace, with the streams spread over the first one."""
    apart_s = size.paced_tokens / 50 / streams

    async def one(number: int) -> list[Streamed]:
        await asyncio.sleep(number * apart_s)
        return [await way.stream(PACED, size.paced_tokens) for _ in range(size.asked)]

    answers = await _at_once([one(number) for number in range(streams)])
    return [each for stream in answers for each in stream]


async def _at_once[T](asked: Sequence[Awaitable[T]]) -> list[T]:
    return await asyncio.gather(*asked)


def _medians(rows: Sequence[Row]) -> Row:
    return Row(
        ttft_p50_ms=median(row.ttft_p50_ms for row in rows),
        ttft_p95_ms=median(row.ttft_p95_ms for row in rows),
        tokens_per_s=median(row.tokens_per_s for row in rows),
        cpu_us_per_token=median(row.cpu_us_per_token for row in rows),
    )


def _print(rows: Mapping[str, Mapping[int, Row]], load: float) -> None:
    direct = rows["direct"]
    for streams in direct:
        ways = {name: row_of[streams] for name, row_of in rows.items()}
        print_table(f"{streams} streams", ways, _COLUMNS)
        for name, row in ways.items():
            if name in ("ours", "litellm"):
                added = row.ttft_p50_ms - direct[streams].ttft_p50_ms
                print(f"  {name} adds {added:.2f} ms to the first token (p50)")
    print(f"load average before {load:.2f}")
