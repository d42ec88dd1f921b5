"""Send hostile requests to a real gateway, before a server that is hostile as well.

Between them come good requests, each with a mark of its own that its answer has to
hold and no other may. Nothing may end with a status of 500 or a traceback in Home
Assistant's log, and nothing may stay busy.
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
import json
import logging
from random import Random
import sys
from time import monotonic
from typing import Any

import aiohttp
from aiohttp.http_exceptions import BadHttpMessage
from yarl import URL

from custom_components.fair_share.const import (
    CONF_KEY_HASH,
    CONF_MEMBER,
    GATEWAY_PATH,
    SUBENTRY_CLIENT,
)
from custom_components.fair_share.engines.base import EngineKind
from custom_components.fair_share.household.client_keys import new_key
from custom_components.fair_share.household.runtime import Household
from demo.ports import HOST

from ..live.home import MEMBERS, NotReadyError, Server, running_home, subentry, until
from ..terminal import Progress
from . import hostile
from .server import HostileServer, mark_of

_INTERRUPTED = 130
_AT_ONCE = 8
_SLOTS = 8
_GOOD, _RAW, _HANGS_UP = 0.05, 0.1, 0.15
_LIMIT_S = 120.0
"""A server that has failed several times is given a rest, for which requests wait."""
_IDLE_LIMIT_S = 90.0
_LOOK_S = 0.1
_ALLOWED = {
    *range(HTTPStatus.OK, HTTPStatus.MULTIPLE_CHOICES),
    *range(HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR),
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
}


@dataclass
class Result:
    """What came of it: how many requests ended with each status, and what was wrong."""

    requests: int = 0
    good: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    took_s: float = 0.0


class _Complaints(logging.Handler):
    """Collects the errors of all loggers, and all that comes with a traceback."""

    def __init__(self, told: list[str], key: str) -> None:
        super().__init__(logging.DEBUG)
        self._told = told
        self._key = key

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        if self._key in said:
            self._told.append("a key is in the log")
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, BadHttpMessage):
            return  # aiohttp itself refuses what is no HTTP, and says so
        if record.levelno >= logging.ERROR or error is not None:
            kind = type(error).__name__
            self._told.append(f"logged by {record.name}: {said[:200]!a} ({kind})")


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this command to the command line."""
    parser = benchmarks.add_parser("fuzz", help=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run, parser=parser)


def run(arguments: argparse.Namespace) -> None:
    """Send them, print what came of it, and fail if anything was wrong."""
    if arguments.requests < 1:
        arguments.parser.error("--requests is at least 1")
    try:
        with Progress("fuzz") as progress:
            result = asyncio.run(
                fuzz(arguments.requests, arguments.seed, progress.tell)
            )
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except NotReadyError as err:
        sys.exit(f"fuzz: {err}")
    if arguments.json:
        told = vars(result) | {"statuses": dict(result.statuses)}
        print(json.dumps(told))
    else:
        statuses = ", ".join(f"{k}: {n}" for k, n in sorted(result.statuses.items()))
        sent, took = result.requests, f"{result.took_s:.0f} s"
        print(f"{sent} requests in {took}, {result.good} of the good ones answered")
        print(f"statuses {statuses}")
        print("\n".join(result.wrong[:20]) or "nothing was wrong")
    if result.wrong:
        sys.exit(1)


async def fuzz(requests: int, seed: int, tell: Callable[[str], None]) -> Result:
    """Send so many requests. Raises ``NotReadyError``."""
    result, began_s = Result(), monotonic()
    async with HostileServer(seed).run() as server, _gateway(server) as (home, way):
        complaints = _Complaints(result.wrong, way.key)
        logging.getLogger().addHandler(complaints)
        try:
            async with _kind_after_a_rest(server, home):
                await _send_all(way, requests, seed, result, tell)
            server.is_kind = True
            async with asyncio.timeout(_IDLE_LIMIT_S):
                await until(lambda: not home.status().running and _is_ready(home))
            await way.good(result, requests)
        except TimeoutError:
            result.wrong.append("a slot stayed busy")
        finally:
            logging.getLogger().removeHandler(complaints)
    result.took_s = monotonic() - began_s
    return result


def _is_ready(household: Household) -> bool:
    return bool([*household.servers.ready()])


@asynccontextmanager
async def _kind_after_a_rest(
    server: HostileServer, household: Household
) -> AsyncIterator[None]:
    """Let a server be kind to the one request that it gets after a rest.

    Each rest is twice as long otherwise, up to minutes in which nothing is tried.
    """

    async def watch() -> None:
        while True:
            server.is_kind = not _is_ready(household)
            await asyncio.sleep(_LOOK_S)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def _send_all(
    way: _Way, requests: int, seed: int, result: Result, tell: Callable[[str], None]
) -> None:
    numbers = iter(range(requests))

    async def some() -> None:
        for number in numbers:
            rng = Random(f"{seed}/{number}")
            result.requests += 1
            if number % 1000 == 0:
                tell(f"{number} of {requests}")
            try:
                async with asyncio.timeout(_LIMIT_S):
                    await way.one(rng, result, number)
            except TimeoutError:
                result.wrong.append(f"request {number} had no end")

    await asyncio.gather(*(some() for _ in range(_AT_ONCE)))


@dataclass(frozen=True, slots=True)
class _Way:
    """A client of the gateway."""

    session: aiohttp.ClientSession
    port: int
    key: str

    async def one(self, rng: Random, result: Result, number: int) -> None:
        """Send a request of some kind."""
        kind = rng.random()
        if kind < _GOOD:
            await self.good(result, number)
        elif kind < _RAW:
            await self._raw(rng, result)
        else:
            await self._hostile(rng, result, hangs_up=kind < _HANGS_UP)

    async def good(self, result: Result, number: int) -> None:
        """Ask for an answer that holds a mark; servers may refuse, but not mix up."""
        mark = mark_of(number)
        body = {"messages": [{"role": "user", "content": mark}], "stream": True}
        async with self.session.post(
            self._url("chat/completions"), json=body, headers=self._headers(self.key)
        ) as answer:
            said = await answer.text()
            self._note(answer.status, result)
        told = said.replace(mark, "")
        if "mark-" in told:
            result.wrong.append(f"request {number} got the text of another")
        if answer.status == HTTPStatus.OK and '"error"' not in said:
            result.good += mark in said
            if mark not in said:
                result.wrong.append(f"request {number} got another answer")

    async def _hostile(self, rng: Random, result: Result, *, hangs_up: bool) -> None:
        keys = (*(self.key,) * 9, self.key[:-1], "", "x" * 500, "fs-")
        headers = self._headers(rng.choice(keys))
        headers["X-Odd"] = "x" * rng.randrange(200)
        with suppress(aiohttp.ClientError):
            asking = self.session.request(
                rng.choice((*("POST",) * 8, "GET", "PUT")),
                self._url(hostile.path(rng)),
                data=hostile.body(rng),
                headers=headers,
            )
            async with asking as answer:
                if not hangs_up:
                    said = await answer.text(errors="replace")
                    if "mark-" in said:
                        result.wrong.append("somebody got the text of another")
                self._note(answer.status, result)

    async def _raw(self, rng: Random, result: Result) -> None:
        reader, writer = await asyncio.open_connection(HOST, self.port)
        with suppress(ConnectionError, TimeoutError):
            writer.write(hostile.raw_request(rng, self.key))
            await writer.drain()
            async with asyncio.timeout(0.2):
                first = await reader.readline()
                parts = first.split()
                if len(parts) > 1 and parts[1].isdigit():
                    self._note(int(parts[1]), result)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    def _note(self, status: int, result: Result) -> None:
        result.statuses[str(status)] += 1
        if status not in _ALLOWED:
            result.wrong.append(f"a request ended with the status {status}")

    def _url(self, path: str) -> URL:
        base = f"http://{HOST}:{self.port}{GATEWAY_PATH}/"
        return URL(base + path, encoded=True)

    @staticmethod
    def _headers(key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}


@asynccontextmanager
async def _gateway(server: HostileServer) -> AsyncIterator[tuple[Household, _Way]]:
    key = new_key()
    client = subentry(
        "program",
        SUBENTRY_CLIENT,
        {CONF_MEMBER: MEMBERS[0], CONF_KEY_HASH: key.key_hash, "workload": "chat"},
    )
    known = Server(server.url, EngineKind.OPENAI_COMPATIBLE, slots=_SLOTS)
    async with (
        running_home([known], more=[client]) as home,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        hass = home.household.hass
        await hass.http.start()
        assert hass.config.api is not None  # noqa: S101 - the server has started
        server.is_kind = False
        yield home.household, _Way(session, hass.config.api.port, key.key)
