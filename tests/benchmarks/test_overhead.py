"""The fake engine and the ways to it whose cost is compared."""

import asyncio
import json
import os
import sys

import aiohttp
import pytest

from benchmarks.__main__ import main
from benchmarks.overhead.fake_engine import FAST, PACED, fake_engine
from benchmarks.overhead.ways import HttpWay, cpu_of
from custom_components.fair_share.engines.base import (
    Content,
    EngineKind,
    Finish,
    GenerationRequest,
    PromptProgress,
    Usage,
)
from custom_components.fair_share.engines.probe import find_server


@pytest.fixture(autouse=True)
def _loopback(socket_enabled: None) -> None:
    """Let the tests talk to the fake engine."""


async def test_an_answer_is_as_long_as_asked_at_every_pace() -> None:
    async with fake_engine() as engine, aiohttp.ClientSession() as session:
        for keep in (True, False):
            way = HttpWay(session, engine.url, keep=keep)
            answers = [await way.stream(model, 5) for model in (FAST, PACED)]
            assert [answer.tokens for answer in answers] == [5, 5]
            assert all(answer.ttft_s > 0 for answer in answers)


async def test_it_answers_as_llama_cpp_does() -> None:
    async with fake_engine() as engine, aiohttp.ClientSession() as session:
        found = await find_server(session, engine.url)
        assert found.engine.kind is EngineKind.LLAMA_CPP
        assert found.capabilities.counts_tokens
        request = GenerationRequest([{"role": "user", "content": "Hi"}], 4, model=FAST)
        async with found.engine.stream(request) as opened:
            deltas = [delta async for delta in opened]
    (usage,) = (delta for delta in deltas if isinstance(delta, Usage))
    assert usage.output_tokens == 4
    assert any(isinstance(delta, PromptProgress) for delta in deltas)
    assert sum(delta.tokens for delta in deltas if isinstance(delta, Content)) == 4
    assert isinstance(deltas[-1], Finish)


async def test_cpu_time_of_another_process_only_grows() -> None:
    async with fake_engine() as engine, aiohttp.ClientSession() as session:
        before = cpu_of(engine.pid)
        # Systems count in ticks of 10 ms, some of them only what runs as a tick ends.
        async with asyncio.timeout(60):
            while cpu_of(engine.pid) <= before:
                await HttpWay(session, engine.url).stream(FAST, 5000)
    assert cpu_of(os.getpid()) > 0


async def test_every_way_is_printed_for_machines() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "benchmarks", "overhead", "--quick", "--without-litellm", "--json"),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    result = json.loads(said)
    assert process.returncode == 0
    for way in ("direct", "direct_new_connection", "ours"):
        for streams in ("1", "50"):
            row = result[way][streams]
            assert 0 < row["ttft_p50_ms"] <= row["ttft_p95_ms"]
            assert row["tokens_per_s"] > 0
            assert row["cpu_us_per_token"] > 0


def test_no_runs_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "overhead", "--runs", "0"])
    with pytest.raises(SystemExit):
        main()
    assert "--runs is at least 1" in capsys.readouterr().err
