"""What the gateway adds to a direct connection, and what LiteLLM's proxy adds to it.

Clients have answers of 50 tokens a second streamed, one, 50 and 500 of them at once,
all ways before the same server, which costs next to nothing itself.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
import json
import os
from pathlib import Path
from statistics import median
import sys
from time import monotonic
from typing import Any

import aiohttp

from ..overhead.fake_engine import PACED, fake_engine
from ..overhead.litellm_proxy import ProxyMissingError, litellm_proxy
from ..overhead.ways import HttpWay, Streamed, WayFailedError
from ..simulator.metrics import percentile
from ..tables import Column, print_table
from ..terminal import Progress
from .serving import Gateway, ServingFailedError, gateway

_INTERRUPTED = 130
_COLUMNS = (
    Column("TTFT p50 ms", "ttft_p50_ms", 2),
    Column("p95 ms", "ttft_p95_ms", 2),
    Column("tok/s", "tokens_per_s", 0),
    Column("loop late p99 ms", "loop_delay_p99_ms", 2),
    Column("memory MB", "rss_mb", 0),
    Column("failed", "failed", 0),
)


@dataclass(frozen=True, slots=True)
class Size:
    """So many ``asked`` answers of ``tokens`` one after the other in each stream."""

    asked: int
    tokens: int


_SIZES = {1: Size(20, 20), 50: Size(4, 100), 500: Size(2, 100)}
_QUICK = {1: Size(2, 5), 50: Size(1, 5), 500: Size(1, 2)}


@dataclass(frozen=True, slots=True)
class Row:
    """One way with so many streams at once, medians over the runs, ``failed`` of all.

    ``loop_delay_p99_ms`` is how late Home Assistant's event loop was, ``rss_mb`` the
    memory of the serving process with its children: the server itself for ``direct``.
    """

    ttft_p50_ms: float
    ttft_p95_ms: float
    tokens_per_s: float
    loop_delay_p99_ms: float | None
    rss_mb: float
    failed: int


@dataclass(frozen=True, slots=True)
class Served:
    """A way to the server, and the process that serves it."""

    way: HttpWay
    pid: int
    gateway: Gateway | None = None


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this benchmark to the command line."""
    parser = benchmarks.add_parser("gateway", help=__doc__.splitlines()[0])
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
        with Progress("gateway") as progress:
            rows = asyncio.run(measure(arguments, progress.tell))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except (ProxyMissingError, ServingFailedError) as err:
        sys.exit(f"gateway: {err}")
    if arguments.json:
        ways = {
            name: {str(streams): asdict(row) for streams, row in row_of.items()}
            for name, row_of in rows.items()
        }
        print(json.dumps({**ways, "load_average": load}))
        return
    for streams in rows["direct"]:
        table = {name: row_of[streams] for name, row_of in rows.items()}
        print_table(f"{streams} streams", table, _COLUMNS)
    print(f"load average before {load:.2f}")


async def measure(
    arguments: argparse.Namespace, tell: Callable[[str], None]
) -> dict[str, dict[int, Row]]:
    """Measure by turns. Raises ``ProxyMissingError`` or ``ServingFailedError``."""
    sizes = _QUICK if arguments.quick else _SIZES
    runs = 1 if arguments.quick else arguments.runs
    async with AsyncExitStack() as stack:
        tell("starting")
        ways = await _start(stack, litellm=not arguments.without_litellm)
        for served in ways.values():
            await served.way.stream(PACED, 1)  # whatever the first one sets up
        seen: dict[str, dict[int, list[Row]]] = {name: {} for name in ways}
        for number in range(runs):
            for streams, size in sizes.items():
                for name, served in ways.items():
                    tell(f"run {number + 1} of {runs}, {name}, {streams} streams")
                    row = await _row(served, streams, size)
                    seen[name].setdefault(streams, []).append(row)
    return {
        name: {streams: _medians(rows) for streams, rows in row_of.items()}
        for name, row_of in seen.items()
    }


async def _start(stack: AsyncExitStack, *, litellm: bool) -> dict[str, Served]:
    engine = await stack.enter_async_context(fake_engine())
    session = await stack.enter_async_context(
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    )
    home = await stack.enter_async_context(gateway(engine.url))
    ways = {
        "direct": Served(HttpWay(session, engine.url), engine.pid),
        "ours": Served(HttpWay(session, home.url, key=home.key), home.pid, home),
    }
    if litellm:
        proxy = await stack.enter_async_context(litellm_proxy(engine.url))
        ways["litellm"] = Served(HttpWay(session, proxy.url), proxy.pid)
    return ways


async def _row(served: Served, streams: int, size: Size) -> Row:
    if served.gateway is not None:
        await served.gateway.loop_delay_p99_ms()
    apart_s = size.tokens / 50 / streams

    async def one(number: int) -> list[Streamed | None]:
        await asyncio.sleep(number * apart_s)
        return [await _asked(served.way, size.tokens) for _ in range(size.asked)]

    started_s = monotonic()
    answers = await _at_once([one(number) for number in range(streams)])
    took_s = monotonic() - started_s
    late_ms = None
    if served.gateway is not None:
        late_ms = await served.gateway.loop_delay_p99_ms()
    whole = [each for stream in answers for each in stream if each is not None]
    ttft_ms = [each.ttft_s * 1000 for each in whole]
    return Row(
        ttft_p50_ms=percentile(ttft_ms, 0.5) or 0.0,
        ttft_p95_ms=percentile(ttft_ms, 0.95) or 0.0,
        tokens_per_s=sum(each.tokens for each in whole) / took_s,
        loop_delay_p99_ms=late_ms,
        rss_mb=memory_mb(served.pid),
        failed=streams * size.asked - len(whole),
    )


async def _asked(way: HttpWay, tokens: int) -> Streamed | None:
    """Have an answer streamed; ``None`` if it did not come whole."""
    try:
        answer = await way.stream(PACED, tokens)
    except WayFailedError, aiohttp.ClientError, TimeoutError:
        return None
    return answer if answer.tokens == tokens else None


async def _at_once[T](asked: Sequence[Awaitable[T]]) -> list[T]:
    return await asyncio.gather(*asked)


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process and its children.

    Reads Linux's ``/proc``. Raises ``OSError`` elsewhere.
    """
    total, pids = 0, [pid]
    while pids:
        process = Path(f"/proc/{pids.pop()}")
        total += int((process / "statm").read_text().split()[1])
        for task in (process / "task").iterdir():
            pids += [int(child) for child in (task / "children").read_text().split()]
    return total * os.sysconf("SC_PAGE_SIZE") / 2**20


def _medians(rows: Sequence[Row]) -> Row:
    late = [row.loop_delay_p99_ms for row in rows if row.loop_delay_p99_ms is not None]
    return Row(
        ttft_p50_ms=median(row.ttft_p50_ms for row in rows),
        ttft_p95_ms=median(row.ttft_p95_ms for row in rows),
        tokens_per_s=median(row.tokens_per_s for row in rows),
        loop_delay_p99_ms=median(late) if late else None,
        rss_mb=median(row.rss_mb for row in rows),
        failed=sum(row.failed for row in rows),
    )
