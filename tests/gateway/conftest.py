"""A household with a gateway, and a program that talks to it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
import json
from typing import Any

import aiohttp
from aiohttp.test_utils import TestClient
from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry
from pytest_homeassistant_custom_component.typing import ClientSessionGenerator

from custom_components.fair_share.const import GATEWAY_PATH
from custom_components.fair_share.household.runtime import Household
from tests.common import client, household_entry, member, server, set_up
from tests.continuing_engine import ContinuingServer
from tests.fake_server import FakeServer, answer

KEY = "fs-key-of-the-desktop"
CHILD_KEY = "fs-key-of-the-child"
SHARED_KEY = "fs-key-of-everybody"
CHAT = f"{GATEWAY_PATH}/chat/completions"
HELLO: Mapping[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}


def sent(data: bytes) -> list[Any]:
    """Return the events in the bytes of a stream, comments left out."""
    events = data.decode().split("\n\n")
    told = [each.removeprefix("data: ") for each in events if each.startswith("data")]
    return [each if each == "[DONE]" else json.loads(each) for each in told]


def text_of(events: list[Any]) -> str:
    """Return the text of a streamed chat."""
    return "".join(
        choice["delta"].get("content") or ""
        for each in events
        if isinstance(each, dict)
        for choice in each.get("choices", ())
    )


@dataclass
class Program:
    """A program of the house that has a key."""

    http: TestClient[Any, Any]
    key: str = KEY
    headers: dict[str, str] = field(default_factory=dict)

    async def post(
        self, path: str = CHAT, body: Any = HELLO, **headers: str
    ) -> aiohttp.ClientResponse:
        """Send a request."""
        return await self.http.post(path, json=body, headers=self._headers(headers))

    async def get(self, path: str, **headers: str) -> aiohttp.ClientResponse:
        """Read a path."""
        return await self.http.get(path, headers=self._headers(headers))

    async def chat(self, **body: Any) -> Mapping[str, Any]:
        """Have a whole answer."""
        response = await self.post(body={**HELLO, **body})
        assert response.status == 200, await response.text()
        told: Mapping[str, Any] = await response.json()
        return told

    async def stream(self, **body: Any) -> list[Any]:
        """Have an answer streamed."""
        response = await self.post(body={**HELLO, "stream": True, **body})
        assert response.status == 200, await response.text()
        return sent(await response.read())

    async def refused(self, **body: Any) -> tuple[int, Mapping[str, Any]]:
        """Return the status and the error of a request that is refused."""
        response = await self.post(body={**HELLO, **body})
        return response.status, (await response.json())["error"]

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        key = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        more = {name.replace("_", "-"): value for name, value in more.items()}
        return {**key, **self.headers, **more}


@dataclass
class House:
    """The household behind the gateway, its server and a program."""

    hass: HomeAssistant
    entry: MockConfigEntry
    server: FakeServer
    program: Program

    @property
    def household(self) -> Household:
        """The running household."""
        household: Household = self.entry.runtime_data
        return household

    def other(self, key: str) -> Program:
        """Return a program with another key."""
        return Program(self.program.http, key)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits or runs, in the queue and on the server."""
        status = self.household.status()
        return not (status.waiting or status.running or self.server.running)


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant, socket_enabled: None) -> None:
    """Load what every Home Assistant has loaded, and open the loopback."""
    assert await async_setup_component(hass, "homeassistant", {})


type MakeHouse = Callable[..., Awaitable[House]]


@pytest.fixture
async def make_house(
    hass: HomeAssistant, hass_client_no_auth: ClientSessionGenerator
) -> AsyncIterator[MakeHouse]:
    """Make a household before a server; ``clients`` are its clients."""
    made: list[House] = []

    async def make(
        *clients: Any,
        kind: str = "llama_cpp",
        slots: int = 2,
        options: dict[str, Any] | None = None,
        members: tuple[Any, ...] | None = None,
        vision: bool = False,
        audio: bool = False,
        **more: Any,
    ) -> House:
        fake = (
            ContinuingServer(slots=slots, **more)
            if kind == "llama_cpp"
            else FakeServer(kind, slots=slots, **more)
        )
        fake.vision, fake.audio = vision, audio
        fake.default = answer("Hel", "lo", ".")
        await fake.start()
        extra: dict[str, Any] = {} if kind == "llama_cpp" else {"slots": slots}
        entry = household_entry(
            server(fake.url, kind=kind, **extra),
            *(
                members
                or (
                    member("parent", user_ids=("user_parent",)),
                    member("child", user_ids=("user_child",)),
                )
            ),
            *(
                clients
                or (
                    client("desktop", KEY, "parent"),
                    client("tablet", CHILD_KEY, "child"),
                    client("kitchen", SHARED_KEY),
                )
            ),
            options=options,
        )
        await set_up(hass, entry)
        house = House(hass, entry, fake, Program(await hass_client_no_auth()))
        made.append(house)
        return house

    yield make
    for house in made:
        await hass.config_entries.async_unload(house.entry.entry_id)
        await house.server.stop()


@pytest.fixture
async def house(make_house: MakeHouse) -> House:
    """A household with a llama.cpp server of two slots and three clients."""
    return await make_house()


async def soon(condition: Callable[[], bool]) -> None:
    """Let everything else go on until the condition holds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - many different things are awaited so
            await asyncio.sleep(0.01)
