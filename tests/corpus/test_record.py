"""Recording what a server sends as a case."""

import argparse
import asyncio
from typing import Any

import pytest

from benchmarks.corpus.cases import FOLDER
from benchmarks.corpus.record import RecordError, record
from tests.fake_server import DROP, Call, FakeServer, Reply, Thought, answer, failure


@pytest.fixture(autouse=True)
def _loopback(socket_enabled: None) -> None:
    """Let the fake server be reached."""


async def recorded(reply: Reply, kind: str = "plain") -> dict[str, Any]:
    """Return the case that is made of a reply."""
    async with FakeServer("llama_cpp", models=["/home/somebody/m.gguf"]) as server:
        server.default = reply
        return await record(
            argparse.Namespace(
                kind=kind, name="a", url=server.url, pid=None, about=None, folder=FOLDER
            )
        )


async def test_a_whole_answer_is_kept_as_it_came() -> None:
    case = await recorded(
        answer(Thought("hm"), "Grü", "ße 🙂", Call("light", {"name": "Küche"}))
    )
    text = "".join(case["chunks"])
    assert text.startswith("data: {")
    assert text.endswith("data: [DONE]\n\n")
    assert "somebody" not in text
    expected = case["expect"]
    assert (expected["thinking"], expected["text"]) == ("hm", "Grüße 🙂")
    assert expected["calls"] == [["light", '{"name": "Küche"}']]
    assert (expected["error"], expected["finish"]) == (False, "tool_calls")
    assert expected["usage"][1] == 4
    assert (case["end"], case["source"][:22]) == ("close", "recorded from llama.cp")


async def test_an_answer_that_breaks_off_is_an_error() -> None:
    case = await recorded(answer("one", " two", DROP))
    assert case["end"] == "drop"
    assert case["expect"] == {
        "text": "one two",
        "thinking": "",
        "calls": [],
        "finish": None,
        "error": True,
        "usage": None,
    }


async def test_what_was_not_to_be_seen_is_not_recorded() -> None:
    with pytest.raises(RecordError, match="status 503"):
        await recorded(failure(503, "Loading model", "unavailable_error"))
    with pytest.raises(RecordError, match="no answer ended with an error"):
        await recorded(answer("fine"), "error")
    with pytest.raises(RecordError, match="whole before"):
        await asyncio.wait_for(recorded(answer("fine"), "cut"), 30)
