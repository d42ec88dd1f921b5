"""The benchmarks before real servers, each in one short run."""

import asyncio
import json
import sys
from typing import Any

import pytest

from tests.live.demo_process import require_engine

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

PRINTED = ("--quick", "--threads", "1", "--json")


async def bench(*arguments: str) -> dict[str, Any]:
    """Run one, with a single thread for its engine; return what it printed."""
    require_engine()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "benchmarks", "live", *arguments, *PRINTED),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    result: dict[str, Any] = json.loads(said)
    return result


async def test_the_mixed_load_is_measured_idle_direct_and_queued() -> None:
    result = await bench("household")
    ways = result["slots"]["2"]
    assert ways.keys() == {"idle", "direct", "queued"}
    for way in ways.values():
        assert 0 < way["voice_ttft_p50_s"] <= way["voice_ttft_p95_s"]
        assert way["failed"] == 0
        assert way["voice_commands"] == 3
    assert ways["idle"]["background_tokens_per_s"] == 0
    assert result["shares"].keys() == {"parent", "child"}
    assert result["load_average"] >= 0


async def test_gaps_in_an_answer_are_measured_while_a_long_prompt_enters() -> None:
    result = await bench("prefill")
    for way in ("direct", "sliced"):
        assert 0 < result[way]["gap_p95_ms"] <= result[way]["gap_max_ms"]
        assert result[way]["prefill_s"] > 0


async def test_the_queue_loses_no_answer_that_the_pool_alone_loses() -> None:
    result = await bench("memory")
    assert result["direct"]["answers_lost"] > 0
    assert result["queued"] == result["queued"] | {"answers_lost": 0, "answers": 3}


async def test_answers_outlive_a_server_that_is_started_again() -> None:
    result = await bench("faults", "--fault", "restart")
    assert result.keys() == {"restart_one_server", "restart_two_servers"}
    for row in result.values():
        assert row["streams"] == row["whole"] == 10
        assert row["clear_error"] == row["unclear_error"] == row["hung"] == 0
        assert row["leaked_slots"] == row["wrong_accounts"] == 0


async def test_without_a_vllm_the_message_is_clear() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "benchmarks", "live", "vllm", "--server", "http://127.0.0.1:9"),
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 1
    assert b"no vLLM answers at http://127.0.0.1:9" in said
    assert b"Traceback" not in said
