"""Real engines for the live tests."""

import asyncio
from collections.abc import Iterator

import pytest

from demo import embedded_engine as demo_engine
from demo.embedded_engine import EmbeddedEngine, EngineMissingError
from demo.vllm_engine import VllmOptions
from tests.live.vllm_fixtures import KV_TOKENS, QUEUED, SLOTS, running_vllm


@pytest.fixture(scope="session")
def embedded_engine() -> Iterator[EmbeddedEngine]:
    """A real llama.cpp server with two slots of 2048 tokens, for the whole session.

    Skips the test, and says why, where no engine can be had.
    """
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        running = demo_engine.embedded_engine(slots=2, context_tokens=4096)
        try:
            engine = runner.run(running.__aenter__())
        except EngineMissingError as err:
            pytest.skip(f"no engine: {err}")
        yield engine
        runner.run(running.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def vllm_server() -> Iterator[EmbeddedEngine]:
    """A real vLLM that serves by priority, for the whole session.

    Skips the test, and says why, where none is installed.
    """
    options = VllmOptions(
        slots=SLOTS, kv_tokens=KV_TOKENS, priority=True, queued=QUEUED
    )
    with running_vllm(options) as engine:
        yield engine
