"""What servers are told of a request's urgency and of whose it is."""

from collections.abc import Mapping

import aiohttp
import pytest

from custom_components.fair_share.engines.base import (
    ClientFaultError,
    Engine,
    EngineKind,
    EngineLoad,
    GenerationRequest,
    Origin,
)
from custom_components.fair_share.engines.probe import create_engine
from custom_components.fair_share.engines.scheduling_fields import (
    Scheduling,
    fairness_id,
)
from tests.engines.helpers import ask, deltas_of, error_of, finishes_of
from tests.fake_server import FakeServer, Received

URGENT = Origin(0, fairness_id("house", "parent"))
PATIENT = Origin(3, fairness_id("house", "child"))


def engine_with(
    session: aiohttp.ClientSession, server: FakeServer, scheduling: Scheduling
) -> Engine:
    """Return the engine for a server that schedules so."""
    kind = EngineKind(server.kind)
    return create_engine(session, server.url, None, kind, scheduling=scheduling)


def from_(origin: Origin) -> GenerationRequest:
    """Return a request that comes from there."""
    return ask(origin=origin)


def told_in_headers(chat: Received) -> Mapping[str, str]:
    """Return the headers that are not for HTTP itself."""
    return {
        name.lower(): value
        for name, value in chat.headers.items()
        if name.lower().startswith("x-")
    }


async def test_a_server_that_schedules_by_nothing_is_told_nothing(
    any_engine: Engine, any_server: FakeServer
) -> None:
    await deltas_of(any_engine, from_(URGENT))
    (chat,) = any_server.chats
    assert "priority" not in chat.body
    assert told_in_headers(chat) == {}


@pytest.mark.parametrize(("origin", "priority"), [(URGENT, 0), (PATIENT, 3)])
async def test_a_server_that_serves_by_priority_is_told_the_band(
    session: aiohttp.ClientSession,
    vllm_server: FakeServer,
    origin: Origin,
    priority: int,
) -> None:
    engine = engine_with(session, vllm_server, Scheduling.PRIORITY)
    await deltas_of(engine, from_(origin))
    (chat,) = vllm_server.chats
    assert chat.body["priority"] == priority
    assert told_in_headers(chat) == {}


async def test_the_front_of_a_cluster_is_told_band_and_member(
    session: aiohttp.ClientSession, any_server: FakeServer
) -> None:
    engine = engine_with(session, any_server, Scheduling.CLUSTER)
    await deltas_of(engine, from_(PATIENT))
    (chat,) = any_server.chats
    assert chat.body["priority"] == 3
    assert told_in_headers(chat) == {
        "x-llm-d-inference-fairness-id": PATIENT.fairness_id,
        "x-llm-d-inference-objective": "fair-share-band-3",
        "x-gateway-inference-fairness-id": PATIENT.fairness_id,
        "x-gateway-inference-objective": "fair-share-band-3",
    }


async def test_what_comes_from_nobody_is_told_as_nothing(
    session: aiohttp.ClientSession, vllm_server: FakeServer
) -> None:
    engine = engine_with(session, vllm_server, Scheduling.CLUSTER)
    await engine.probe()
    await deltas_of(engine, ask())
    assert not [chat for chat in vllm_server.chats if "priority" in chat.body]
    assert not [chat for chat in vllm_server.chats if told_in_headers(chat)]


async def test_a_refused_priority_is_left_out_from_then_on(
    session: aiohttp.ClientSession, vllm_server: FakeServer
) -> None:
    vllm_server.refuse = {"priority"}
    engine = engine_with(session, vllm_server, Scheduling.PRIORITY)
    for _ in range(2):
        assert finishes_of(await deltas_of(engine, from_(PATIENT))) == ["stop"]
    sent = ["priority" in chat.body for chat in vllm_server.chats]
    assert sent == [True, False, False]


async def test_no_client_gives_itself_a_priority(
    session: aiohttp.ClientSession, vllm_server: FakeServer
) -> None:
    engine = engine_with(session, vllm_server, Scheduling.PRIORITY)
    pushy = ask(origin=PATIENT, parameters={"priority": -100})
    await deltas_of(engine, pushy)
    assert vllm_server.chats[0].body["priority"] == 3


async def test_a_refused_parameter_of_the_client_stays_its_own(
    session: aiohttp.ClientSession, vllm_server: FakeServer
) -> None:
    vllm_server.refuse = {"reasoning_format"}
    engine = engine_with(session, vllm_server, Scheduling.NONE)
    wanted = ask(parameters={"reasoning_format": "none"})
    error = await error_of(deltas_of(engine, wanted))
    assert isinstance(error, ClientFaultError)
    assert len(vllm_server.chats) == 1


async def test_the_front_of_a_cluster_is_not_asked_for_the_load_of_one_server(
    session: aiohttp.ClientSession,
) -> None:
    async with FakeServer("vllm", kv_tokens=4096) as server:
        server.hide = {"/health", "/metrics", "/version", "/tokenize"}
        engine = engine_with(session, server, Scheduling.CLUSTER)
        capabilities = await engine.probe()
        assert await engine.load() == EngineLoad()
    assert "/metrics" not in {received.path for received in server.requests}
    assert (capabilities.slots, capabilities.kv_tokens) == (None, None)
    assert (capabilities.counts_tokens, capabilities.resume) == (False, None)
    assert capabilities.context_tokens == server.context_tokens


def test_the_id_of_a_member_is_always_the_same_and_tells_no_name() -> None:
    told = fairness_id("01HOUSE", "parent")
    assert told == fairness_id("01HOUSE", "parent")
    assert "parent" not in told
    assert told.isascii()
    assert len(told) == 19


def test_members_of_two_households_have_different_ids() -> None:
    told = {fairness_id(h, m) for h in ("one", "two") for m in ("guest", "shared")}
    assert len(told) == 4
