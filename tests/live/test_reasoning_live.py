"""Interrupting an answer inside and after its reasoning, on a real llama.cpp server.

The small model does not reason: a grammar, given the rest of a fixed answer in each
run, stands in for that. The template is in the form of models that do.
"""

from collections.abc import AsyncIterator
import json
from pathlib import Path

import aiohttp
import pytest

from custom_components.fair_share.engines.base import (
    Content,
    Delta,
    Engine,
    EngineKind,
    InterruptedAnswer,
    Resume,
    ResumeWay,
    Thinking,
)
from custom_components.fair_share.engines.open_answer import OpenAnswer
from custom_components.fair_share.engines.probe import create_engine
from demo.embedded_engine import EngineMissingError, embedded_engine
from tests.engines.helpers import ask, text_of, thoughts_of, usages_of

pytestmark = pytest.mark.live

REASONING = "I think about it for a while, and then some more.\n"
TEXT = "The answer is four 🙂, and that is all."
TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.role == 'assistant' and message.reasoning_content is string %}
{{- '<think>\\n' + message.reasoning_content.strip('\\n') + '\\n</think>\\n\\n' }}
{%- endif %}
{{- message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""


@pytest.fixture
async def engine(tmp_path: Path, socket_enabled: None) -> AsyncIterator[Engine]:
    """A real server whose template knows reasoning."""
    file = tmp_path / "template.jinja"
    file.write_text(TEMPLATE, "utf-8")
    try:
        async with (
            embedded_engine(slots=1, context_tokens=1024, template=file) as server,
            aiohttp.ClientSession() as session,
        ):
            engine = create_engine(session, server.url, None, EngineKind.LLAMA_CPP)
            await engine.probe()
            yield engine
    except EngineMissingError as err:
        pytest.skip(f"no engine: {err}")


def rest_of(answer: OpenAnswer) -> str:
    """Return a grammar for what is still to be written."""
    whole = f"<think>\n{REASONING}</think>\n\n{TEXT}"
    begun = f"<think>\n{answer.text.thought}" if answer.text.thought else ""
    if answer.text.received:
        begun = f"<think>\n{REASONING}</think>\n\n{answer.text.received}"
    assert whole.startswith(begun)
    return f"root ::= {json.dumps(whole[len(begun) :], ensure_ascii=False)}"


async def run(engine: Engine, answer: OpenAnswer, pieces: int) -> list[Delta]:
    """Read on, and leave after so many pieces; return what came."""
    request = ask("2 + 2?", 80, parameters={"grammar": rest_of(answer)})
    seen: list[Delta] = []
    try:
        async with engine.stream(request, answer) as deltas:
            async for delta in deltas:
                seen.append(delta)
                if sum(isinstance(d, Thinking | Content) for d in seen) >= pieces:
                    answer.interrupt()
    except InterruptedAnswer:
        answer.left()
    return seen


async def test_an_answer_goes_on_inside_and_after_its_reasoning(engine: Engine) -> None:
    assert (await engine.probe()).resume == Resume(ResumeWay.CONTINUE, reasoning=True)
    for pieces in range(1, 26, 3):
        answer = OpenAnswer()
        seen = [d for _ in range(2) for d in await run(engine, answer, pieces)]
        seen += await run(engine, answer, 1000)
        assert (thoughts_of(seen), text_of(seen)) == (REASONING, TEXT), pieces
        assert usages_of(seen)[0].cached_tokens > 0
