"""Answers through an engine, over HTTP: what arrives, what is lost, what it costs."""

import asyncio

import aiohttp
import pytest

from custom_components.fair_share.engines.base import (
    BusyError,
    ClientFaultError,
    Content,
    ContextOverflowError,
    Engine,
    LoadingError,
    PoolExhaustedError,
    ServerFaultError,
    StreamCutError,
    Thinking,
    UnreachableError,
    Usage,
)
from custom_components.fair_share.engines.http import Timeouts
from tests.engines.helpers import (
    ask,
    calls_of,
    deltas_of,
    deltas_until_error,
    engine_for,
    finishes_of,
    first_content,
    text_of,
    thoughts_of,
    tokens_of,
    usages_of,
)
from tests.fake_replies import Fault, Reply
from tests.fake_server import (
    DONE,
    DROP,
    RESET,
    Call,
    FakeServer,
    Thought,
    answer,
    chunk,
    event,
    raw,
    usage_chunk,
)

HI = chunk({"role": "assistant", "content": None}) + chunk({"content": "hi"})
FINISH = chunk({}, "stop")


async def test_an_answer_arrives_whole_and_is_counted(
    any_engine: Engine, any_server: FakeServer
) -> None:
    any_server.script(answer("Good", " morning", " 🙂", cached=2))
    deltas = await deltas_of(any_engine)
    assert text_of(deltas) == "Good morning 🙂"
    assert tokens_of(deltas) == 3
    assert usages_of(deltas) == [Usage(3, 2, 3)]
    assert finishes_of(deltas) == ["stop"]


async def test_a_usage_chunk_without_choices_is_charged_once(
    any_engine: Engine, any_server: FakeServer
) -> None:
    """LiteLLM #30761: ``choices: []`` crashed clients, first or last."""
    any_server.script(
        raw(usage_chunk(7, 1), HI, FINISH, usage_chunk(7, 1), DONE),
        raw(HI, FINISH, usage_chunk(7, 1), DONE),
    )
    for _ in range(2):
        deltas = await deltas_of(any_engine)
        assert text_of(deltas) == "hi"
        assert usages_of(deltas) == [Usage(7, 0, 1)]


async def test_keep_alives_of_any_kind_are_no_part_of_the_answer(
    any_engine: Engine, any_server: FakeServer
) -> None:
    pings = [":", "\n\n: pi", "ng\n", "\nevent: pi", "ng\nda", "ta: {}\n\n", ":\n\n"]
    any_server.script(raw(*pings, HI, *pings, FINISH, *pings, DONE))
    deltas = await deltas_of(any_engine)
    assert text_of(deltas) == "hi"
    assert finishes_of(deltas) == ["stop"]


@pytest.mark.parametrize("fault", [RESET, DROP])
async def test_an_answer_that_breaks_off_is_never_ended_with_an_invented_finish(
    any_engine: Engine, any_server: FakeServer, fault: Fault
) -> None:
    """LiteLLM #33404."""
    any_server.script(answer("one", " two", fault))
    deltas, error = await deltas_until_error(any_engine)
    assert isinstance(error, StreamCutError)
    assert text_of(deltas) == "one two"
    assert tokens_of(deltas) == 2
    assert not finishes_of(deltas)


async def test_a_stream_that_ends_cleanly_but_without_finish_is_cut(
    any_engine: Engine, any_server: FakeServer
) -> None:
    any_server.script(raw(HI))
    deltas, error = await deltas_until_error(any_engine)
    assert isinstance(error, StreamCutError)
    assert text_of(deltas) == "hi"


@pytest.mark.parametrize(
    "end",
    [
        pytest.param((FINISH,), id="finish without [DONE]"),
        pytest.param((DONE,), id="[DONE] without finish"),
        pytest.param((FINISH, RESET), id="broken after the finish"),
        pytest.param((FINISH, event({"error": {"message": "late"}})), id="error after"),
    ],
)
async def test_either_sign_of_the_end_is_enough(
    any_engine: Engine, any_server: FakeServer, end: tuple[str]
) -> None:
    any_server.script(raw(HI, *end))
    deltas = await deltas_of(any_engine)
    assert text_of(deltas) == "hi"
    assert finishes_of(deltas) == ["stop"]


@pytest.mark.parametrize("cut", range(1, len("õ한🙂".encode())))
async def test_a_character_torn_over_two_packets_is_whole(
    llama: Engine, llama_server: FakeServer, cut: int
) -> None:
    data = chunk({"content": "õ한🙂"}).encode()
    cut += data.index("õ".encode())
    llama_server.script(raw(data[:cut], data[cut:], FINISH, DONE))
    assert text_of(await deltas_of(llama)) == "õ한🙂"


async def test_text_and_arguments_in_the_finishing_chunk_are_not_lost(
    any_engine: Engine, any_server: FakeServer
) -> None:
    """See vLLM #35705."""
    head = {"index": 0, "id": "a", "function": {"name": "on", "arguments": '{"na'}}
    tail = {"index": 0, "function": {"arguments": 'me":"lamp"}'}}
    any_server.script(
        raw(
            chunk({"content": "one", "tool_calls": [head]}),
            chunk({"content": " two", "tool_calls": [tail]}, "tool_calls"),
            DONE,
        )
    )
    deltas = await deltas_of(any_engine)
    assert text_of(deltas) == "one two"
    assert calls_of(deltas)[0].arguments == {"name": "lamp"}


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_reasoning_is_never_spoken_but_counted(
    any_engine: Engine, any_server: FakeServer, field: str
) -> None:
    any_server.script(answer(Thought("hm", field), Thought("so", field), "yes"))
    deltas = await deltas_of(any_engine)
    assert (text_of(deltas), thoughts_of(deltas)) == ("yes", "hmso")
    assert tokens_of(deltas) == 3


@pytest.mark.parametrize(
    ("pieces", "spoken"),
    [
        pytest.param(
            ("<th", "ink>", "hm", "</thi", "nk>", "\n\n", "yes"), "yes", id="split"
        ),
        pytest.param(("<think a", '="1">hm</think>', "yes"), "yes", id="attributes"),
        pytest.param(("<think>hm", " and so on"), "", id="unclosed"),
    ],
)
async def test_a_think_block_in_the_text_is_never_spoken(
    any_engine: Engine, any_server: FakeServer, pieces: tuple[str], spoken: str
) -> None:
    any_server.script(answer(*pieces))
    deltas = await deltas_of(any_engine)
    assert text_of(deltas) == spoken
    assert tokens_of(deltas) == len(pieces)


async def test_a_server_whose_prompt_opens_the_think_block_is_remembered(
    any_engine: Engine, any_server: FakeServer
) -> None:
    any_server.default = answer("hm", "</think>", "yes")
    await deltas_of(any_engine)
    deltas = await deltas_of(any_engine)
    assert (text_of(deltas), thoughts_of(deltas)) == ("yes", "hm")


async def test_a_remembered_think_block_is_forgotten_when_answers_have_none(
    any_engine: Engine, any_server: FakeServer
) -> None:
    any_server.script(answer("hm", "</think>", "yes"), answer("late", " but whole"))
    await deltas_of(any_engine)
    assert text_of(await deltas_of(any_engine)) == "late but whole"
    any_server.script(answer("at", " once"))
    deltas = await deltas_of(any_engine)
    assert [d for d in deltas if isinstance(d, Content)] == [
        Content("at", 1),
        Content(" once", 1),
    ]
    assert not [d for d in deltas if isinstance(d, Thinking)]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": 500, "message": "slot crashed"}, ServerFaultError),
        (
            {"code": 500, "message": "Context size has been exceeded."},
            PoolExhaustedError,
        ),
        ({"code": 400, "type": "exceed_context_size_error"}, ContextOverflowError),
        ({"code": 503, "type": "Service Unavailable", "message": "x"}, BusyError),
        (
            {"code": 503, "type": "unavailable_error", "message": "Loading model"},
            LoadingError,
        ),
        ({"code": 400, "message": "failed to parse grammar"}, ClientFaultError),
        ("boom", ServerFaultError),
    ],
)
async def test_an_error_inside_a_stream_is_raised_after_what_came_before_it(
    any_engine: Engine,
    any_server: FakeServer,
    error: object,
    expected: type[Exception],
) -> None:
    """llama.cpp #14566; vLLM sends ``[DONE]`` after it."""
    any_server.script(raw(HI + event({"error": error}) + DONE))
    deltas, raised = await deltas_until_error(any_engine)
    assert type(raised) is expected
    assert text_of(deltas) == "hi"


async def test_streams_that_exhaust_a_shared_pool_die_together(
    session: aiohttp.ClientSession,
) -> None:
    gate = asyncio.Event()
    async with FakeServer(kv_tokens=20) as server:
        engine = engine_for(session, server)
        server.script(answer("one", gate, *["more"] * 9), answer(*["more"] * 18))
        first = asyncio.create_task(deltas_until_error(engine))
        await (await server.wait_chats(1)).wait_started()
        _, second_error = await deltas_until_error(engine)
        deltas, first_error = await first
    assert isinstance(first_error, PoolExhaustedError)
    assert isinstance(second_error, PoolExhaustedError)
    assert text_of(deltas) == "one"


async def test_the_known_words_of_an_error_inside_a_stream_are_kept(
    any_engine: Engine, any_server: FakeServer
) -> None:
    any_server.script(
        raw(HI, event({"error": {"message": "CUDA error: the GPU is gone"}}))
    )
    _, error = await deltas_until_error(any_engine)
    assert str(error) == "HTTP status 500: CUDA error"


async def test_an_event_without_end_is_a_server_fault(
    llama: Engine, llama_server: FakeServer
) -> None:
    llama_server.script(raw(HI, b"data: " + b"x" * (17 * 1024 * 1024)))
    deltas, error = await deltas_until_error(llama)
    assert isinstance(error, ServerFaultError)
    assert text_of(deltas) == "hi"


async def test_bytes_that_are_not_utf8_do_not_break_the_answer(
    any_engine: Engine, any_server: FakeServer
) -> None:
    data = chunk({"content": "a@b"}).encode().replace(b"@", b"\xff")
    any_server.script(raw(data, FINISH, DONE))
    assert text_of(await deltas_of(any_engine)) == "a\ufffdb"


async def test_parallel_calls_that_are_all_numbered_0_stay_apart(
    any_engine: Engine, any_server: FakeServer
) -> None:
    """See ollama #15457; equal calls with different ids are meant twice."""
    calls = [
        {"index": 0, "id": call_id, "function": {"name": "on", "arguments": "{}"}}
        for call_id in ("a", "b")
    ]
    any_server.script(raw(*(chunk({"tool_calls": [c]}) for c in calls), FINISH, DONE))
    deltas = await deltas_of(any_engine)
    assert [call.call_id for call in calls_of(deltas)] == ["a", "b"]
    assert finishes_of(deltas) == ["tool_calls"]


async def test_a_tool_call_arrives_whole(
    any_engine: Engine, any_server: FakeServer
) -> None:
    any_server.script(answer(Call("say", {"text": "õhtu"}), Call("now", {}, "call_2")))
    calls = calls_of(await deltas_of(any_engine))
    assert [(call.name, call.arguments) for call in calls] == [
        ("say", {"text": "õhtu"}),
        ("now", {}),
    ]


async def test_leaving_in_the_middle_closes_the_connection(
    any_engine: Engine, any_server: FakeServer
) -> None:
    any_server.script(answer("one", asyncio.Event(), "two"))
    async with any_engine.stream(ask()) as deltas:
        assert await first_content(deltas) == Content("one", 1)
    await any_server.chats[0].wait_ended()
    assert any_server.chats[0].closed_by_client
    assert any_server.running == 0


async def test_an_exception_of_the_reader_closes_the_connection(
    any_engine: Engine, any_server: FakeServer
) -> None:
    any_server.script(answer("one", asyncio.Event()))
    with pytest.raises(KeyError):
        async with any_engine.stream(ask()):
            raise KeyError
    await any_server.chats[0].wait_ended()
    assert any_server.chats[0].closed_by_client


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param((), id="before the first token"),
        pytest.param(("one",), id="while it answers"),
    ],
)
async def test_a_cancelled_reader_closes_the_connection(
    any_engine: Engine, any_server: FakeServer, pieces: tuple[str]
) -> None:
    any_server.script(answer(*pieces, asyncio.Event()))
    reader = asyncio.create_task(deltas_of(any_engine))
    await (await any_server.wait_chats(1)).wait_started()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await any_server.chats[0].wait_ended()
    assert any_server.chats[0].closed_by_client


async def test_a_reader_cancelled_before_the_headers_closes_the_connection(
    any_engine: Engine, any_server: FakeServer
) -> None:
    any_server.silent = True
    reader = asyncio.create_task(deltas_of(any_engine))
    await any_server.wait_requests(1)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await any_server.requests[0].wait_ended()
    assert any_server.requests[0].closed_by_client


async def test_no_slot_stays_taken_after_many_ends_of_all_kinds(
    any_engine: Engine, any_server: FakeServer
) -> None:
    """LiteLLM #27955: slots were never released after cancels and errors."""
    replies: list[Reply] = [
        answer("one", RESET),
        answer("one", DROP),
        raw(HI, event({"error": "boom"})),
        raw(HI),
        answer("one", " two"),
    ]
    any_server.script(*replies * 4)
    for _ in range(20):
        async with any_engine.stream(ask()) as deltas:
            async for _delta in deltas:
                break
    for chat in any_server.chats:
        await chat.wait_ended()
    assert any_server.running == 0
    assert text_of(await deltas_of(any_engine)) == "Hello from the fake"


async def test_what_arrived_before_the_reader_left_was_counted(
    any_engine: Engine, any_server: FakeServer
) -> None:
    """LiteLLM #17364."""
    any_server.script(answer("one", "two", "three", asyncio.Event()))
    async with any_engine.stream(ask()) as deltas:
        seen = [await first_content(deltas) for _ in range(3)]
    assert tokens_of(seen) == 3


SHORT = Timeouts(answer_s=0.3, first_token_s=0.3, stall_s=0.3, tail_s=0.1)


async def test_a_server_that_does_not_begin_is_unreachable(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    any_server.script(answer(asyncio.Event(), "late"))
    _, error = await deltas_until_error(engine_for(session, any_server, timeouts=SHORT))
    assert isinstance(error, UnreachableError)


async def test_a_server_that_sends_no_headers_is_unreachable(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    await deltas_of(engine_for(session, any_server))
    any_server.silent = True
    _, error = await deltas_until_error(engine_for(session, any_server, timeouts=SHORT))
    assert isinstance(error, UnreachableError)


async def test_a_server_that_falls_silent_has_cut_the_answer(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    any_server.script(answer("one", asyncio.Event(), "two"))
    engine = engine_for(session, any_server, timeouts=SHORT)
    deltas, error = await deltas_until_error(engine)
    assert isinstance(error, StreamCutError)
    assert text_of(deltas) == "one"
    await any_server.chats[0].wait_ended()
    assert any_server.chats[0].closed_by_client


async def test_pings_do_not_count_as_news(
    session: aiohttp.ClientSession, llama_server: FakeServer
) -> None:
    """A hanging vLLM goes on sending keep-alive comments."""
    gates = [asyncio.Event() for _ in range(20)]
    steps = [step for gate in gates for step in (gate, ": keep-alive\n\n")]
    llama_server.script(raw(HI, *steps, asyncio.Event()))
    engine = engine_for(session, llama_server, timeouts=SHORT)
    loop = asyncio.get_running_loop()
    timers = [loop.call_later(0.05 * n, gate.set) for n, gate in enumerate(gates)]
    started = loop.time()
    _, error = await deltas_until_error(engine)
    assert isinstance(error, StreamCutError)
    assert loop.time() - started < 0.9
    for timer in timers:
        timer.cancel()


async def test_a_slow_reader_is_not_taken_for_a_silent_server(
    session: aiohttp.ClientSession, llama_server: FakeServer
) -> None:
    gate = asyncio.Event()
    llama_server.script(answer("one", gate, " two"))
    engine = engine_for(session, llama_server, timeouts=SHORT)
    seen = []
    async with engine.stream(ask()) as deltas:
        async for delta in deltas:
            seen.append(delta)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await asyncio.Event().wait()
            gate.set()
    assert text_of(seen) == "one two"


async def test_an_answer_that_is_complete_does_not_wait_for_its_usage_for_ever(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    any_server.script(raw(HI, FINISH, asyncio.Event()))
    engine = engine_for(session, any_server, timeouts=SHORT)
    deltas = await deltas_of(engine)
    assert finishes_of(deltas) == ["stop"]
    assert usages_of(deltas)[0].estimated


async def test_a_server_killed_in_the_middle_cuts_the_answer_and_is_then_unreachable(
    any_engine: Engine, any_server: FakeServer
) -> None:
    gate = asyncio.Event()
    any_server.script(answer("one", gate))
    async with any_engine.stream(ask()) as deltas:
        assert await first_content(deltas) == Content("one", 1)
        await any_server.stop()
        with pytest.raises(StreamCutError):
            await anext(deltas)
    with pytest.raises(UnreachableError):
        await deltas_of(any_engine)
    await any_server.start()
    assert text_of(await deltas_of(any_engine)) == "Hello from the fake"
