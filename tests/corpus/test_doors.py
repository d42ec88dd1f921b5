"""Every case through the gateway and the agent of a household."""

import asyncio
import json
from pathlib import Path
import sys

from benchmarks.corpus.cases import cases

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "stream-corpus.md"


async def test_every_case_is_ok_at_both_doors() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks", "corpus", "--json"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    said, _ = await process.communicate()
    told = json.loads(said)["cases"]
    assert told.keys() == {case.name for case in cases()}
    assert {
        name: each for name, each in told.items() if set(each.values()) != {"ok"}
    } == {}
    assert process.returncode == 0


def test_the_page_lists_every_case() -> None:
    page = PAGE.read_text()
    for case in cases():
        assert f"|{case.name.replace('_', ' ')}|{case.about}|{case.source}|" in page
