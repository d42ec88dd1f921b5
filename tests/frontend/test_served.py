"""The script reaches browsers, and is told which device is what."""

import re

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
from homeassistant.helpers import device_registry as dr
from homeassistant.loader import async_get_integration
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockUser
from pytest_homeassistant_custom_component.typing import (
    ClientSessionGenerator,
    WebSocketGenerator,
)

from tests.frontend.conftest import SCRIPT


@pytest.fixture
def onboarded(hass_storage: dict[str, object]) -> None:
    """Let Home Assistant have been set up before, so that it shows its usual page."""
    done = ["user", "core_config", "analytics", "integration"]
    hass_storage["onboarding"] = {"version": 4, "data": {"done": done}}


@pytest.fixture
async def page(
    onboarded: None, entry: ConfigEntry, hass_client_no_auth: ClientSessionGenerator
) -> str:
    """What every browser loads first."""
    client = await hass_client_no_auth()
    return await (await client.get("/")).text()


async def test_every_browser_is_told_to_load_the_script_of_this_version(
    hass: HomeAssistant, page: str, hass_client_no_auth: ClientSessionGenerator
) -> None:
    (url,) = re.findall(r'import\("(/fair_share/[^"]*)"\)', page)
    version = (await async_get_integration(hass, "fair_share")).version
    assert f"/{version}/" in url

    client = await hass_client_no_auth()
    response = await client.get(url)
    assert response.status == 200
    assert response.content_type == "text/javascript"
    assert await response.text() == SCRIPT.read_text(encoding="utf-8")


async def test_a_home_assistant_without_a_frontend_is_no_problem(
    hass: HomeAssistant,
) -> None:
    assert await async_setup_component(hass, "homeassistant", {})
    assert await async_setup_component(hass, "fair_share", {})
    assert "frontend" not in hass.config.components


async def test_everybody_who_is_logged_in_may_know_which_device_is_what(
    hass: HomeAssistant,
    entry: ConfigEntry,
    device_registry: dr.DeviceRegistry,
    hass_ws_client: WebSocketGenerator,
    hass_admin_user: MockUser,
) -> None:
    hass_admin_user.groups = []
    client = await hass_ws_client(hass)
    await client.send_json_auto_id({"type": "fair_share/devices"})
    answer = (await client.receive_json())["result"]

    names = {
        kind: [device_registry.async_get(device_id).name for device_id in device_ids]
        for kind, device_ids in answer.items()
    }
    assert names == {
        "household": ["Fair Share household"],
        "server": ["My server"],
        "member": ["Parent", "Child", "Guests", "Shared"],
        "device": ["Kitchen satellite"],
        "workload": [
            "Voice requests",
            "Accessibility requests",
            "Chat requests",
            "Task requests",
            "Background requests",
        ],
    }
