"""What each kind of server tells of itself: load, counts, capabilities."""

import asyncio
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
import json
from typing import Any
import wave

import aiohttp
import pytest

from custom_components.fair_share.engines.base import (
    Capabilities,
    Engine,
    EngineKind,
    EngineLoad,
    LoadingError,
    Resume,
    ResumeWay,
    ServerFaultError,
    UnreachableError,
)
from custom_components.fair_share.engines.prometheus import labels, total
from tests.common import until
from tests.engines.helpers import TOOL, ask, deltas_of, engine_for, text_of
from tests.fake_replies import Answer, Failure
from tests.fake_server import FakeServer, answer, failure

# ---- llama.cpp ---------------------------------------------------------------------


async def test_llama_cpp_tells_slots_context_and_senses(
    llama: Engine, llama_server: FakeServer
) -> None:
    llama_server.vision = llama_server.audio = True
    assert await llama.probe() == Capabilities(
        kind=EngineKind.LLAMA_CPP,
        model="fake-model",
        models=("fake-model",),
        version="b11669-fake",
        slots=2,
        context_tokens=4096,
        kv_tokens=4096,
        vision=True,
        audio=True,
        counts_tokens=True,
        reports_progress=True,
        slices=True,
        resume=Resume(ResumeWay.TEMPLATE),
    )


async def test_a_chat_template_that_knows_no_tools_is_noticed(
    llama: Engine, llama_server: FakeServer
) -> None:
    """Such a server drops the tools without a word."""
    llama_server.tools = False
    assert not (await llama.probe()).tools


async def test_the_slots_of_llama_cpp_are_taken_to_share_one_pool(
    session: aiohttp.ClientSession,
) -> None:
    async with FakeServer(slots=4, context_tokens=1000) as server:
        capabilities = await engine_for(session, server).probe()
    assert (capabilities.slots, capabilities.kv_tokens) == (4, 1000)


async def test_a_single_slot_shares_with_nobody(session: aiohttp.ClientSession) -> None:
    async with FakeServer(slots=1) as server:
        capabilities = await engine_for(session, server).probe()
    assert capabilities.kv_tokens is None


async def test_the_context_is_read_again_at_every_probe(
    llama: Engine, llama_server: FakeServer
) -> None:
    await llama.probe()
    llama_server.context_tokens = 512
    assert (await llama.probe()).context_tokens == 512


async def test_a_second_probe_generates_nothing(
    llama: Engine, llama_server: FakeServer
) -> None:
    await llama.probe()
    await llama.probe()
    assert len(llama_server.chats) == 1
    assert llama_server.chats[0].body["max_tokens"] <= 3


async def test_a_probe_does_not_queue_inside_a_busy_server(
    session: aiohttp.ClientSession, llama: Engine, llama_server: FakeServer
) -> None:
    gate = asyncio.Event()
    llama_server.default = answer("one", gate)
    async with asyncio.TaskGroup() as group:
        answers = [group.create_task(deltas_of(llama)) for _ in range(2)]
        for number in (1, 2):
            await (await llama_server.wait_chats(number)).wait_started()
        assert (await engine_for(session, llama_server).probe()).slots == 2
        assert len(llama_server.chats) == 2
        gate.set()
    assert [text_of(task.result()) for task in answers] == ["one", "one"]


# Two answers to a prompt of three words, a word each.
SLOTS = EngineLoad(2, kv_used_tokens=8, sequences=(4, 4), slots=2, context_tokens=4096)


@pytest.mark.parametrize(
    ("hidden", "expected"),
    [
        pytest.param(set(), replace(SLOTS, deferred=1), id="both"),
        pytest.param({"/slots"}, EngineLoad(2, 1), id="metrics only"),
        pytest.param({"/metrics"}, SLOTS, id="slots only"),
        pytest.param({"/metrics", "/slots"}, EngineLoad(), id="neither"),
    ],
)
async def test_llama_cpp_tells_its_load(
    llama: Engine, llama_server: FakeServer, hidden: set[str], expected: EngineLoad
) -> None:
    gate = asyncio.Event()
    llama_server.default = answer("one", gate)
    llama_server.hide = hidden
    async with asyncio.TaskGroup() as group:
        for number in (1, 2, 3):
            group.create_task(deltas_of(llama))
            await llama_server.wait_chats(number)
        await until(lambda: llama_server.tokens_held == 8)
        assert await llama.load() == expected
        gate.set()


async def test_an_older_llama_cpp_does_not_tell_what_its_slots_hold(
    llama: Engine, llama_server: FakeServer
) -> None:
    slots = [{"is_processing": True}, {"is_processing": True, "n_prompt_tokens": 5}]
    llama_server.override["/slots"] = Failure(200, json.dumps(slots))
    llama_server.hide = {"/metrics"}
    assert await llama.load() == EngineLoad(2, slots=2)


async def test_a_llama_cpp_that_is_too_busy_to_tell_its_load_is_not_away(
    llama: Engine, llama_server: FakeServer
) -> None:
    await llama.probe()
    for path in ("/metrics", "/slots"):
        llama_server.override[path] = failure(500, "too busy")
    with pytest.raises(ServerFaultError):
        await llama.load()
    assert (await llama.probe()).slots == 2


@pytest.mark.parametrize("hidden", [set(), {"/metrics"}, {"/metrics", "/slots"}])
async def test_a_loading_llama_cpp_says_so(
    llama: Engine, llama_server: FakeServer, hidden: set[str]
) -> None:
    llama_server.loading = True
    llama_server.hide = hidden
    with pytest.raises(LoadingError):
        await llama.load()


@pytest.mark.parametrize(
    "hidden", [set(), {"/v1/chat/completions/input_tokens"}], ids=["one", "two calls"]
)
async def test_llama_cpp_counts_a_prompt_with_its_tools(
    llama: Engine, llama_server: FakeServer, hidden: set[str]
) -> None:
    llama_server.hide = hidden
    bare = await llama.count_tokens(ask("one two three"))
    with_tools = await llama.count_tokens(ask("one two three", tools=[TOOL]))
    assert bare == 4
    assert with_tools == 4 + len(json.dumps(TOOL).split())


async def test_the_way_of_counting_is_remembered(
    llama: Engine, llama_server: FakeServer
) -> None:
    llama_server.hide = {"/v1/chat/completions/input_tokens"}
    await llama.count_tokens(ask())
    await llama.count_tokens(ask())
    paths = [request.path for request in llama_server.requests]
    assert paths.count("/v1/chat/completions/input_tokens") == 1
    assert paths.count("/tokenize") == 2


async def test_a_llama_cpp_that_cannot_count_says_so(
    llama: Engine, llama_server: FakeServer
) -> None:
    llama_server.hide = {"/v1/chat/completions/input_tokens", "/tokenize"}
    assert not (await llama.probe()).counts_tokens
    assert await llama.count_tokens(ask()) is None


async def test_a_prompt_that_the_template_refuses_has_no_count(
    llama: Engine, llama_server: FakeServer
) -> None:
    path = "/v1/chat/completions/input_tokens"
    llama_server.override[path] = failure(400, "the roles must alternate")
    assert await llama.count_tokens(ask()) is None
    del llama_server.override[path]
    assert await llama.count_tokens(ask()) == 3


async def test_a_llama_cpp_without_props_tells_less(
    llama: Engine, llama_server: FakeServer
) -> None:
    llama_server.hide = {"/props"}
    capabilities = await llama.probe()
    assert (capabilities.slots, capabilities.context_tokens) == (None, None)
    assert not capabilities.vision


# ---- vLLM --------------------------------------------------------------------------


async def test_vllm_tells_context_and_cache(session: aiohttp.ClientSession) -> None:
    async with FakeServer("vllm", context_tokens=2048, kv_tokens=3200) as server:
        assert await engine_for(session, server).probe() == Capabilities(
            kind=EngineKind.VLLM,
            model="fake-model",
            models=("fake-model",),
            version="0.32.0",
            context_tokens=2048,
            kv_tokens=3200,
            block_tokens=16,
            survives_exhaustion=True,
            counts_tokens=True,
        )


async def test_a_vllm_without_metrics_tells_less(
    vllm: Engine, vllm_server: FakeServer
) -> None:
    vllm_server.hide = {"/metrics", "/version", "/tokenize"}
    capabilities = await vllm.probe()
    assert (capabilities.kv_tokens, capabilities.version) == (None, None)
    assert not capabilities.counts_tokens


async def test_vllm_tells_its_load(session: aiohttp.ClientSession) -> None:
    gate = asyncio.Event()
    async with FakeServer("vllm", slots=1, kv_tokens=100) as server:
        engine = engine_for(session, server)
        server.default = answer("one", gate)
        server.preemptions = 3
        async with asyncio.TaskGroup() as group:
            for number in (1, 2):
                group.create_task(deltas_of(engine, ask("w " * 24)))
                await server.wait_chats(number)
            await server.chats[0].wait_started()
            load = await engine.load()
            gate.set()
    assert (load.running, load.deferred) == (1, 1)
    assert load.kv_used_fraction == pytest.approx(0.25, abs=0.02)
    assert load.kv_used_tokens == pytest.approx(25, abs=2)
    assert load.preemptions == 3


async def test_an_older_vllm_is_read_by_its_older_names(
    vllm: Engine, vllm_server: FakeServer
) -> None:
    page = (
        'vllm:cache_config_info{block_size="16",num_gpu_blocks="70"} 1.0\n'
        "vllm:gpu_cache_usage_perc 0.5\n"
    )
    vllm_server.override["/metrics"] = Failure(200, page)
    load = await vllm.load()
    assert (load.kv_used_fraction, load.kv_used_tokens) == (0.5, 560)
    assert (load.running, load.deferred, load.preemptions) == (None, None, None)


async def test_vllm_counts_a_prompt_with_its_tools(vllm: Engine) -> None:
    assert await vllm.count_tokens(ask("one two three")) == 4
    assert await vllm.count_tokens(ask(tools=[TOOL])) == 3 + len(
        json.dumps(TOOL).split()
    )


@pytest.mark.parametrize("kind", ["vllm", "openai_compatible"])
@pytest.mark.parametrize(("sees", "hears"), [(True, False), (False, True)])
async def test_whether_a_model_sees_and_hears_is_tried_once_where_nobody_tells(
    session: aiohttp.ClientSession, kind: str, *, sees: bool, hears: bool
) -> None:
    async with FakeServer(kind) as server:
        server.vision, server.audio = sees, hears
        engine = engine_for(session, server)
        known = await engine.probe()
        assert (known.vision, known.audio) == (sees, hears)
        played = server.chats[-1].body
        assert played["max_tokens"] == 1
        sound = played["messages"][0]["content"][1]["input_audio"]
        with wave.open(BytesIO(b64decode(sound["data"]))) as file:
            assert file.getnframes() == file.getframerate() == 16_000
        chats = len(server.chats)
        assert await engine.probe() == known
        assert len(server.chats) == chats


async def test_a_server_that_fails_at_sound_does_not_hear(
    session: aiohttp.ClientSession,
) -> None:
    def reply(body: Mapping[str, Any]) -> Answer | Failure:
        hears = "input_audio" in json.dumps(body["messages"])
        return failure(500, "boom", "server_error") if hears else answer("Hi")

    async with FakeServer("vllm") as server:
        server.audio, server.default = True, reply
        assert not (await engine_for(session, server).probe()).audio


# ---- unknown servers ---------------------------------------------------------------


async def test_an_unknown_server_tells_its_models_only(
    session: aiohttp.ClientSession,
) -> None:
    models = ("text-embedding-small", "chat-large")
    async with FakeServer("openai_compatible", models=models) as server:
        assert await engine_for(session, server).probe() == Capabilities(
            kind=EngineKind.OPENAI_COMPATIBLE,
            model="chat-large",
            models=("chat-large", "text-embedding-small"),
        )


async def test_an_unknown_server_cannot_count(plain: Engine) -> None:
    assert await plain.count_tokens(ask()) is None


async def test_the_load_of_an_unknown_server_is_that_it_answers(
    plain: Engine, plain_server: FakeServer
) -> None:
    assert await plain.load() == EngineLoad()
    await plain_server.stop()
    with pytest.raises(UnreachableError):
        await plain.load()


async def test_refused_stream_options_are_left_out_from_then_on(
    plain: Engine, plain_server: FakeServer
) -> None:
    plain_server.refuse = {"stream_options"}
    for _ in range(2):
        assert text_of(await deltas_of(plain)) == "Hello from the fake"
    assert ["stream_options" in c.body for c in plain_server.chats] == [
        True,
        False,
        False,
    ]


# ---- metrics -----------------------------------------------------------------------

PAGE = """# HELP x
x{engine="0",name="a \\"b\\", c"} 1.5
x{engine="1"} 2
x_total 7
broken
y NaN?
config{block_size="16",n="3"} 1.0
"""


def test_a_metric_is_summed_over_its_labels() -> None:
    assert total(PAGE, "x") == 3.5
    assert total(PAGE, "old_name", "x_total") == 7
    assert total(PAGE, "y") is None


def test_labels_are_read() -> None:
    assert labels(PAGE, "config") == {"block_size": "16", "n": "3"}
    assert labels(PAGE, "missing") == {}
