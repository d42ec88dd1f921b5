"""A Home Assistant with a household and its gateway, in a process of its own.

It also notes how late its event loop is: a task that wants to wake up every 5 ms sees
how much later it does.

    python -m benchmarks.gateway.serving ENGINE      prints its address

A line on standard input has it print how late the loop was since the line before.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
import json
from pathlib import Path
import sys

from custom_components.fair_share.const import (
    CONF_KEY_HASH,
    CONF_MEMBER,
    CONF_QUEUE_LIMIT,
    CONF_QUEUE_LIMIT_CLASS,
    SUBENTRY_CLIENT,
)
from custom_components.fair_share.household.client_keys import new_key
from demo.ports import HOST

from ..live.home import MEMBERS, Server, running_home, subentry
from ..simulator.metrics import percentile

_ROOT = Path(__file__).resolve().parents[2]
_STEP_S = 0.005
_START_LIMIT_S = 120.0
_MOST_WAITING = 10_000


@dataclass(frozen=True, slots=True)
class Gateway:
    """Where it listens, the key of its client, and its process."""

    url: str
    key: str
    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self.process.pid

    async def loop_delay_p99_ms(self) -> float:
        """Return how late its event loop was since this was last asked."""
        reader, writer = self.process.stdout, self.process.stdin
        assert reader is not None  # noqa: S101 - both are pipes
        assert writer is not None  # noqa: S101
        writer.write(b"\n")
        await writer.drain()
        return float(await reader.readline())


class ServingFailedError(Exception):
    """The process did not start."""


@asynccontextmanager
async def gateway(engine_url: str) -> AsyncIterator[Gateway]:
    """Run it before an engine, killed on leaving. Raises ``ServingFailedError``."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.gateway.serving", engine_url),
        cwd=_ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for whoever started this
    )
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    try:
        async with asyncio.timeout(_START_LIMIT_S):
            line = await process.stdout.readline()
        if not line:
            raise ServingFailedError("Home Assistant did not start")
        yield Gateway(**json.loads(line), process=process)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def serve(engine_url: str) -> None:
    """Serve until standard input ends."""
    key = new_key()
    client = subentry(
        "program",
        SUBENTRY_CLIENT,
        {CONF_MEMBER: MEMBERS[0], CONF_KEY_HASH: key.key_hash, "workload": "chat"},
    )
    # Nobody is refused for a full queue: what is measured is how all are served.
    options = dict.fromkeys((CONF_QUEUE_LIMIT, CONF_QUEUE_LIMIT_CLASS), _MOST_WAITING)
    async with running_home([Server(engine_url)], options, [client]) as home:
        hass = home.household.hass
        await hass.http.start()
        assert hass.config.api is not None  # noqa: S101 - the server has started
        url = f"http://{HOST}:{hass.config.api.port}/api/fair_share"
        print(json.dumps({"url": url, "key": key.key}), flush=True)
        late_ms: list[float] = []
        watching = asyncio.create_task(_watch(late_ms))
        while await asyncio.to_thread(sys.stdin.readline):
            print(percentile(late_ms, 0.99) or 0.0, flush=True)
            late_ms.clear()
        watching.cancel()


async def _watch(late_ms: list[float]) -> None:
    now = asyncio.get_running_loop().time
    while True:
        due = now() + _STEP_S
        await asyncio.sleep(_STEP_S)
        late_ms.append((now() - due) * 1000)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
