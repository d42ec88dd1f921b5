"""A short run of hostile clients and servers with the gateway between them."""

import asyncio
import json
import sys


async def test_nothing_hostile_gets_through_or_stays() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks", "fuzz", "--requests", "3000", "--json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    said, _ = await process.communicate()
    result = json.loads(said)
    assert result["wrong"] == []
    assert result["requests"] == 3000
    assert result["good"] > 50
    assert {"200", "400", "401", "404", "405", "502"} <= result["statuses"].keys()
    assert process.returncode == 0
