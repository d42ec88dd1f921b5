"""Reading prompts ahead of their answers, part by part."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from custom_components.fair_share.engines.answer_text import AnswerText
from custom_components.fair_share.engines.base import (
    ClientFaultError,
    ContextOverflowError,
    Engine,
    EngineError,
    PoolExhaustedError,
    PromptSlices,
    Resume,
    ResumeWay,
    ServerFaultError,
    StreamCutError,
    UnreachableError,
)
from custom_components.fair_share.engines.http import Timeouts
from custom_components.fair_share.engines.open_answer import OpenAnswer
from custom_components.fair_share.engines.sse import MAX_EVENT_BYTES
from tests.engines.helpers import (
    TOOL,
    ask,
    ask_with,
    deltas_of,
    engine_for,
    error_of,
    usages_of,
)
from tests.fake_replies import Failure
from tests.fake_server import DROP, RESET, FakeServer, failure
from tests.slicing_engine import Happening, SlicingServer, error_event, prompt_of

LONG = prompt_of(400)


@pytest.fixture
async def slicing_server() -> AsyncIterator[SlicingServer]:
    async with SlicingServer(
        slots=1, pieces=["Once", " upon", " a", " time"]
    ) as server:
        yield server


@pytest.fixture
async def engine(
    session: aiohttp.ClientSession, slicing_server: SlicingServer
) -> Engine:
    made = engine_for(session, slicing_server)
    assert (await made.probe()).slices
    slicing_server.held = []
    return made


async def slices_of(engine: Engine, text: str = LONG) -> PromptSlices:
    """Return a prompt to be read part by part."""
    slices = await engine.read_ahead(ask(text), OpenAnswer())
    assert slices is not None
    return slices


async def test_the_answer_finds_what_was_read_ahead_of_it(
    engine: Engine, slicing_server: SlicingServer
) -> None:
    slices = await slices_of(engine)
    assert [await slices.read(upto) for upto in (64, 128, 320)] == [0, 64, 128]
    assert slicing_server.sizes == [64, 128, 320]
    (usage,) = usages_of(await deltas_of(engine, ask(LONG)))
    assert usage.prompt_tokens == slices.total
    assert usage.cached_tokens == 320


async def test_a_part_is_streamed_without_a_word_and_to_no_slot_by_name(
    engine: Engine, slicing_server: SlicingServer
) -> None:
    await (await slices_of(engine)).read(64)
    body = dict(slicing_server.slices[-1].body)
    tokens = body.pop("prompt")
    assert len(tokens) == 64
    assert body == {
        "model": "fake-model",
        "n_predict": 0,
        "cache_prompt": True,
        "stream": True,
    }


async def test_a_slot_that_the_request_names_reads_it(
    engine: Engine, slicing_server: SlicingServer
) -> None:
    request = ask(LONG, parameters={"id_slot": 1})
    slices = await engine.read_ahead(request, OpenAnswer())
    assert slices is not None
    await slices.read(64)
    assert slicing_server.slices[-1].body["id_slot"] == 1


async def test_what_was_lost_from_the_cache_is_told(
    engine: Engine, slicing_server: SlicingServer
) -> None:
    slices = await slices_of(engine)
    await slices.read(64)
    slicing_server.forgets = 1
    assert await slices.read(128) == 0
    assert await slices.read(128) == 127


@pytest.mark.parametrize("continues", [True, False], ids=["option", "raw prompt"])
async def test_the_prompt_of_an_answer_that_goes_on_is_read_ahead_too(
    session: aiohttp.ClientSession,
    continues: bool,  # noqa: FBT001 - a case of a table
) -> None:
    pieces = ["Once", " upon", " a", " time"]
    async with SlicingServer(slots=1, pieces=pieces, continues=continues) as server:
        engine = engine_for(session, server)
        way = ResumeWay.CONTINUE if continues else ResumeWay.TEMPLATE
        assert (await engine.probe()).resume == Resume(way, reasoning=continues)
        answer = OpenAnswer()
        text = AnswerText()
        text.add("Once upon", 2)
        answer.begin(text)
        slices = await engine.read_ahead(ask(LONG), answer)
        assert slices is not None
        server.held = []
        assert await slices.read(slices.total - 1) == 0
        async with engine.stream(ask(LONG), answer) as deltas:
            rest = [delta async for delta in deltas]
        assert len(rest) > 1
        assert len(server.held) == slices.total
        assert answer.text.received == "Once upon a time"


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}],
        [{"type": "text", "text": "hi"}, {"type": "input_audio", "input_audio": {}}],
        ["words"],
        {"type": "text"},
    ],
)
async def test_what_is_not_text_is_not_read_ahead(
    engine: Engine, content: object
) -> None:
    request = ask_with([{"role": "user", "content": content}])
    assert await engine.read_ahead(request, OpenAnswer()) is None


@pytest.mark.parametrize("content", [[{"type": "text", "text": LONG}], LONG, None])
async def test_text_and_tools_are_read_ahead(engine: Engine, content: object) -> None:
    messages = [{"role": "user", "content": content}]
    request = ask("hi", tools=[TOOL])
    assert await engine.read_ahead(request, OpenAnswer()) is not None
    assert await engine.read_ahead(ask_with(messages), OpenAnswer()) is not None


@pytest.mark.parametrize("kind", ["vllm", "openai_compatible"])
async def test_other_servers_are_left_to_read_as_they_do(
    session: aiohttp.ClientSession, kind: str
) -> None:
    async with FakeServer(kind) as server:
        engine = engine_for(session, server)
        assert not (await engine.probe()).slices
        assert await engine.read_ahead(ask(LONG), OpenAnswer()) is None


@pytest.mark.parametrize("path", ["/apply-template", "/tokenize"])
async def test_where_tokens_can_not_be_had_nothing_is_read_ahead(
    engine: Engine, slicing_server: SlicingServer, path: str
) -> None:
    slicing_server.hide = {path}
    assert await engine.read_ahead(ask(LONG), OpenAnswer()) is None


async def test_a_server_that_does_not_show_its_prompts_has_no_slices(
    session: aiohttp.ClientSession, slicing_server: SlicingServer
) -> None:
    slicing_server.hide = {"/apply-template"}
    assert not (await engine_for(session, slicing_server).probe()).slices


@pytest.mark.parametrize("answer", ['{"tokens": 3}', '{"tokens": []}', "no", "[]"])
async def test_tokens_that_are_none_are_not_read(
    engine: Engine, slicing_server: SlicingServer, answer: str
) -> None:
    slicing_server.override = {"/tokenize": Failure(200, answer)}
    assert await engine.read_ahead(ask(LONG), OpenAnswer()) is None


async def test_a_prompt_that_is_counted_differently_is_not_read_ahead(
    engine: Engine, slicing_server: SlicingServer
) -> None:
    """It would be another prompt than the one that the answer is asked for with."""
    counted = Failure(200, '{"input_tokens": 7}')
    slicing_server.override = {"/v1/chat/completions/input_tokens": counted}
    assert await engine.read_ahead(ask(LONG), OpenAnswer()) is None


# ---- what goes wrong -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("happening", "error"),
    [
        (failure(404, "File Not Found", "not_found_error"), ClientFaultError),
        (failure(500, "broken"), ServerFaultError),
        (failure(400, "too long", "exceed_context_size_error"), ContextOverflowError),
        (error_event(500, "Context size has been exceeded."), PoolExhaustedError),
        (error_event(500, "decode failed"), ServerFaultError),
        (b"error: broken\n\n", ServerFaultError),
        (b'data: {"content": "", "stop": false}\n\n', StreamCutError),
        (b"data: not json\n\n", StreamCutError),
        pytest.param(
            b"data: " + b"x" * MAX_EVENT_BYTES, ServerFaultError, id="too large"
        ),
        (RESET, StreamCutError),
        (DROP, StreamCutError),
    ],
)
async def test_every_failure_inside_a_part_is_a_typed_error(
    engine: Engine,
    slicing_server: SlicingServer,
    happening: Happening,
    error: type[EngineError],
) -> None:
    slices = await slices_of(engine)
    slicing_server.happens.append(happening)
    assert type(await error_of(slices.read(64))) is error
    assert await slices.read(64) == 0


@pytest.mark.parametrize(
    ("timings", "cached"),
    [
        ('{"cache_n": 40, "prompt_n": 24}', 40),
        ('{"prompt_n": 24}', 40),
        ('{"cache_n": 900}', 64),
        ('{"prompt_n": 900}', 0),
        ("{}", 0),
        ("null", 0),
    ],
)
@pytest.mark.parametrize("end", ["\n\n", ""])
async def test_what_was_cached_is_taken_from_whatever_is_told(
    engine: Engine, slicing_server: SlicingServer, timings: str, cached: int, end: str
) -> None:
    slices = await slices_of(engine)
    slicing_server.happens.append(
        f'data: {{"stop": true, "timings": {timings}}}{end}'.encode()
    )
    assert await slices.read(64) == cached


async def test_a_server_that_falls_silent_is_given_up(
    session: aiohttp.ClientSession, slicing_server: SlicingServer
) -> None:
    limits = Timeouts(first_token_s=0.05)
    slices = await slices_of(engine_for(session, slicing_server, timeouts=limits))
    slicing_server.happens.append(asyncio.Event())
    assert type(await error_of(slices.read(64))) is UnreachableError


async def test_leaving_in_the_middle_of_a_part_closes_the_connection(
    engine: Engine, slicing_server: SlicingServer
) -> None:
    slices = await slices_of(engine)
    slicing_server.happens.append(asyncio.Event())
    reading = asyncio.create_task(slices.read(64))
    received = await slicing_server.wait_slices(1)
    await received.wait_started()
    reading.cancel()
    await received.wait_ended()
    assert received.closed_by_client
    assert slicing_server.running == 0


async def test_a_server_that_knows_no_tokens_is_asked_for_them_once(
    engine: Engine, slicing_server: SlicingServer
) -> None:
    slicing_server.hide = {"/tokenize"}
    before = len(slicing_server.requests)
    for _ in range(3):
        assert await engine.read_ahead(ask(LONG), OpenAnswer()) is None
    paths = [each.path for each in slicing_server.requests[before:]]
    assert paths.count("/tokenize") == 1
    slicing_server.hide = set()
    await engine.probe()
    assert await engine.read_ahead(ask(LONG), OpenAnswer()) is not None
