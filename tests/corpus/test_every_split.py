"""Every case, cut in two at every byte, as the engine reads it."""

from collections.abc import Iterable, Iterator
import json

import pytest

from benchmarks.corpus.cases import Case, cases
from custom_components.fair_share.engines.answer_text import AnswerText
from custom_components.fair_share.engines.base import (
    Content,
    Delta,
    EngineError,
    Finish,
    Thinking,
    ToolCallDelta,
    Usage,
)
from custom_components.fair_share.engines.chat_stream import ChatStream
from custom_components.fair_share.engines.open_answer import OpenAnswer
from custom_components.fair_share.engines.tool_calls import ToolCallAssembler

CASES = cases()


def deltas(pieces: Iterable[bytes]) -> Iterator[Delta]:
    """Yield what an engine makes of an answer that comes in these pieces."""
    answer = OpenAnswer()
    answer.begin(AnswerText(starts_inside_think=False, stops=()))
    stream = ChatStream(answer, max_output_tokens=64)
    for piece in pieces:
        yield from stream.feed(piece)
    yield from stream.close()


def arguments_in(said: str) -> object:
    """Return the arguments in a text, ``None`` if it holds none."""
    try:
        return json.loads(said)
    except ValueError:
        return None


def check(case: Case, pieces: Iterable[bytes]) -> None:
    """Compare what comes with what has to."""
    seen: list[Delta] = []
    failed = False
    try:
        seen.extend(deltas(pieces))
    except EngineError:
        failed = True
    calls = ToolCallAssembler()
    for delta in seen:
        if isinstance(delta, ToolCallDelta):
            calls.add(delta)
    assert failed is case.error
    text = "".join(d.text for d in seen if isinstance(d, Content))
    assert text == case.text
    assert "".join(d.text for d in seen if isinstance(d, Thinking)) == case.thinking
    told = [(call.name, call.arguments) for call in calls.calls()]
    assert told == [(name, arguments_in(said)) for name, said in case.calls]
    finishes = [d.reason.value for d in seen if isinstance(d, Finish)]
    assert finishes == ([] if case.error else [case.finish])
    if case.usage is not None:
        (usage,) = (d for d in seen if isinstance(d, Usage))
        assert (usage.prompt_tokens, usage.output_tokens) == case.usage


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_depends_on_where_the_bytes_are_cut(case: Case) -> None:
    check(case, [case.data])
    check(case, [case.data[n : n + 1] for n in range(len(case.data))])
    for at in range(1, len(case.data)):
        check(case, [case.data[:at], case.data[at:]])
