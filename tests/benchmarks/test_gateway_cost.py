"""A short run of what the gateway costs."""

import asyncio
import json
import sys

import pytest

from benchmarks.__main__ import main


async def test_both_ways_are_measured_with_one_and_many_streams() -> None:
    command = ("gateway", "--quick", "--without-litellm", "--json")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks", *command),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    said, _ = await process.communicate()
    result = json.loads(said)
    assert process.returncode == 0
    for way in ("direct", "ours"):
        assert result[way].keys() == {"1", "50", "500"}
        for row in result[way].values():
            assert 0 < row["ttft_p50_ms"] <= row["ttft_p95_ms"]
            assert row["tokens_per_s"] > 0
            assert row["rss_mb"] > 1
            assert row["failed"] == 0
            assert (row["loop_delay_p99_ms"] is None) is (way == "direct")


def test_no_runs_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "gateway", "--runs", "0"])
    with pytest.raises(SystemExit):
        main()
    assert "--runs is at least 1" in capsys.readouterr().err
