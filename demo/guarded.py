"""A server of several processes that never outlives whoever started it."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
import contextlib
from contextlib import asynccontextmanager
import os
from pathlib import Path
import signal

import aiohttp

from .embedded_engine import EngineMissingError

_POLL_S = 0.5
# Runs a server, and kills its whole group when it ends or when standard input does,
# which means that whoever started it is gone.
_GUARDED = '{ "$@"; kill -KILL 0; } & cat >/dev/null; kill -KILL 0'


@asynccontextmanager
async def guarded_server(
    command: Sequence[str],
    url: str,
    log: Path,
    *,
    limit_s: float,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[int]:
    """Run a server that is ready when ``/health`` at ``url`` says so; give its group.

    On leaving, its group is killed. ``log`` holds its output while it runs, and when it
    did not start within ``limit_s``: then ``EngineMissingError`` is raised.
    """
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", _GUARDED, "guarded", *command),
            cwd=log.parent,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        await _wait_until_ready(process, url, log, limit_s)
        try:
            yield process.pid
        finally:
            log.unlink()  # noqa: ASYNC240 - a small local file
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _wait_until_ready(
    process: asyncio.subprocess.Process, url: str, log: Path, limit_s: float
) -> None:
    try:
        async with asyncio.timeout(limit_s), aiohttp.ClientSession() as session:
            while process.returncode is None:
                # Nothing tells when it is ready: it has to be asked.
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"{url}/health") as answer:
                        if answer.ok:
                            return
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise EngineMissingError(
            f"it was not ready after {limit_s:.0f} s; it says why in {log}"
        ) from None
    raise EngineMissingError(f"it ended while it started; it says why in {log}")
