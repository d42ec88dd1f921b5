"""Real vLLMs for the live tests."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
import os

import pytest

from demo import vllm_engine as demo_engine
from demo.embedded_engine import EmbeddedEngine, EngineMissingError
from demo.vllm_engine import VllmOptions

SLOTS = 2
KV_TOKENS = 2240
QUEUED = 8
"""It counts what runs as well."""


@contextmanager
def running_vllm(options: VllmOptions) -> Iterator[EmbeddedEngine]:
    """Run a vLLM for as long as the block lasts.

    Skips the test, and says why, where none is installed. ``FAIR_SHARE_VLLM=0`` skips
    it anyway: a start takes minutes; with ``FAIR_SHARE_VLLM=1`` one has to be there.
    """
    wanted = os.environ.get("FAIR_SHARE_VLLM")
    if wanted == "0":
        pytest.skip("FAIR_SHARE_VLLM=0")
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        running = demo_engine.vllm_engine(options)
        try:
            engine = runner.run(running.__aenter__())
        except EngineMissingError as err:
            if wanted:
                raise
            pytest.skip(f"no vLLM: {err}")
        yield engine
        runner.run(running.__aexit__(None, None, None))
