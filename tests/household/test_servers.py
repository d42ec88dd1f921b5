"""Servers that are watched: how they come, go and fail."""

import asyncio
from typing import Any

from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import (
    ServerCapacity,
)
from custom_components.fair_share.engines.base import (
    ClientFaultError,
    StreamCutError,
    UnreachableError,
)
from custom_components.fair_share.engines.llama_cpp import LlamaCppEngine
from custom_components.fair_share.household.servers import (
    ServerState,
)
from tests.common import until
from tests.fake_replies import Failure
from tests.fake_server import FakeServer, answer, failure
from tests.household.conftest import (
    Asking,
    Pass,
    home,
    usable,
    view,
    watched,
)


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant) -> None:
    """Load what every Home Assistant has loaded."""
    assert await async_setup_component(hass, "homeassistant", {})


async def test_a_server_that_answers_is_ready_with_what_it_tells(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    entry = await home(hass, fake)
    assert (view(entry).state, view(entry).detail) == (ServerState.READY, "")
    assert watched(entry).capacity() == ServerCapacity(
        "server", slots=2, context_tokens=4096, kv_tokens=4096, learns=True
    )
    assert entry.runtime_data.context_limit() == 4096


@pytest.mark.parametrize(
    ("kind", "data", "slots", "context", "pool"),
    [
        pytest.param("llama_cpp", {"slots": 1}, 1, 4096, 4096, id="fewer slots"),
        pytest.param("llama_cpp", {"slots": 9}, 2, 4096, 4096, id="not more"),
        pytest.param("llama_cpp", {"context_tokens": 900}, 2, 900, 4096, id="less"),
        pytest.param("llama_cpp", {"memory": "shared"}, 2, 4096, 4096, id="one pool"),
        pytest.param("llama_cpp", {"memory": "separate"}, 2, 4096, None, id="own"),
        pytest.param("vllm", {}, 1, 4096, 8192, id="slots not told"),
        pytest.param("vllm", {"slots": 7.0}, 7, 4096, 8192, id="slots declared"),
        pytest.param("openai_compatible", {}, 1, 4096, None, id="nothing told"),
        pytest.param(
            "openai_compatible",
            {"slots": 3, "context_tokens": 16000},
            3,
            16000,
            None,
            id="all declared",
        ),
    ],
)
async def test_what_a_server_tells_and_what_is_declared_make_its_capacity(
    hass: HomeAssistant,
    socket_enabled: None,
    kind: str,
    data: dict[str, Any],
    slots: int,
    context: int,
    pool: int | None,
) -> None:
    async with FakeServer(kind, slots=2, context_tokens=4096) as fake:
        capacity = watched(await home(hass, fake, **data)).capacity()
    assert capacity is not None
    assert (capacity.slots, capacity.context_tokens) == (slots, context)
    assert capacity.kv_tokens == pool


async def test_a_server_that_was_restarted_is_measured_again(
    hass: HomeAssistant, fake: FakeServer, passes: Pass
) -> None:
    """See llama.cpp #11681."""
    entry = await home(hass, fake)
    fake.context_tokens, fake.slots = 1024, 4
    await passes(61)
    await until(lambda: entry.runtime_data.context_limit() == 1024)
    assert entry.runtime_data.status().servers[0].slots == 4


async def test_a_server_that_is_away_at_the_start_is_used_when_it_comes(
    hass: HomeAssistant, fake: FakeServer, passes: Pass, asking: Asking
) -> None:
    """See home-assistant/core #144669."""
    await fake.stop()
    entry = await home(hass, fake)
    assert view(entry).state is ServerState.UNREACHABLE
    assert watched(entry).capacity() is None
    assert entry.runtime_data.context_limit() is None
    waiting = asking(entry.runtime_data)
    await until(lambda: entry.runtime_data.status().waiting == 1)
    await fake.start()
    await passes(6)
    assert await waiting == "Hello from the fake"
    assert view(entry).state is ServerState.READY


async def test_a_server_that_dies_comes_back_without_a_reload_and_work_goes_on(
    hass: HomeAssistant, fake: FakeServer, passes: Pass, asking: Asking
) -> None:
    entry = await home(hass, fake)
    household = entry.runtime_data
    fake.default = answer("one", asyncio.Event())
    running = [asking(household), asking(household)]
    await until(lambda: household.node_status("parent").tokens.output == 2)
    waiting = asking(household)
    await until(lambda: household.status().waiting == 1)
    await fake.stop()
    await until(lambda: view(entry).state is ServerState.UNREACHABLE)
    assert usable(entry) == [False]
    # Those that were cut wait too; but this server will not go on with an answer.
    await until(lambda: household.status().waiting == 3)
    fake.default = answer("back")
    await fake.start()
    await passes(6)
    for lost in running:
        with pytest.raises(StreamCutError):
            await lost
    assert await waiting == "back"
    assert entry.runtime_data is household


@pytest.mark.parametrize("kind", ["llama_cpp", "vllm"])
async def test_while_a_server_loads_requests_wait_and_nobody_calls_it_gone(
    hass: HomeAssistant, socket_enabled: None, passes: Pass, asking: Asking, kind: str
) -> None:
    """See docker/model-runner #170: older builds list models while they load them."""
    async with FakeServer(kind) as fake:
        fake.loading = fake.models_while_loading = True
        entry = await home(hass, fake)
        assert view(entry).state is ServerState.LOADING
        waiting = asking(entry.runtime_data)
        await until(lambda: entry.runtime_data.status().waiting == 1)
        assert fake.chats == []
        fake.loading = False
        await passes(2)
        assert await waiting == "Hello from the fake"


async def test_a_server_that_has_no_room_is_asked_again_after_a_moment(
    hass: HomeAssistant, fake: FakeServer, passes: Pass, asking: Asking
) -> None:
    entry = await home(hass, fake)
    fake.script(failure(429, "busy", "rate_limit"))
    refused = asking(entry.runtime_data)
    await until(lambda: view(entry).state is ServerState.LOADING)
    asked_before = len(fake.requests)
    await passes(0.5)
    assert len(fake.requests) == asked_before
    await passes(2)
    assert await refused == "Hello from the fake"


async def test_something_else_at_the_address_is_a_wrong_server(
    hass: HomeAssistant, fake: FakeServer, passes: Pass
) -> None:
    fake.override["/v1/models"] = failure(200, "I am a printer")
    entry = await home(hass, fake)
    assert view(entry).state is ServerState.WRONG_SERVER
    assert view(entry).detail
    fake.override.clear()
    await passes(6)
    await until(lambda: view(entry).state is ServerState.READY)
    assert view(entry).detail == ""


async def test_a_failure_closes_the_server_until_the_next_check(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    entry = await home(hass, fake)
    watched(entry).report(UnreachableError("no route"))
    assert (view(entry).state, view(entry).detail) == (
        ServerState.UNREACHABLE,
        "no route",
    )
    assert usable(entry) == [False]
    await until(lambda: usable(entry) == [True])


async def test_a_fault_of_a_request_says_nothing_about_the_server(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    entry = await home(hass, fake)
    watched(entry).report(ClientFaultError("bad grammar"))
    assert view(entry).state is ServerState.READY


async def test_whatever_goes_wrong_in_a_check_the_next_one_comes(
    hass: HomeAssistant,
    fake: FakeServer,
    passes: Pass,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    checks = []

    async def probe(_engine: object) -> None:
        checks.append(1)
        raise ValueError("what nobody thought of")

    entry = await home(hass, fake)
    with monkeypatch.context() as patch:
        patch.setattr(LlamaCppEngine, "probe", probe)
        watched(entry).report(UnreachableError())
        await until(lambda: len(checks) == 1)
        await passes(6)
        await until(lambda: len(checks) == 2)
        assert view(entry).state is ServerState.UNREACHABLE
        assert usable(entry) == [False]
    await passes(6)
    await until(lambda: usable(entry) == [True])
    assert caplog.text.count("not provided for (ValueError)") == 1
    assert "nobody thought of" not in caplog.text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/models", '{"data": 5}'),
        ("/metrics", "llamacpp:requests_processing NaN"),
    ],
)
async def test_an_odd_answer_does_not_lose_the_server(
    hass: HomeAssistant, fake: FakeServer, passes: Pass, path: str, body: str
) -> None:
    entry = await home(hass, fake)
    fake.override[path] = Failure(200, body)
    asked = sum(request.path == path for request in fake.requests)
    watched(entry).report(UnreachableError())
    await until(lambda: sum(r.path == path for r in fake.requests) > asked)
    fake.override.clear()
    await passes(6)
    await until(lambda: usable(entry) == [True])


async def test_a_server_that_is_silent_does_not_hold_up_the_start(
    hass: HomeAssistant, fake: FakeServer, passes: Pass
) -> None:
    fake.silent = True
    starting = asyncio.ensure_future(home(hass, fake))
    await fake.wait_requests(1)
    await passes(4)
    entry = await starting
    assert view(entry).state is ServerState.UNREACHABLE
