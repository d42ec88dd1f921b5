"""Interrupting an answer after its reasoning, on a real vLLM with a reasoning parser.

The model has random weights: a grammar, given the rest of a fixed answer in each run,
stands in for one that reasons. The template is in the form of models that do.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
import re
from typing import Any

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
from demo.embedded_engine import EmbeddedEngine
from demo.vllm_engine import VllmOptions
from tests.engines.helpers import ask, text_of, thoughts_of, tokens_of, usages_of
from tests.live.test_reasoning_live import REASONING, TEMPLATE, TEXT
from tests.live.vllm_fixtures import running_vllm

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1000)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEngine]:
    """A real vLLM whose template knows reasoning."""
    file: Path = tmp_path_factory.mktemp("vllm") / "template.jinja"
    file.write_text(TEMPLATE, "utf-8")
    with running_vllm(VllmOptions(reasoning=True, template=file)) as engine:
        yield engine


@pytest.fixture
async def engine(server: EmbeddedEngine, socket_enabled: None) -> AsyncIterator[Engine]:
    async with aiohttp.ClientSession() as session:
        engine = create_engine(session, server.url, None, EngineKind.VLLM)
        await engine.probe()
        yield engine


async def tags(server: EmbeddedEngine) -> list[str]:
    """Return the tokens that begin and end a block of reasoning."""
    body = {"model": "tiny", "prompt": "<think></think>", "add_special_tokens": False}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.url}/tokenize", json=body) as response,
    ):
        opening, closing = (await response.json())["tokens"]
    return [str(opening), str(closing)]


def rest_of(received: str) -> str:
    """Return a regular expression for what is still to be written."""
    whole = TEXT if received else f"<think>\n{REASONING}</think>{TEXT}"
    assert whole.startswith(received)
    return re.escape(whole[len(received) :]).replace(r"\ ", " ").replace("\\\n", "\n")


async def run(
    engine: Engine, server: EmbeddedEngine, answer: OpenAnswer, pieces: int
) -> list[Delta]:
    """Read on, and leave after so many pieces; return what came."""
    parameters: dict[str, Any] = {
        "structured_outputs": {"regex": rest_of(answer.text.received)},
        # The tags could also be spelled with several tokens, which no model does.
        "logit_bias": dict.fromkeys(await tags(server), 100),
        "temperature": 0,
    }
    seen: list[Delta] = []
    try:
        async with engine.stream(
            ask("2 + 2?", 120, parameters=parameters), answer
        ) as deltas:
            async for delta in deltas:
                seen.append(delta)
                if sum(isinstance(d, Thinking | Content) for d in seen) >= pieces:
                    answer.interrupt()
    except InterruptedAnswer:
        answer.left()
    return seen


async def rest(
    engine: Engine, server: EmbeddedEngine, answer: OpenAnswer, first: list[Delta]
) -> list[Delta]:
    """Go on with an answer that was left; return what came."""
    return [] if usages_of(first) else await run(engine, server, answer, 10_000)


async def test_reasoning_is_told_apart_and_counted(
    engine: Engine, server: EmbeddedEngine
) -> None:
    seen = await run(engine, server, OpenAnswer(), 10_000)
    assert (thoughts_of(seen).strip(), text_of(seen)) == (REASONING.strip(), TEXT)
    (usage,) = usages_of(seen)
    # The tags, and the token that ends the answer, have no text.
    assert usage.output_tokens - 4 <= tokens_of(seen) <= usage.output_tokens


async def test_an_answer_goes_on_after_its_reasoning_and_is_not_left_inside(
    engine: Engine, server: EmbeddedEngine
) -> None:
    resume = Resume(ResumeWay.CONTINUE, after_reasoning=True)
    assert (await engine.probe()).resume == resume
    runs = []
    for pieces in range(1, 60, 4):
        answer = OpenAnswer()
        first = await run(engine, server, answer, pieces)
        runs.append(first)
        seen = first + await rest(engine, server, answer, first)
        told = (thoughts_of(seen).strip(), text_of(seen))
        assert told == (REASONING.strip(), TEXT), pieces
        assert thoughts_of(first) == thoughts_of(seen), "left inside"
    left = [first for first in runs if not usages_of(first)]
    assert len({text_of(first) for first in left}) > 3


async def test_inside_reasoning_the_template_would_close_the_block(
    server: EmbeddedEngine, socket_enabled: None
) -> None:
    begun = {"role": "assistant", "content": "", "reasoning": "I think"}
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "2 + 2?"}, begun],
        "continue_final_message": True,
        "add_generation_prompt": False,
    }
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{server.url}/tokenize", json=body) as response:
            tokens = (await response.json())["tokens"]
        shown = {"model": "tiny", "tokens": tokens}
        async with session.post(f"{server.url}/detokenize", json=shown) as response:
            prompt = (await response.json())["prompt"]
    assert "I think" in prompt
    assert prompt.strip().endswith("</think>")
