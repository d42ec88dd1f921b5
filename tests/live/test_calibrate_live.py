"""A short calibration of a real server."""

import argparse

import pytest

from benchmarks.calibrate import calibrate
from benchmarks.simulator.fit import largest_error
from demo.embedded_engine import EmbeddedEngine

pytestmark = pytest.mark.live


async def test_a_real_server_is_measured_within_its_time(
    socket_enabled: None, embedded_engine: EmbeddedEngine
) -> None:
    arguments = argparse.Namespace(
        server=embedded_engine.url,
        key=None,
        model=None,
        streams=None,
        batch=None,
        seconds=30.0,
    )
    found = await calibrate(arguments, lambda _: None)
    assert found.took_s < 40
    assert found.streams == 2
    # The engine of the tests reads prompts in batches of 128 tokens.
    assert found.measured.batch_tokens in (None, 128)
    assert {sample.streams for sample in found.measured.decode} == {1, 2}
    profile = found.fit.profile
    assert profile.step_s(prefill_tokens=100, decoding=0, context_tokens=0) > 0
    assert profile.step_s(prefill_tokens=0, decoding=1, context_tokens=100) > 0
    # A machine that does other work meanwhile is no reason to fail.
    assert largest_error(found.fit.decode) < 5
