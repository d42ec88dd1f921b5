"""A real vLLM router in front of real servers, as ``scripts/vllm`` installs it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .embedded_engine import EmbeddedEngine, EngineMissingError
from .guarded import guarded_server
from .ports import HOST, free_port
from .vllm_engine import find_vllm, folder

_START_LIMIT_S = 60.0


@asynccontextmanager
async def vllm_router(*servers: EmbeddedEngine) -> AsyncIterator[EmbeddedEngine]:
    """Run a router in front of these servers; on leaving, it is killed.

    Raises ``EngineMissingError`` if none is installed, or if it does not start.
    """
    command = find_vllm().with_name("vllm-router")
    if not command.exists():
        raise EngineMissingError("no vLLM router is installed (scripts/vllm install)")
    port = free_port()
    arguments = ["--host", HOST, "--port", str(port)]
    arguments += ["--prometheus-port", str(free_port())]
    # Trying again, and when not to, is up to Fair Share.
    arguments += ["--disable-retries", "--disable-circuit-breaker"]
    arguments += ["--worker-urls", *(server.url for server in servers)]
    url = f"http://{HOST}:{port}"
    async with guarded_server(
        [str(command), *arguments],
        url,
        folder() / f"router-{port}.log",
        limit_s=_START_LIMIT_S,
    ) as group:
        yield EmbeddedEngine(url, group)
