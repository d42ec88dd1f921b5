"""Measuring a server: what is asked of it, what is written, and what goes wrong."""

import argparse
import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict
import json
from pathlib import Path
import re
import sys
from typing import Any

import pytest

from benchmarks import calibrate
from benchmarks.__main__ import main
from benchmarks.calibrate import Calibration, NotMeasuredError
from benchmarks.simulator.profile import EngineProfile
from tests.fake_replies import Answer
from tests.fake_server import DROP, FakeServer, answer, failure

TICKS = answer(*["tick"] * 80)


@pytest.fixture(autouse=True)
def _loopback(socket_enabled: None) -> None:
    """Let the tests talk to the fake server."""


async def measured(
    fake: FakeServer, *, seconds: float = 60, **given: Any
) -> Calibration:
    arguments = argparse.Namespace(
        server=fake.url,
        key=None,
        model=None,
        streams=None,
        batch=None,
        seconds=seconds,
    )
    vars(arguments).update(given)
    told: list[str] = []
    return await calibrate.calibrate(arguments, told.append)


def prompts(fake: FakeServer) -> list[str]:
    return [chat.body["messages"][0]["content"] for chat in fake.chats]


async def test_prompts_of_all_lengths_and_all_numbers_of_streams_are_measured() -> None:
    async with FakeServer("llama_cpp", slots=3, context_tokens=4096) as fake:
        fake.default = TICKS
        found = await measured(fake)
    lengths = [sample.tokens for sample in found.measured.prefill]
    assert lengths == sorted(lengths)
    assert len(lengths) == 12
    assert lengths[-1] > 20 * lengths[0]
    streams = [sample.streams for sample in found.measured.decode]
    assert streams == [1, 1, 2, 2, 3, 3, 3, 3, 2, 2, 1, 1]
    contexts = [sample.context_tokens for sample in found.measured.decode]
    assert contexts[1] > 5 * contexts[0]
    assert not found.measured.out_of_time


async def test_no_prompt_begins_like_another() -> None:
    async with FakeServer("llama_cpp", slots=2, context_tokens=2048) as fake:
        fake.default = TICKS
        await measured(fake)
        firsts = {prompt[:16] for prompt in prompts(fake)}
        assert len(firsts) == len(fake.chats)
        outputs = [chat.body["max_tokens"] for chat in fake.chats]
        assert min(outputs) == 1
        assert max(outputs) < 2048


async def test_streams_can_be_limited_and_the_batch_be_named() -> None:
    async with FakeServer("llama_cpp", slots=4, context_tokens=2048) as fake:
        fake.default = TICKS
        found = await measured(fake, streams=2, batch=256)
    assert max(sample.streams for sample in found.measured.decode) == 2
    assert found.measured.batch_tokens == 256


async def test_a_server_that_tells_no_slots_is_asked_by_four_at_once() -> None:
    async with FakeServer("someone") as fake:
        fake.default = TICKS
        found = await measured(fake)
        assert not any("ignore_eos" in chat.body for chat in fake.chats)
    assert max(sample.streams for sample in found.measured.decode) == 4


def stuck(*, when: Callable[[int, int], bool]) -> Callable[[Mapping[str, Any]], Answer]:
    """Never begin an answer of so many characters and tokens; write all others."""

    def reply(body: Mapping[str, Any]) -> Answer:
        characters = len(str(body["messages"][0]["content"]))
        never = when(characters, body["max_tokens"])
        return (TICKS, answer(asyncio.Event()))[never]

    return reply


async def test_time_that_runs_out_is_told_with_what_was_measured() -> None:
    async with FakeServer("llama_cpp", slots=2, context_tokens=2048) as fake:
        # Of the answers, only those to short prompts ever begin.
        fake.default = stuck(when=lambda prompt, output: prompt > 2000 and output > 1)
        found = await measured(fake, seconds=4)
    assert found.measured.out_of_time
    assert len(found.measured.prefill) == 12
    assert [sample.streams for sample in found.measured.decode] == [1]


async def test_too_little_time_is_told() -> None:
    async with FakeServer("llama_cpp", slots=2, context_tokens=2048) as fake:
        fake.default = stuck(when=lambda _, output: output == 1)
        with pytest.raises(NotMeasuredError, match="too short for this server"):
            await measured(fake, seconds=2)


async def test_answers_that_end_at_once_give_no_pace() -> None:
    async with FakeServer("llama_cpp", slots=2, context_tokens=2048) as fake:
        fake.default = answer("short")
        with pytest.raises(NotMeasuredError, match="0 sets of answers"):
            await measured(fake)


async def test_a_server_that_works_for_others_is_not_measured() -> None:
    async with FakeServer("llama_cpp", slots=2, context_tokens=2048) as fake:
        fake.script(answer("one", asyncio.Event()))
        other = asyncio.create_task(measured(fake))
        await fake.wait_chats(1)
        with pytest.raises(NotMeasuredError, match="somebody else"):
            await measured(fake)
        other.cancel()


@pytest.mark.parametrize(
    "fault", [failure(500, "CUDA error"), answer("one", DROP)], ids=["500", "cut"]
)
async def test_a_server_that_fails_meanwhile_is_told(fault: Any) -> None:
    async with FakeServer("llama_cpp", slots=2, context_tokens=2048) as fake:
        fake.script(*[TICKS] * 12)
        fake.default = fault
        with pytest.raises(NotMeasuredError, match="failed meanwhile"):
            await measured(fake)


def ran(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "calibrate", *arguments])
    main()


def test_nobody_there_is_one_line_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(SystemExit, match="calibrate: no server to measure"):
        ran(monkeypatch, "--server", "127.0.0.1:9")


@pytest.mark.parametrize("option", ["--streams", "--batch", "--seconds"])
def test_numbers_have_to_be_above_zero(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    with pytest.raises(SystemExit):
        ran(monkeypatch, "--server", "127.0.0.1:9", option, "0")
    assert f"{option} has to be more than 0" in capsys.readouterr().err


@pytest.fixture(name="found")
async def fixture_found() -> Calibration:
    async with FakeServer("llama_cpp", slots=2, context_tokens=2048) as fake:
        fake.default = TICKS
        return await measured(fake)


@pytest.fixture(name="ready")
def fixture_ready(monkeypatch: pytest.MonkeyPatch, found: Calibration) -> Calibration:
    """What the command measures, without measuring again."""

    async def found_before(*_: object) -> Calibration:
        return found

    monkeypatch.setattr(calibrate, "calibrate", found_before)
    return found


def test_the_file_is_what_profile_options_take(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    ready: Calibration,
) -> None:
    out = tmp_path / "profile.json"
    ran(monkeypatch, "--server", "x", "--out", str(out))
    assert EngineProfile.load(out) == ready.fit.profile
    printed = capsys.readouterr().out
    assert re.search(r"measured s +fitted s +error", printed)
    assert "prefill_token_s" in printed


def test_one_json_object_tells_profile_samples_and_errors(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ready: Calibration,
) -> None:
    ran(monkeypatch, "--server", "x", "--json")
    said = json.loads(capsys.readouterr().out)
    assert said["profile"] == asdict(ready.fit.profile)
    assert len(said["prefill"]) == len(ready.measured.prefill)
    assert len(said["decode"]) == len(ready.measured.decode)
    assert said["errors"]["decode_mean"] <= said["errors"]["decode_max"]
    assert said["server"]["slots"] == 2


def test_a_folder_that_is_not_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ready: Calibration
) -> None:
    with pytest.raises(SystemExit, match="No such file"):
        ran(monkeypatch, "--server", "x", "--out", str(tmp_path / "no" / "file"))
