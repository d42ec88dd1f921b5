"""A real vLLM that dies in the middle of an answer."""

import asyncio
from collections.abc import Iterator
import os
from pathlib import Path
import signal

import aiohttp
import pytest

from custom_components.fair_share.engines.base import (
    EngineKind,
    ServerFaultError,
    UnreachableError,
)
from custom_components.fair_share.engines.probe import create_engine
from demo.embedded_engine import EmbeddedEngine
from demo.vllm_engine import VllmOptions
from tests.engines.helpers import ask, deltas_of, error_of, first_content
from tests.live.vllm_fixtures import running_vllm

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1000)]


@pytest.fixture
def server(socket_enabled: None) -> Iterator[EmbeddedEngine]:
    with running_vllm(VllmOptions()) as engine:
        yield engine


def processes_of(group: int) -> dict[int, str]:
    """Return the processes of a group with their names."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue
        name, _, rest = stat.partition("(")[2].rpartition(")")
        if int(rest.split()[2]) == group:
            found[int(folder.name)] = name
    return found


async def test_a_worker_that_is_killed_ends_the_answer_with_an_error(
    server: EmbeddedEngine,
) -> None:
    before = processes_of(server.pid)
    (worker,) = [pid for pid, name in before.items() if "Worker" in name]
    async with aiohttp.ClientSession() as session:
        engine = create_engine(session, server.url, None, EngineKind.VLLM)
        request = ask("Write on.", 1900, parameters={"ignore_eos": True})
        async with engine.stream(request) as deltas:
            await first_content(deltas)
            os.kill(worker, signal.SIGKILL)
            error = await error_of(drained(deltas))
        assert isinstance(error, ServerFaultError)
        assert isinstance(await error_of(deltas_of(engine)), Exception)
        async with asyncio.timeout(30):
            while not isinstance(await error_of(engine.load()), UnreachableError):
                pass


async def drained(deltas: object) -> None:
    """Read an answer to its end."""
    async for _ in deltas:  # type: ignore[attr-defined]
        pass
