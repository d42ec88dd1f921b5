"""Finding out what listens at an address."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web
import pytest

from custom_components.fair_share.engines.base import (
    AuthError,
    EngineError,
    EngineKind,
    InvalidAddressError,
    LoadingError,
    NoChatModelError,
    NoStreamingError,
    NotAnEngineError,
    ServerFaultError,
    UnreachableError,
)
from custom_components.fair_share.engines.http import ServerHttp, Timeouts
from custom_components.fair_share.engines.probe import find_server, identify
from tests.engines.helpers import deltas_of, error_of, text_of
from tests.fake_server import FakeServer, answer, failure, raw


@asynccontextmanager
async def web_server(path: str, response: web.Response) -> AsyncIterator[str]:
    """Run a web server with one page that is no LLM; yields its address."""

    async def page(_: web.Request) -> web.Response:
        return response

    app = web.Application()
    app.router.add_get(path, page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/chat/completions"])
async def test_a_server_is_found_however_its_address_is_typed(
    session: aiohttp.ClientSession, any_server: FakeServer, suffix: str
) -> None:
    typed = f" 127.0.0.1:{any_server.port}{suffix} "
    found = await find_server(session, typed)
    assert found.address == any_server.url
    assert found.engine.kind == found.capabilities.kind == EngineKind(any_server.kind)
    assert text_of(await deltas_of(found.engine)) == "Hello from the fake"


async def test_a_key_is_proved_at_once(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    """A llama.cpp server lists its models for anybody."""
    any_server.api_key = "sk-right"
    with pytest.raises(AuthError):
        await find_server(session, any_server.url)
    with pytest.raises(AuthError):
        await find_server(session, any_server.url, "sk-wrong")
    found = await find_server(session, any_server.url, "sk-right")
    assert found.capabilities.model == "fake-model"


async def test_a_server_that_loads_its_model_says_so(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    any_server.loading = True
    with pytest.raises(LoadingError):
        await find_server(session, any_server.url)


@pytest.mark.parametrize("kind", ["llama_cpp", "vllm"], indirect=True)
async def test_a_list_of_models_does_not_mean_that_the_model_is_loaded(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    """Older builds list their models while they load them."""
    any_server.loading = any_server.models_while_loading = True
    with pytest.raises(LoadingError):
        await find_server(session, any_server.url)


async def test_nothing_listens(session: aiohttp.ClientSession) -> None:
    async with FakeServer() as server:
        address = server.url
    with pytest.raises(UnreachableError):
        await find_server(session, address)


async def test_a_server_that_never_answers_is_unreachable(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    any_server.silent = True
    limits = Timeouts(answer_s=0.2)
    with pytest.raises(UnreachableError, match="in time"):
        await find_server(session, any_server.url, timeouts=limits)


@pytest.mark.parametrize(
    ("greeting", "expected"),
    [
        pytest.param(b"SSH-2.0-OpenSSH_10.0\r\n", NotAnEngineError, id="not HTTP"),
        pytest.param(b"", UnreachableError, id="hangs up"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
            UnreachableError,
            id="hangs up in the middle",
        ),
    ],
)
async def test_something_that_answers_in_another_way_is_no_engine(
    session: aiohttp.ClientSession, greeting: bytes, expected: type[EngineError]
) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(greeting)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(expected):
            await find_server(session, f"127.0.0.1:{port}")


async def test_a_connection_that_is_reset_is_unreachable(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    any_server.silent = True
    async with asyncio.TaskGroup() as group:
        finding = group.create_task(error_of(find_server(session, any_server.url)))
        await any_server.wait_requests(1)
        await any_server.stop()
    assert isinstance(finding.result(), UnreachableError)


async def test_a_long_list_of_models_is_read_whole(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    any_server.models = tuple(f"model-{number}" for number in range(20_000))
    found = await find_server(session, any_server.url)
    assert found.capabilities.models == any_server.models


@pytest.mark.parametrize(
    ("path", "response"),
    [
        pytest.param("/", web.Response(text="hello"), id="no such path"),
        pytest.param(
            "/v1/models",
            web.Response(text="<html>", content_type="text/html"),
            id="a web page",
        ),
        pytest.param("/v1/models", web.json_response({"a": 1}), id="other JSON"),
        pytest.param("/v1/models", web.json_response([1]), id="a JSON list"),
        pytest.param(
            "/v1/models",
            web.Response(status=301, headers={"Location": "/login"}),
            id="a redirect",
        ),
    ],
)
async def test_a_web_server_that_is_no_llm_is_told_apart(
    session: aiohttp.ClientSession, path: str, response: web.Response
) -> None:
    async with web_server(path, response) as address:
        with pytest.raises(NotAnEngineError):
            await find_server(session, address)


async def test_no_model_at_all(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    any_server.models = ()
    with pytest.raises(NoChatModelError):
        await find_server(session, any_server.url)


@pytest.mark.parametrize(
    "reply",
    [
        failure(501, "This server does not support completions", "not_supported_error"),
        failure(404, "The model does not support Chat Completions API"),
        failure(400, "a chat template is needed"),
    ],
    ids=["llama.cpp", "vllm", "no template"],
)
async def test_a_model_that_cannot_chat(
    session: aiohttp.ClientSession, any_server: FakeServer, reply: object
) -> None:
    any_server.default = reply  # type: ignore[assignment]
    with pytest.raises(NoChatModelError):
        await find_server(session, any_server.url)


async def test_a_server_that_does_not_stream(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    any_server.streaming = False
    with pytest.raises(NoStreamingError):
        await find_server(session, any_server.url)


async def test_a_server_that_fails_at_a_short_question(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    any_server.default = raw("data: {}\n\n")
    with pytest.raises(ServerFaultError):
        await find_server(session, any_server.url)


async def test_a_server_that_does_not_answer_a_short_question(
    session: aiohttp.ClientSession,
    any_server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = "custom_components.fair_share.engines.chat_engine._TRIAL_LIMIT_S"
    monkeypatch.setattr(limit, 0.2)
    any_server.default = answer(asyncio.Event())
    with pytest.raises(UnreachableError, match="short question"):
        await find_server(session, any_server.url)


async def test_a_llama_cpp_is_known_by_its_web_server_too(
    session: aiohttp.ClientSession,
) -> None:
    models = web.json_response({"data": [{"id": "m"}]}, headers={"Server": "llama.cpp"})
    async with web_server("/v1/models", models) as address:
        http = ServerHttp(session, f"http://{address}")
        assert await identify(http) is EngineKind.LLAMA_CPP


async def test_the_usual_ports_are_tried_and_the_better_answer_is_told(
    session: aiohttp.ClientSession,
    any_server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ports = "custom_components.fair_share.engines.address._USUAL_PORTS"
    async with web_server("/", web.Response()) as other:
        monkeypatch.setattr(ports, (int(other.rpartition(":")[2]), any_server.port))
        found = await find_server(session, "127.0.0.1")
        assert found.address == any_server.url
        await any_server.stop()
        with pytest.raises(NotAnEngineError):
            await find_server(session, "127.0.0.1")


async def test_what_is_no_address_is_told(session: aiohttp.ClientSession) -> None:
    with pytest.raises(InvalidAddressError):
        await find_server(session, "ftp://host")


async def test_the_wanted_model_is_used_if_the_server_has_it(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    any_server.models = ("a", "b")
    assert (
        await find_server(session, any_server.url, model="b")
    ).capabilities.model == "b"
    found = await find_server(session, any_server.url, model="c")
    assert found.capabilities.model == "a"
    any_server.models = ("a", "c")
    assert (await found.engine.probe()).model == "c"
