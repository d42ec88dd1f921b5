"""A running household with a fake server, and ways to use it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from freezegun.api import FrozenDateTimeFactory
from homeassistant.config_entries import ConfigEntry
from homeassistant.core import Context, HomeAssistant, State
from homeassistant.helpers import device_registry as dr, entity_registry as er
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import async_fire_time_changed

from custom_components.fair_share.admission.model import Workload
from custom_components.fair_share.admission.status import RequestStatus
from custom_components.fair_share.engines.base import Delta, GenerationRequest
from custom_components.fair_share.household.generation import Ask
from custom_components.fair_share.household.runtime import Household
from tests.common import device, household_entry, member, server, set_up
from tests.fake_server import FakeServer, answer

type Talk = Callable[..., Awaitable[list[Delta]]]
type Elapse = Callable[[float], Awaitable[None]]
type Sensor = Callable[[str], State]
type Show = Callable[[str], str]


@pytest.fixture(autouse=True)
async def _home(
    hass: HomeAssistant, freezer: FrozenDateTimeFactory, socket_enabled: None
) -> None:
    """Load what every real Home Assistant has loaded, and open the loopback.

    Time stands still from here on, far from any midnight: if it stopped later, whatever
    had begun by then would see it jump.
    """
    freezer.move_to("2026-11-30T20:00:00+00:00")
    assert await async_setup_component(hass, "homeassistant", {})


@pytest.fixture
async def llama() -> AsyncIterator[FakeServer]:
    """A llama.cpp server with two slots."""
    async with FakeServer("llama_cpp", slots=2, context_tokens=4096) as fake:
        yield fake


@pytest.fixture
async def entry(hass: HomeAssistant, llama: FakeServer) -> ConfigEntry:
    """Parent with a quota and a telephone, Child with twice her weight and no quota."""
    entry = household_entry(
        server(llama.url),
        member("parent", user_ids=("user_parent",), quota_tokens=100),
        member("child", user_ids=("user_child",), weight=2.0),
        device("phone", "d_phone", "parent", workload="chat"),
    )
    await set_up(hass, entry)
    return entry


@pytest.fixture
def household(entry: ConfigEntry[Household]) -> Household:
    """The running household."""
    return entry.runtime_data


@pytest.fixture
def talk(hass: HomeAssistant, household: Household) -> Talk:
    """Let a user ask something, and return what was answered."""

    async def talk(
        user_id: str | None,
        text: str = "hello",
        *,
        device_id: str | None = None,
        context: Context | None = None,
    ) -> list[Delta]:
        context = context or Context(user_id=user_id)
        asker = household.identity.resolve(context, device_id, None)
        request = GenerationRequest(
            [{"role": "user", "content": text}], max_output_tokens=64
        )
        ask = Ask(asker, asker.workload or Workload.CHAT, request)
        async with household.generate(ask) as deltas:
            answer = [delta async for delta in deltas]
        await hass.async_block_till_done()
        return answer

    return talk


@dataclass
class Talking:
    """Answers that are held until they may end."""

    gate: asyncio.Event
    tasks: list[asyncio.Task[list[Delta]]]

    async def end(self) -> list[list[Delta] | BaseException]:
        """Let them all end; return what came of each."""
        self.gate.set()
        return await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.fixture
async def two_talk(
    hass: HomeAssistant, llama: FakeServer, household: Household, talk: Talk
) -> Talking:
    """Parent and Child hold both slots after one token each; Parent waits once more."""
    gate = asyncio.Event()
    llama.default = answer("one", gate, " two")
    tasks = []
    for user, waiting, running in (
        ("user_parent", 0, 1),
        ("user_child", 0, 2),
        ("user_parent", 1, 2),
    ):
        tasks.append(hass.async_create_background_task(talk(user), f"talk {user}"))
        await until(lambda r=running: len(streaming(household)) == r)
        await until(lambda w=waiting: household.status().waiting == w)
    return Talking(gate, tasks)


def streaming(household: Household) -> list[RequestStatus]:
    """Return the requests that have got their first token."""
    return [r for r in household.status().requests if r.output_tokens]


async def until(condition: Callable[[], bool]) -> None:
    """Let everything else go on until the condition holds."""
    while not condition():  # noqa: ASYNC110 - many different things are awaited so
        await asyncio.sleep(0)


@pytest.fixture
def elapse(hass: HomeAssistant, freezer: FrozenDateTimeFactory) -> Elapse:
    """Let so many seconds pass."""

    async def elapse(seconds: float) -> None:
        freezer.tick(seconds)
        async_fire_time_changed(hass)
        await hass.async_block_till_done()

    return elapse


@pytest.fixture
def sensor(hass: HomeAssistant, entity_registry: er.EntityRegistry) -> Sensor:
    """Find the state of a sensor by its unique id."""

    def sensor(unique_id: str) -> State:
        entity_id = entity_registry.async_get_entity_id(
            "sensor", "fair_share", unique_id
        )
        assert entity_id is not None, unique_id
        state = hass.states.get(entity_id)
        assert state is not None, entity_id
        return state

    return sensor


@pytest.fixture
def show(sensor: Sensor) -> Show:
    """Return what a sensor shows."""
    return lambda unique_id: sensor(unique_id).state


def found_device(
    registry: dr.DeviceRegistry, entry: ConfigEntry, identifier: str
) -> dr.DeviceEntry:
    """Return the device with this identifier."""
    found = registry.async_get_device_by_identifier(
        ("fair_share", identifier), entry.entry_id
    )
    assert found is not None, identifier
    return found


def unique_ids(
    registry: er.EntityRegistry, entry: ConfigEntry, prefix: str
) -> set[str]:
    """Return what the sensors of one node or server show."""
    return {
        entity.unique_id.removeprefix(f"{prefix}_")
        for entity in er.async_entries_for_config_entry(registry, entry.entry_id)
        if entity.unique_id.startswith(f"{prefix}_")
    }


MEMBER_KEYS = {
    "queue_depth",
    "tokens_window",
    "quota_remaining",
    "quota_remaining_percent",
    "next_reset",
    "tokens_served",
    "last_wait",
    "last_ttft",
    "preemptions",
    "rejected",
    "member_state",
    "share_observed",
    "share_entitled",
    "wait_p95",
    "ttft_p95",
    "itl_p95",
    "completion_p95",
    "quota_exhausted",
    "events_member",
    "events_answers",
}
"""What every member and device has."""

SHARE_KEYS = {"weight", "quota_tokens"}
"""What those have besides who can have rules of their own."""
