"""Chunks of a chat completion as typed deltas, cut at every byte."""

import json
from typing import Any

import pytest

from custom_components.fair_share.engines.base import (
    Content,
    ContextOverflowError,
    Delta,
    Finish,
    FinishReason,
    PromptProgress,
    ServerFaultError,
    StreamCutError,
    Thinking,
    ToolCallDelta,
    Usage,
)
from custom_components.fair_share.engines.chat_stream import ChatStream
from tests.engines.helpers import finishes_of, text_of, tokens_of, usages_of
from tests.fake_server import DONE, chunk, event, usage, usage_chunk


def read(*pieces: bytes | str) -> list[Delta]:
    """Return the deltas of a stream that ends after these pieces."""
    chat = ChatStream()
    deltas: list[Delta] = []
    for piece in pieces:
        deltas += chat.feed(piece.encode() if isinstance(piece, str) else piece)
    return [*deltas, *chat.close()]


def call(index: int, arguments: str, **head: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **head.pop("function", {})}
    return {"tool_calls": [{"index": index, "function": function, **head}]}


LLAMA_CPP = (
    chunk(
        {"role": "assistant", "content": None},
        prompt_progress={"total": 9, "cache": 4, "processed": 9},
    )
    + chunk({"role": "assistant", "content": None})
    + chunk({"reasoning_content": "hm"}, timings={"predicted_n": 1})
    + ":\n\n"
    + chunk({"content": "Tere õhtust 🙂"}, timings={"predicted_n": 6})
    + "event: ping\ndata: {}\n\n"
    + chunk({}, "stop")
    + usage_chunk(9, 7, 4, timings={"cache_n": 4, "prompt_n": 5, "predicted_n": 7})
    + DONE
)
LLAMA_CPP_DELTAS = [
    PromptProgress(9, 4, 9),
    Thinking("hm", 1),
    Content("Tere õhtust 🙂", 5),
    Usage(9, 4, 7),
    Finish(FinishReason.STOP),
]
VLLM = (
    chunk({"role": "assistant", "content": ""}, usage=usage(30, 0))
    + chunk({"reasoning": "hm"}, usage=usage(30, 2))
    + chunk({"content": "안녕"}, usage=usage(30, 5))
    + chunk(
        call(0, "", id="a", type="function", function={"name": "on"}),
        usage=usage(30, 8),
    )
    + chunk(call(0, '{"name":"lamp"}'), "tool_calls", usage=usage(30, 11))
    + usage_chunk(30, 12, 16)
    + DONE
).replace("\n", "\r\n")
VLLM_DELTAS = [
    Thinking("hm", 2),
    Content("안녕", 3),
    ToolCallDelta(0, "a", "on", "", 3),
    ToolCallDelta(0, None, None, '{"name":"lamp"}', 3),
    Usage(30, 16, 12),
    Finish(FinishReason.TOOL_CALLS),
]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [(LLAMA_CPP, LLAMA_CPP_DELTAS), (VLLM, VLLM_DELTAS)],
    ids=["llama.cpp", "vllm"],
)
def test_a_cut_at_any_byte_changes_nothing(stream: str, expected: list[Delta]) -> None:
    data = stream.encode()
    assert read(data) == expected
    for cut in range(len(data)):
        assert read(data[:cut], data[cut:]) == expected
    assert read(*(data[n : n + 1] for n in range(len(data)))) == expected


HI = chunk({"role": "assistant"}) + chunk({"content": "hi"})
FINISH = chunk({}, "stop")


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(HI + FINISH + usage_chunk(3, 1) + DONE, id="usage last"),
        pytest.param(usage_chunk(3, 1) + HI + FINISH + DONE, id="usage first"),
        pytest.param(
            usage_chunk(3, 1) + HI + FINISH + usage_chunk(3, 1) + DONE, id="twice"
        ),
        pytest.param(
            HI + chunk({}, "stop", usage=usage(3, 1)) + DONE, id="with the finish"
        ),
        pytest.param(
            HI + chunk({}, "stop", usage=None) + usage_chunk(3, 1) + DONE, id="null"
        ),
        pytest.param(HI + FINISH + usage_chunk(3, 1), id="no [DONE]"),
        pytest.param(HI + usage_chunk(3, 1) + DONE, id="no finish reason"),
        pytest.param(
            HI + FINISH + usage_chunk(3, 1) + DONE + HI, id="more after [DONE]"
        ),
        pytest.param(
            HI + FINISH + usage_chunk(3, 1) + DONE + "data: x", id="a rest after [DONE]"
        ),
        pytest.param(
            HI + FINISH + usage_chunk(3, 1) + 'data: {"err', id="torn after the end"
        ),
    ],
)
def test_usage_and_finish_come_once_wherever_the_server_puts_them(stream: str) -> None:
    deltas = read(stream)
    assert text_of(deltas) == "hi"
    assert deltas[-2:] == [Usage(3, 0, 1), Finish(FinishReason.STOP)]
    assert len(usages_of(deltas)) == len(finishes_of(deltas)) == 1


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("function_call", FinishReason.TOOL_CALLS),
        ("eos_token", FinishReason.STOP),
    ],
)
def test_finish_reasons_have_one_meaning(reason: str, expected: FinishReason) -> None:
    assert read(HI, chunk({}, reason))[-1] == Finish(expected)


def test_a_stop_after_tool_calls_means_tool_calls() -> None:
    deltas = read(chunk(call(0, "{}", id="a", function={"name": "on"})), FINISH)
    assert deltas[-1] == Finish(FinishReason.TOOL_CALLS)


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_answer_that_the_server_aborted_is_not_complete(reason: str) -> None:
    with pytest.raises(StreamCutError, match=reason):
        read(HI, chunk({}, reason))


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(event({"choices": [{"index": 0}]}), id="no delta"),
        pytest.param(
            event({"choices": [{"index": 0, "delta": None}]}), id="delta null"
        ),
        pytest.param(event({"choices": None}), id="choices null"),
        pytest.param(event({"choices": ["x"]}), id="a choice that is no object"),
        pytest.param(event({"choices": [{"index": [], "delta": 3}]}), id="odd types"),
        pytest.param(chunk({"content": None, "tool_calls": None}), id="all null"),
        pytest.param(chunk({"content": 3, "tool_calls": [None, 3]}), id="wrong types"),
        pytest.param(event("[]"), id="a list"),
        pytest.param(event("ping"), id="a word"),
        pytest.param(event("{}"), id="an empty object"),
        pytest.param("data:\n\n", id="empty data"),
        pytest.param(
            event(
                {
                    "choices": [
                        {
                            "index": 1,
                            "delta": {"content": "no"},
                            "finish_reason": "length",
                        }
                    ]
                }
            ),
            id="another choice",
        ),
    ],
)
def test_odd_chunks_are_passed_over(odd: str) -> None:
    deltas = read(odd, HI, odd, FINISH, odd, usage_chunk(3, 1), DONE)
    assert deltas == [Content("hi", 1), Usage(3, 0, 1), Finish(FinishReason.STOP)]


@pytest.mark.parametrize(
    ("stream", "detail"),
    [
        ('error: {"code": 500, "message": "Compute error"}\n\n', "Compute error"),
        ('event: error\ndata: {"message": "Compute error"}\n\n', "Compute error"),
        (
            'event: error\ndata: {"error": {"message": "Compute error"}}\n\n',
            "Compute error",
        ),
        ("event: error\ndata: Compute error\n\n", "Compute error"),
    ],
)
def test_an_event_that_is_named_an_error_is_one(stream: str, detail: str) -> None:
    with pytest.raises(ServerFaultError, match=detail):
        read(HI, stream)


def test_an_overflow_told_in_a_line_of_its_own_is_an_overflow() -> None:
    error = {"code": 400, "message": "too long", "type": "exceed_context_size_error"}
    with pytest.raises(ContextOverflowError):
        read(HI, f"error: {json.dumps(error)}\n\n")


def test_an_error_after_the_end_changes_nothing() -> None:
    assert text_of(read(HI, FINISH, "event: error\ndata: late\n\n")) == "hi"


PARTS = [
    {"type": "thinking", "thinking": [{"type": "text", "text": "h"}, 3]},
    {"type": "thinking", "thinking": "m"},
    {"type": "text", "text": "hel"},
    "odd",
    {"type": "text", "text": "lo"},
    {"type": "text", "text": None},
]


def test_text_and_thought_may_come_in_parts() -> None:
    deltas = read(chunk({"content": PARTS}), FINISH)
    assert deltas[:2] == [Thinking("hm", 1), Content("hello", 0)]


def test_a_message_in_the_place_of_a_delta_is_read() -> None:
    choice = {"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}
    assert text_of(read(event({"choices": [choice]}), DONE)) == "hi"


def test_a_message_beside_a_delta_is_not_said_again() -> None:
    choice = {"index": 0, "delta": {"content": "hi"}, "message": {"content": "hi"}}
    assert text_of(read(event({"choices": [choice]}), FINISH)) == "hi"


def test_a_chunk_that_is_not_whole_is_not_passed_over() -> None:
    with pytest.raises(StreamCutError, match="not whole"):
        read(HI, event('{"choices": [{"del'), FINISH, DONE)


def test_halves_of_a_character_escaped_in_two_chunks_are_joined() -> None:
    stream = event('{"choices":[{"delta":{"content":"a\\ud83d"}}]}')
    stream += event('{"choices":[{"delta":{"content":"\\ude42b"}}]}')
    assert text_of(read(stream, FINISH)) == "a🙂b"


def test_half_a_character_never_makes_text_that_cannot_be_encoded() -> None:
    stream = event('{"choices":[{"delta":{"content":"\\ude42b\\ud83dc"}}]}')
    assert text_of(read(stream, FINISH)).encode().decode() == "\ufffdb\ufffdc"


def test_an_emoji_at_the_limit_of_the_stream_is_whole() -> None:
    text = "".join(text_of(read(chunk({"content": c}), FINISH)) for c in "õ한🙂")
    assert text == "õ한🙂"


def test_without_usage_the_timings_count() -> None:
    timings = {"cache_n": 20, "prompt_n": 5, "predicted_n": 9}
    deltas = read(HI, chunk({}, "stop", timings=timings), DONE)
    assert deltas[-2] == Usage(25, 20, 9)


def test_without_any_count_the_pieces_are_counted_and_called_an_estimate() -> None:
    deltas = read(HI, chunk({"content": "!"}), FINISH, DONE)
    assert deltas[-2] == Usage(None, 0, 2, estimated=True)


def test_without_usage_the_progress_tells_the_prompt() -> None:
    progress = chunk({}, prompt_progress={"total": 40, "cache": 8, "processed": 40})
    deltas = read(progress, HI, FINISH, DONE)
    assert deltas[-2] == Usage(40, 8, 1, estimated=True)


def test_cached_tokens_come_from_the_progress_where_nothing_else_tells() -> None:
    progress = chunk({}, prompt_progress={"total": 30, "cache": 8, "processed": 30})
    bare = event(
        {"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 1}}
    )
    assert read(progress, HI, FINISH, bare, DONE)[-2] == Usage(30, 8, 1)


def test_cached_tokens_come_from_the_timings_where_the_usage_has_none() -> None:
    bare = {"prompt_tokens": 30, "completion_tokens": 1, "prompt_tokens_details": None}
    last = event({"choices": [], "usage": bare, "timings": {"cache_n": 20}})
    assert read(HI, FINISH, last, DONE)[-2] == Usage(30, 20, 1)


def test_text_and_thought_in_one_chunk_are_charged_once() -> None:
    deltas = read(chunk({"reasoning": "a", "content": "b"}), FINISH)
    assert tokens_of(deltas) == 1


def test_reasoning_sent_under_both_names_is_one_thought() -> None:
    deltas = read(chunk({"reasoning": "a", "reasoning_content": "a"}), FINISH)
    assert deltas[0] == Thinking("a", 1)
    assert tokens_of(deltas) == 1
