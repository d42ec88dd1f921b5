"""Servers that schedule by themselves are told of a request what the queue knows."""

from collections.abc import AsyncIterator

from homeassistant.core import Context, HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import Workload
from custom_components.fair_share.const import (
    CONF_SCHEDULING,
    SCHEDULING_CLUSTER,
    SCHEDULING_NONE,
    SCHEDULING_PRIORITY,
)
from custom_components.fair_share.engines.base import GenerationRequest
from custom_components.fair_share.household.generation import Ask
from custom_components.fair_share.household.runtime import Household
from tests.common import household_entry, member, server, set_up, until
from tests.documented import documented_request
from tests.fake_server import FakeServer, Received

FAIRNESS = "x-llm-d-inference-fairness-id"


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant, socket_enabled: None) -> None:
    """Load what every Home Assistant has loaded, and open the loopback."""
    assert await async_setup_component(hass, "homeassistant", {})


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    async with FakeServer("vllm") as fake:
        yield fake


async def asked(
    hass: HomeAssistant, fake: FakeServer, scheduling: str, *asks: tuple[str, Workload]
) -> list[Received]:
    """Return what the server received when members asked, one after the other."""
    entry = household_entry(
        server(
            fake.url,
            kind=fake.kind,
            model=fake.models[0],
            **{CONF_SCHEDULING: scheduling},
        ),
        *(member(name, user_ids=(f"user_{name}",)) for name in ("parent", "child")),
    )
    await set_up(hass, entry)
    household: Household = entry.runtime_data
    await until(lambda: bool(list(household.servers.ready())))
    probes = len(fake.chats)
    for name, workload in asks:
        asker = household.identity.resolve(Context(user_id=f"user_{name}"), None, None)
        request = GenerationRequest([{"role": "user", "content": "hello"}], 64)
        async with household.generate(Ask(asker, workload, request)) as deltas:
            async for _ in deltas:
                pass
    await hass.config_entries.async_unload(entry.entry_id)
    return fake.chats[probes:]


async def test_a_server_with_priorities_gets_the_band_of_each_workload(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    workloads = (Workload.VOICE, Workload.CHAT, Workload.TASK, Workload.BACKGROUND)
    asks = [("parent", workload) for workload in workloads]
    chats = await asked(hass, fake, SCHEDULING_PRIORITY, *asks)
    assert [chat.body["priority"] for chat in chats] == [0, 1, 2, 3]
    assert not [chat for chat in chats if FAIRNESS in chat.headers]


async def test_a_cluster_tells_members_apart_without_their_names(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    asks = [(name, Workload.CHAT) for name in ("parent", "child", "parent")]
    chats = await asked(hass, fake, SCHEDULING_CLUSTER, *asks)
    first, other, again = [chat.headers[FAIRNESS] for chat in chats]
    assert first == again != other
    sent = " ".join(f"{chat.headers} {chat.body}" for chat in chats).lower()
    assert "parent" not in sent
    assert "child" not in sent


async def test_the_documented_request_is_the_one_that_is_sent(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    documented = documented_request("beyond-one-server.md")
    fake.models = (documented.body["model"],)
    spoken = ("parent", Workload.VOICE)
    (chat,) = await asked(hass, fake, SCHEDULING_CLUSTER, spoken)
    sent = {name.lower(): value for name, value in chat.headers.items()}
    assert chat.body == documented.body
    assert documented.headers == {
        name: value
        for name, value in sent.items()
        if name.startswith("x-") or name == "content-type"
    }


async def test_any_other_server_gets_nothing_of_that(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    (chat,) = await asked(hass, fake, SCHEDULING_NONE, ("parent", Workload.BACKGROUND))
    assert "priority" not in chat.body
    assert not [name for name in chat.headers if name.lower().startswith("x-")]
