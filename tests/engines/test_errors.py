"""What servers say when something goes wrong, as typed errors."""

import json
import time

import aiohttp
import pytest

from custom_components.fair_share.engines.base import (
    AuthError,
    BusyError,
    ClientFaultError,
    ContextOverflowError,
    Engine,
    EngineError,
    EngineKind,
    InvalidAddressError,
    LoadingError,
    NoStreamingError,
    NotAnEngineError,
    ServerFaultError,
    UnreachableError,
)
from custom_components.fair_share.engines.errors import (
    error_from_status,
    error_from_stream,
    error_of_event,
)
from custom_components.fair_share.engines.probe import create_engine, find_server
from tests.engines.helpers import ask, deltas_of, engine_for, text_of
from tests.fake_replies import Failure, Raw
from tests.fake_server import FakeServer, chunk, event, failure, raw

OPENAI_OVERFLOW = "This model's maximum context length is 4096 tokens."


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (
            400,
            {"error": {"message": "bad JSON", "type": "invalid_request_error"}},
            ClientFaultError,
        ),
        (400, {"error": {"message": "failed to parse grammar"}}, ClientFaultError),
        (400, {"error": {"type": "exceed_context_size_error"}}, ContextOverflowError),
        (400, {"error": {"code": "context_length_exceeded"}}, ContextOverflowError),
        (400, {"error": {"message": OPENAI_OVERFLOW}}, ContextOverflowError),
        (
            500,
            {"error": {"message": "Context size has been exceeded"}},
            ContextOverflowError,
        ),
        (413, {"error": "the prompt exceeds context"}, ContextOverflowError),
        (
            400,
            {"error": {"message": OPENAI_OVERFLOW, "param": "max_tokens"}},
            ClientFaultError,
        ),
        (400, {"object": "error", "message": OPENAI_OVERFLOW}, ContextOverflowError),
        (401, {"error": {"message": "Invalid API Key"}}, AuthError),
        (403, "", AuthError),
        (404, {"detail": "Not Found"}, ClientFaultError),
        (422, {"detail": [{"loc": ["body"], "msg": "x"}]}, ClientFaultError),
        (429, "slow down", BusyError),
        (500, {"error": {"message": "CUDA error"}}, ServerFaultError),
        (500, {"error": {"message": "image input is not supported"}}, ClientFaultError),
        (500, {"error": {"message": "Jinja Exception: roles"}}, ClientFaultError),
        (501, {"error": {"type": "not_supported_error"}}, ClientFaultError),
        (502, "<html>Bad Gateway</html>", ServerFaultError),
        (503, {"error": {"message": "Loading model"}}, LoadingError),
        (503, {"error": {"message": "Service Unavailable"}}, BusyError),
        (503, "<html>Service Unavailable</html>", ServerFaultError),
        (503, "", ServerFaultError),
        (500, "[" * 100_000, ServerFaultError),
        (500, {"error": None}, ServerFaultError),
    ],
)
async def test_an_error_status_is_raised_as_what_it_means(
    any_engine: Engine,
    any_server: FakeServer,
    status: int,
    body: object,
    expected: type[EngineError],
) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    any_server.script(Failure(status, text))
    with pytest.raises(expected) as error:
        await deltas_of(any_engine)
    assert type(error.value) is expected
    assert error.value.status == status
    assert any_server.running == 0


async def test_an_overflow_tells_both_sizes(
    llama: Engine, llama_server: FakeServer
) -> None:
    llama_server.context_tokens = 10
    with pytest.raises(ContextOverflowError) as error:
        await deltas_of(llama, ask("word " * 20))
    assert (error.value.prompt_tokens, error.value.context_tokens) == (21, 10)


async def test_vllm_says_too_long_in_other_words(
    vllm: Engine, vllm_server: FakeServer
) -> None:
    vllm_server.context_tokens = 10
    with pytest.raises(ContextOverflowError):
        await deltas_of(vllm, ask("word " * 20))


async def test_a_picture_for_a_text_model_is_no_fault_of_the_server(
    any_engine: Engine, any_server: FakeServer
) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    request = ask()
    request.messages[0]["content"] = [picture]  # type: ignore[index]
    with pytest.raises(ClientFaultError) as error:
        await deltas_of(any_engine, request)
    assert not error.value.server_fault
    assert text_of(await deltas_of(any_engine)) == "Hello from the fake"


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (UnreachableError, True),
        (ServerFaultError, True),
        (ClientFaultError, False),
        (ContextOverflowError, False),
        (LoadingError, False),
        (BusyError, False),
        (AuthError, False),
    ],
)
def test_only_server_faults_count_against_the_server(
    error: type[EngineError], *, counts: bool
) -> None:
    assert error.server_fault is counts


async def test_an_answer_in_one_piece_is_told_apart(
    any_engine: Engine, any_server: FakeServer
) -> None:
    any_server.streaming = False
    with pytest.raises(NoStreamingError):
        await deltas_of(any_engine)


async def test_an_error_in_one_piece_with_a_good_status_is_still_an_error(
    any_engine: Engine, any_server: FakeServer
) -> None:
    any_server.script(Raw((b'{"error": {"message": "no"}}',), "application/json"))
    with pytest.raises(ServerFaultError):
        await deltas_of(any_engine)


async def test_a_web_page_is_no_answer(
    any_engine: Engine, any_server: FakeServer
) -> None:
    any_server.script(Raw((b"<html>Log in</html>",), "text/html"))
    with pytest.raises(NotAnEngineError):
        await deltas_of(any_engine)


async def test_when_to_ask_again_is_kept(
    any_engine: Engine, any_server: FakeServer
) -> None:
    any_server.script(failure(429, "full", headers={"Retry-After": "7"}))
    with pytest.raises(BusyError, match="retry after 7"):
        await deltas_of(any_engine)


SECRET = "The code of the alarm system is 4711, tell nobody."


@pytest.mark.parametrize(
    "message",
    [
        f"cannot parse: {SECRET}",
        f"[{{'input': '{SECRET}', 'type': 'missing'}}]",
        "bad text near 'alarm system is 4711'",
        "4711",
    ],
)
async def test_a_prompt_that_the_server_repeats_is_in_no_error(
    any_engine: Engine, any_server: FakeServer, message: str
) -> None:
    any_server.script(failure(400, message))
    with pytest.raises(ClientFaultError) as error:
        await deltas_of(any_engine, ask(SECRET))
    assert "4711" not in f"{error.value!r} {error.value.detail}"
    assert error.value.detail == "HTTP status 400"


async def test_a_key_that_the_server_repeats_is_in_no_error(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    any_server.api_key = "sk-secret"
    engine = engine_for(session, any_server)
    any_server.script(failure(401, "Incorrect key: sk-secret"))
    with pytest.raises(AuthError) as error:
        await deltas_of(engine)
    assert "sk-secret" not in f"{error.value!r} {error.value.detail}"


@pytest.mark.parametrize(
    "said",
    [
        event({"error": {"code": 500, "message": f"Failed to parse input: {SECRET}"}}),
        event({"error": SECRET}),
        f"error: {SECRET}\n\n",
        f"event: error\ndata: {SECRET}\n\n",
    ],
)
async def test_an_answer_that_the_server_repeats_in_the_stream_is_in_no_error(
    any_engine: Engine, any_server: FakeServer, said: str
) -> None:
    any_server.script(raw(chunk({"content": SECRET}), said))
    with pytest.raises(EngineError) as error:
        await deltas_of(any_engine)
    assert "4711" not in f"{error.value!r} {error.value.detail}"
    assert error.value.detail.startswith("HTTP status 500")


@pytest.mark.parametrize(
    ("message", "detail"),
    [
        ("CUDA error: device-side assert", "HTTP status 500: CUDA error"),
        ("Failed to parse input at pos 18: Oh", "Failed to parse input at pos 18"),
        ("Compute error.", "Compute error"),
        (
            "request (90 tokens) exceeds the available context size (64 tokens), try",
            "request (90 tokens) exceeds the available context size (64",
        ),
        ("you said: at most 4711 image(s)", "HTTP status 500"),
    ],
)
def test_words_that_are_the_servers_own_are_kept(message: str, detail: str) -> None:
    body = json.dumps({"error": {"message": message}})
    assert error_from_status(500, body).detail.endswith(detail)


@pytest.mark.parametrize("header", ["soon", "4711 secret", "9" * 50])
def test_only_a_number_of_seconds_is_kept_of_when_to_ask_again(header: str) -> None:
    assert error_from_status(429, "{}", header).detail == "HTTP status 429"


def test_a_message_of_megabytes_is_read_in_no_time() -> None:
    body = json.dumps({"error": {"message": "a\n" * 8_000_000}})
    began = time.thread_time()
    assert error_from_status(400, body).detail == "HTTP status 400"
    assert time.thread_time() - began < 1


@pytest.mark.parametrize(
    "code", ["9" * 5000, 10**30, "\u0664\u0660\u0660", -1, 200, [1]]
)
def test_a_code_that_is_no_status_is_ignored(code: object) -> None:
    error = error_from_stream(error_of_event({"error": {"code": code}}))
    assert (type(error), error.status) == (ServerFaultError, 500)


@pytest.mark.parametrize("key", ["abc\r\nX: y", "a\x00b", "a\ud800"])
async def test_a_key_that_fits_into_no_header_is_refused_unsent(
    session: aiohttp.ClientSession, any_server: FakeServer, key: str
) -> None:
    any_server.api_key = key
    engine = engine_for(session, any_server)
    with pytest.raises(AuthError) as error:
        await deltas_of(engine)
    assert key not in error.value.detail
    assert any_server.requests == []


async def test_blanks_around_a_key_are_no_part_of_it(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    any_server.api_key = "abc"
    engine = create_engine(
        session, any_server.url, " abc\n", EngineKind(any_server.kind)
    )
    assert text_of(await deltas_of(engine)) == "Hello from the fake"


@pytest.mark.parametrize("host", ["a" * 70, "a..b", "a" * 70 + ".local"])
async def test_a_name_that_cannot_be_looked_up_is_no_address(
    session: aiohttp.ClientSession, host: str
) -> None:
    with pytest.raises((InvalidAddressError, UnreachableError)):
        await find_server(session, f"http://{host}:9")


async def test_nothing_listens(session: aiohttp.ClientSession, kind: str) -> None:
    async with FakeServer(kind) as server:
        engine = engine_for(session, server)
    with pytest.raises(UnreachableError, match="no connection"):
        await deltas_of(engine)
    assert await engine.count_tokens(ask()) is None


async def test_a_secure_address_of_a_plain_server_is_unreachable(
    session: aiohttp.ClientSession,
) -> None:
    async with FakeServer() as server:
        address = server.url.replace("http:", "https:")
        engine = create_engine(session, address, None, engine_for(session, server).kind)
        with pytest.raises(UnreachableError, match="secure"):
            await deltas_of(engine)
