"""Real vLLMs for the live tests."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
import os

import pytest
import pytest_socket

from demo import vllm_engine as demo_engine, vllm_router as demo_router
from demo.embedded_engine import EmbeddedEngine
from demo.vllm_engine import VllmOptions

SLOTS = 2
KV_TOKENS = 2240
QUEUED = 8
"""It counts what runs as well."""


@contextmanager
def running_vllm(options: VllmOptions) -> Iterator[EmbeddedEngine]:
    """Run a vLLM for as long as the block lasts, slow enough to be watched.

    Skips the test unless ``FAIR_SHARE_VLLM=1`` asks for it: a start takes minutes, and
    all cores for them. Raises EngineMissingError where none is installed then.
    """
    paced = replace(options, paced=True)
    with _running(demo_engine.vllm_engine(paced)) as engine:
        yield engine


@contextmanager
def running_router(*servers: EmbeddedEngine) -> Iterator[EmbeddedEngine]:
    """Run a vLLM router in front of these servers for as long as the block lasts."""
    with _running(demo_router.vllm_router(*servers)) as router:
        yield router


@contextmanager
def _running(
    server: AbstractAsyncContextManager[EmbeddedEngine],
) -> Iterator[EmbeddedEngine]:
    if os.environ.get("FAIR_SHARE_VLLM") != "1":
        pytest.skip("only with FAIR_SHARE_VLLM=1, see docs/development.md")
    # Servers are started before the fixture that allows the loopback to a test.
    pytest_socket.enable_socket()
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        engine = runner.run(server.__aenter__())
        yield engine
        runner.run(server.__aexit__(None, None, None))
