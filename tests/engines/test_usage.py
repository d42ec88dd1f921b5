"""Counts that a server gets wrong, and answers that do not end."""

import asyncio
import json
from typing import Any

import pytest

from custom_components.fair_share.engines.base import (
    Delta,
    Engine,
    Finish,
    FinishReason,
    PromptProgress,
    Usage,
)
from custom_components.fair_share.engines.chat_stream import ChatStream
from tests.engines.helpers import ask, deltas_of, text_of, tokens_of, usages_of
from tests.fake_server import DONE, FakeServer, chunk, event, raw, usage_chunk

HI = chunk({"content": "hi"})
FINISH = chunk({}, "stop")
BEGUN = PromptProgress(0, 0, 0)


def read(*pieces: str, limit: int = 50) -> list[Delta]:
    """Return the deltas of an answer that may be so many tokens long."""
    chat = ChatStream(max_output_tokens=limit)
    deltas = [delta for piece in pieces for delta in chat.feed(piece.encode())]
    return [*deltas, *chat.close()]


def told(**counts: Any) -> str:
    """Return the chunk with a usage of these counts."""
    return event({"choices": [], "usage": counts})


def test_of_a_prompt_no_more_than_all_came_from_the_cache() -> None:
    assert usages_of(read(HI, FINISH, usage_chunk(10, 1, 500))) == [Usage(10, 10, 1)]


@pytest.mark.parametrize("number", [-5, None, "12", True, 1.5, float("nan"), 10**12])
def test_a_prompt_that_is_no_number_counts_as_not_told(number: object) -> None:
    usage = told(prompt_tokens=number, completion_tokens=1)
    assert usages_of(read(HI, FINISH, usage)) == [Usage(None, 0, 1, estimated=True)]


@pytest.mark.parametrize("number", [-5, 0, "12", 1.5, 10**8, float("inf"), [3]])
def test_an_output_that_cannot_be_counts_as_not_told(number: object) -> None:
    usage = told(prompt_tokens=9, completion_tokens=number)
    deltas = read(usage, HI, HI, FINISH, usage)
    assert usages_of(deltas) == [Usage(9, 0, 2, estimated=True)]
    assert tokens_of(deltas) == 2


def test_an_answer_without_any_output_has_no_tokens() -> None:
    assert usages_of(read(FINISH, told(prompt_tokens=9))) == [Usage(9, 0, 0)]


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        ({"total": 5, "cache": 99, "processed": 5}, PromptProgress(5, 5, 5)),
        ({"total": 9, "cache": 4, "processed": 2}, PromptProgress(9, 4, 4)),
        ({"total": 9, "cache": -4, "processed": 99}, PromptProgress(9, 0, 9)),
        ({"total": "x", "cache": None, "processed": []}, BEGUN),
    ],
)
def test_a_progress_stays_between_the_cache_and_the_whole(
    progress: dict[str, Any], expected: PromptProgress
) -> None:
    deltas = read(chunk({}, prompt_progress=progress), HI, FINISH)
    assert deltas[0] == expected


@pytest.mark.parametrize(
    "piece",
    [
        {"content": "x"},
        {"reasoning_content": "x"},
        {"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]},
    ],
)
def test_an_answer_that_goes_on_past_its_limit_is_ended(piece: dict[str, Any]) -> None:
    deltas = read(*[chunk(piece)] * 100, limit=20)
    assert deltas[-1] == Finish(FinishReason.LENGTH)
    assert tokens_of(deltas) == 20 + 16 + 1


def test_an_answer_a_little_past_its_limit_is_whole() -> None:
    deltas = read(*[HI] * 30, FINISH, limit=20)
    assert deltas[-1] == Finish(FinishReason.STOP)
    assert text_of(deltas) == "hi" * 30


async def test_the_connection_of_an_answer_past_its_limit_is_closed(
    any_engine: Engine, any_server: FakeServer
) -> None:
    any_server.script(raw(HI * 60, asyncio.Event()))
    deltas = await deltas_of(any_engine, ask(tokens=20))
    assert deltas[-1] == Finish(FinishReason.LENGTH)
    await any_server.chats[-1].wait_ended()
    assert any_server.running == 0


@pytest.mark.parametrize(
    "empty",
    [
        chunk({"content": ""}),
        chunk({"role": "assistant", "content": None}),
        chunk({"content": ""}, usage={"prompt_tokens": 9, "completion_tokens": 0}),
        event({"choices": []}),
        event(json.dumps({"prompt_progress": 5})),
    ],
)
def test_chunks_without_output_are_no_news(empty: str) -> None:
    chat = ChatStream()
    assert [*chat.feed(empty.encode())] == []
    assert (chat.news, chat.started) == (0, False)


@pytest.mark.parametrize(
    "piece",
    [
        HI,
        chunk({"reasoning": "x"}),
        chunk({}, "stop"),
        chunk({}, timings={"predicted_n": 1}),
        chunk({}, prompt_progress={"total": 9, "cache": 0, "processed": 3}),
    ],
)
def test_output_progress_and_the_end_are_news(piece: str) -> None:
    chat = ChatStream()
    list(chat.feed(piece.encode()))
    assert chat.news > 0


def test_a_progress_that_stands_still_is_no_news() -> None:
    chat = ChatStream()
    step = chunk({}, prompt_progress={"total": 9, "cache": 0, "processed": 3})
    list(chat.feed(step.encode()))
    before = chat.news
    list(chat.feed(step.encode()))
    assert chat.news == before


def test_the_usage_of_every_chunk_is_believed_while_it_can_be() -> None:
    growing = [
        chunk({"content": "x"}, usage={"prompt_tokens": 9, "completion_tokens": n})
        for n in (2, 5, 10**9, 7)
    ]
    deltas = read(*growing, FINISH, DONE)
    assert usages_of(deltas) == [Usage(9, 0, 7)]
    assert tokens_of(deltas) == 7
