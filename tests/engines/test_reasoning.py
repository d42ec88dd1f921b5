"""Answers that begin inside a block of reasoning, over HTTP."""

from custom_components.fair_share.engines.base import Content, Engine, WasThinking
from tests.engines.helpers import deltas_of, text_of, thoughts_of
from tests.fake_server import FakeServer, Thought, answer, failure


async def test_where_the_prompt_opens_the_block_nothing_of_it_is_ever_content(
    llama: Engine, llama_server: FakeServer
) -> None:
    llama_server.prompt_end = " <think>\n"
    await llama.probe()
    llama_server.script(answer("hm", "</think>", "yes"))
    deltas = await deltas_of(llama)
    assert (text_of(deltas), thoughts_of(deltas)) == ("yes", "hm")
    assert WasThinking() not in deltas


async def test_a_server_that_separates_what_its_prompt_opened_is_not_held_back(
    llama: Engine, llama_server: FakeServer
) -> None:
    llama_server.prompt_end = " <think>\n"
    await llama.probe()
    llama_server.script(answer(Thought("hm"), "at", " once"))
    deltas = await deltas_of(llama)
    assert [d for d in deltas if isinstance(d, Content)] == [
        Content("at", 1),
        Content(" once", 1),
    ]


async def test_a_prompt_that_cannot_be_seen_is_looked_for_again(
    llama: Engine, llama_server: FakeServer
) -> None:
    path = "/apply-template"
    llama_server.prompt_end = " <think>\n"
    llama_server.override[path] = failure(404, "no such path", "not_found_error")
    await llama.probe()
    del llama_server.override[path]
    await llama.probe()
    llama_server.script(answer("hm", "</think>", "yes"))
    assert WasThinking() not in await deltas_of(llama)


async def test_what_an_answer_showed_counts_more_than_the_prompt(
    llama: Engine, llama_server: FakeServer
) -> None:
    await llama.probe()
    llama_server.default = answer("hm", "</think>", "yes")
    assert WasThinking() in await deltas_of(llama)
    await llama.probe()
    assert WasThinking() not in await deltas_of(llama)
