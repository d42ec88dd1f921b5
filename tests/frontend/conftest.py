"""A household like that of the demo, in a Home Assistant with a frontend."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
import json
from pathlib import Path
import shutil
from typing import Any

from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry
from pytest_homeassistant_custom_component.typing import WebSocketGenerator

from tests.common import device, household_entry, member, server, set_up
from tests.fake_server import FakeServer
from tests.metadata.source import PACKAGE

SCRIPT = PACKAGE / "dashboard" / "fair-share.js"
_RUNNER = Path(__file__).with_name("generate.mjs")

type Json = dict[str, Any]
type Generate = Callable[..., Awaitable[Json]]


@pytest.fixture
async def frontend(hass: HomeAssistant, socket_enabled: None) -> None:
    """Home Assistant's frontend, which is there before the integrations are."""
    assert await async_setup_component(hass, "homeassistant", {})
    assert await async_setup_component(hass, "frontend", {})


@pytest.fixture
async def entry(hass: HomeAssistant, frontend: None) -> AsyncIterator[MockConfigEntry]:
    """Parent, Child with a quota, a satellite in the kitchen and one server."""
    async with FakeServer("llama_cpp", slots=2) as fake:
        satellite = device("satellite", "d_satellite", "parent", workload="voice")
        satellite["title"] = "Kitchen satellite"
        box = server(fake.url)
        box["title"] = "My server"
        entry = household_entry(
            box, member("parent"), member("child", quota_tokens=20_000), satellite
        )
        await set_up(hass, entry)
        yield entry


@pytest.fixture
async def registries(
    hass: HomeAssistant, hass_ws_client: WebSocketGenerator
) -> Callable[[], Awaitable[Json]]:
    """Tell what a browser knows of the entities and devices."""

    async def registries() -> Json:
        client = await hass_ws_client(hass)
        await client.send_json_auto_id(
            {"type": "config/entity_registry/list_for_display"}
        )
        entities = (await client.receive_json())["result"]["entities"]
        await client.send_json_auto_id({"type": "fair_share/devices"})
        devices = (await client.receive_json())["result"]
        return {
            "devices": devices,
            "entities": {
                entity["ei"]: {
                    "entity_id": entity["ei"],
                    "platform": entity["pl"],
                    "device_id": entity.get("di"),
                    "translation_key": entity.get("tk"),
                    "hidden": entity.get("hb", False),
                }
                for entity in entities
            },
        }

    return registries


async def run_script(strategy: str = "dashboard", **known: object) -> Json:
    """Return what the script makes of what a browser knows, and what it offers."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node to run the dashboard's script")
    process = await asyncio.create_subprocess_exec(
        node,
        str(_RUNNER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    browser = {"script": str(SCRIPT), "strategy": strategy, "language": "en", **known}
    output, _ = await process.communicate(json.dumps(browser).encode())
    assert process.returncode == 0
    made: Json = json.loads(output)
    return made


@pytest.fixture
def generate(registries: Callable[[], Awaitable[Json]]) -> Generate:
    """Make the dashboard of the household, as an administrator sees it."""

    async def generate(strategy: str = "dashboard", **changes: object) -> Json:
        known = await registries() | {"user": {"is_admin": True}} | changes
        config: Json = (await run_script(strategy, **known))["config"]
        return config

    return generate
