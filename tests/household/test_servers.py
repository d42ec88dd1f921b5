"""Servers that are watched: how they come, go, fail and change."""

import asyncio
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from homeassistant.config_entries import SOURCE_REAUTH
from homeassistant.core import HomeAssistant
from homeassistant.helpers import issue_registry as ir
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.fair_share.admission.model import (
    Rejected,
    RejectReason,
    ServerCapacity,
)
from custom_components.fair_share.engines.base import (
    ClientFaultError,
    EngineError,
    StreamCutError,
    UnreachableError,
)
from custom_components.fair_share.household.runtime import Household
from custom_components.fair_share.household.servers import (
    ServerState,
    ServerView,
    WatchedServer,
)
from tests.common import household_entry, member, server, set_up, subentry, until
from tests.fake_server import FakeServer, answer, failure
from tests.household.conftest import Pass, say

type Asking = Callable[..., asyncio.Task[str]]


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant) -> None:
    """Load what every Home Assistant has loaded."""
    assert await async_setup_component(hass, "homeassistant", {})


async def home(hass: HomeAssistant, fake: FakeServer, **data: Any) -> MockConfigEntry:
    """Run a household with Parent on this server."""
    entry = household_entry(
        server(fake.url, kind=fake.kind, **data),
        member("parent", user_ids=("user_parent",)),
    )
    await set_up(hass, entry)
    return entry


def view(entry: MockConfigEntry) -> ServerView:
    """Return what the household knows of its only server."""
    household: Household = entry.runtime_data
    (only,) = household.servers.statuses()
    return only


def watched(entry: MockConfigEntry) -> WatchedServer:
    """Return the server that is watched."""
    household: Household = entry.runtime_data
    return household.servers.get("server")


def usable(entry: MockConfigEntry) -> list[bool]:
    """Return of every server in the queue whether it may be sent something."""
    return [status.usable for status in entry.runtime_data.status().servers]


def change(hass: HomeAssistant, entry: MockConfigEntry, **data: Any) -> None:
    """Change the data of the server."""
    known = entry.subentries["server"]
    hass.config_entries.async_update_subentry(
        entry, known, data=MappingProxyType({**known.data, **data})
    )


def reauths(hass: HomeAssistant) -> int:
    """Return how many dialogs ask for a key, and check that each has its issue."""
    flows = hass.config_entries.flow.async_progress()
    asked = [f for f in flows if f["context"]["source"] == SOURCE_REAUTH]
    issues = [i for i in ir.async_get(hass).issues if "reauth" in i[1]]
    assert len(issues) == len(asked)
    return len(asked)


async def test_a_server_that_answers_is_ready_with_what_it_tells(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    entry = await home(hass, fake)
    assert (view(entry).state, view(entry).detail) == (ServerState.READY, "")
    assert watched(entry).capacity() == ServerCapacity(
        "server", slots=2, context_tokens=4096, kv_tokens=4096
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
    for lost in running:
        with pytest.raises(StreamCutError):
            await lost
    await until(lambda: view(entry).state is ServerState.UNREACHABLE)
    assert usable(entry) == [False]
    assert (household.status().running, household.status().waiting) == (0, 1)
    fake.default = answer("back")
    await fake.start()
    await passes(6)
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


async def test_a_refused_key_is_asked_for_once(
    hass: HomeAssistant, fake: FakeServer, passes: Pass
) -> None:
    """See home-assistant/core #163023."""
    fake.api_key = "right"
    entry = await home(hass, fake, api_key="wrong")
    assert view(entry).state is ServerState.AUTH_FAILED
    for _ in range(3):
        checked_before = len(fake.requests)
        await passes(6)
        await until(lambda n=checked_before: len(fake.requests) > n)
    assert reauths(hass) == 1
    assert usable(entry) == []


async def test_a_key_that_is_right_again_is_no_longer_asked_for(
    hass: HomeAssistant, fake: FakeServer, asking: Asking
) -> None:
    fake.api_key = "right"
    entry = await home(hass, fake, api_key="wrong")
    assert reauths(hass) == 1
    change(hass, entry, api_key="right")
    await until(lambda: view(entry).state is ServerState.READY)
    assert reauths(hass) == 0
    assert await asking(entry.runtime_data) == "Hello from the fake"


async def test_the_key_of_a_removed_server_is_no_longer_asked_for(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    fake.api_key = "right"
    entry = await home(hass, fake, api_key="wrong")
    assert reauths(hass) == 1
    hass.config_entries.async_remove_subentry(entry, "server")
    await hass.async_block_till_done()
    assert reauths(hass) == 0


async def test_a_key_that_is_refused_later_is_asked_for(
    hass: HomeAssistant, fake: FakeServer, asking: Asking
) -> None:
    entry = await home(hass, fake)
    fake.api_key = "new"
    with pytest.raises(EngineError):
        await asking(entry.runtime_data)
    await until(lambda: view(entry).state is ServerState.AUTH_FAILED)
    await hass.async_block_till_done()
    assert reauths(hass) == 1


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


async def test_a_server_that_is_silent_does_not_hold_up_the_start(
    hass: HomeAssistant, fake: FakeServer, passes: Pass
) -> None:
    fake.silent = True
    starting = asyncio.ensure_future(home(hass, fake))
    await fake.wait_requests(1)
    await passes(4)
    entry = await starting
    assert view(entry).state is ServerState.UNREACHABLE


async def test_a_new_address_is_used_at_once(
    hass: HomeAssistant, fake: FakeServer, asking: Asking
) -> None:
    entry = await home(hass, fake)
    async with FakeServer() as other:
        other.default = answer("moved")
        change(hass, entry, url=other.url)
        await hass.async_block_till_done()
        await until(lambda: usable(entry) == [True])
        asked_before = len(fake.requests)
        assert await asking(entry.runtime_data) == "moved"
        assert len(fake.requests) == asked_before


async def test_a_running_answer_outlives_a_change_of_its_server(
    hass: HomeAssistant, fake: FakeServer, asking: Asking
) -> None:
    entry = await home(hass, fake)
    gate = asyncio.Event()
    fake.script(answer("one", gate, " two"))
    running = asking(entry.runtime_data)
    await until(lambda: entry.runtime_data.node_status("parent").tokens.output == 1)
    change(hass, entry, slots=1)
    await hass.async_block_till_done()
    await until(lambda: entry.runtime_data.status().servers[0].slots == 1)
    gate.set()
    assert await running == "one two"


async def test_a_new_name_does_not_disturb_the_watch(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    entry = await home(hass, fake)
    before = watched(entry)
    hass.config_entries.async_update_subentry(
        entry, entry.subentries["server"], title="Cellar"
    )
    await hass.async_block_till_done()
    assert watched(entry) is before
    assert view(entry).title == "Cellar"


async def test_a_removed_server_is_forgotten_and_what_it_does_says_nothing_more(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    entry = await home(hass, fake)
    removed = watched(entry)
    hass.config_entries.async_remove_subentry(entry, "server")
    await hass.async_block_till_done()
    household = entry.runtime_data
    assert (household.servers.statuses(), usable(entry)) == ([], [])
    removed.report(UnreachableError("too late"))
    assert usable(entry) == []
    with pytest.raises(UnreachableError, match="removed"):
        household.servers.get("server")


async def test_a_second_server_takes_over_and_a_dead_one_is_not_waited_for(
    hass: HomeAssistant, fake: FakeServer, asking: Asking
) -> None:
    """See hermes #13917."""
    entry = await home(hass, fake)
    async with FakeServer() as second:
        second.default = answer("second")
        hass.config_entries.async_add_subentry(
            entry, subentry(server(second.url, subentry_id="second"))
        )
        await hass.async_block_till_done()
        await until(lambda: usable(entry) == [True, True])
        await fake.stop()
        assert await asking(entry.runtime_data) == "second"
        asked = [await asking(entry.runtime_data) for _ in range(5)]
        assert asked == ["second"] * 5


async def test_a_household_without_a_server_has_no_limit_of_length(
    hass: HomeAssistant,
) -> None:
    entry = household_entry(member("parent", user_ids=("user_parent",)))
    await set_up(hass, entry)
    assert entry.runtime_data.context_limit() is None
    assert entry.runtime_data.servers.statuses() == []


async def test_an_answer_after_the_household_was_unloaded_is_not_begun(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    entry = await home(hass, fake)
    household = entry.runtime_data
    await hass.config_entries.async_unload(entry.entry_id)
    sent_before = len(fake.chats)
    with pytest.raises(Rejected) as refusal:
        await say(household)
    assert refusal.value.reason is RejectReason.CLOSED
    assert len(fake.chats) == sent_before
