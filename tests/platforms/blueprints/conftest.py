"""A household whose blueprints are installed, and what they told."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
import shutil

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant, ServiceCall
import pytest
from pytest_homeassistant_custom_component.common import async_mock_service

from tests.common import device, household_entry, member, server, set_up
from tests.fake_server import FakeServer
from tests.platforms.blueprints.from_blueprint import FOLDER


@pytest.fixture
def hass_config_dir(hass_tmp_config_dir: str) -> str:
    """Use a folder in which our blueprints are where an import puts them."""
    target = Path(hass_tmp_config_dir) / "blueprints" / "automation" / "fair-share"
    shutil.copytree(FOLDER, target, dirs_exist_ok=True)
    return hass_tmp_config_dir


@pytest.fixture
async def entry(hass: HomeAssistant, llama: FakeServer) -> ConfigEntry:
    """Child with a quota and a telephone, Parent without, and a server."""
    gpu_box = server(llama.url)
    gpu_box["title"] = "GPU box"
    entry = household_entry(
        gpu_box,
        member("parent", user_ids=("user_parent",)),
        member("child", user_ids=("user_child",), quota_tokens=100),
        device("phone", "d_phone", "child", workload="chat"),
    )
    await set_up(hass, entry)
    return entry


@pytest.fixture
def sent(hass: HomeAssistant) -> list[ServiceCall]:
    """What was sent to telephones."""
    return async_mock_service(hass, "notify", "send_message")


@pytest.fixture
def shown(hass: HomeAssistant) -> list[ServiceCall]:
    """What was shown in Home Assistant."""
    return async_mock_service(hass, "persistent_notification", "create")


@pytest.fixture(autouse=True)
async def _waiting_automations(
    hass: HomeAssistant, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """Let everything go on that can: an automation that waits is not waited for."""

    async def settle(*_args: object, **_options: object) -> None:
        for _ in range(300):
            await asyncio.sleep(0)

    monkeypatch.setattr(hass, "async_block_till_done", settle)
    yield
    if hass.states.get("automation.a") is not None:
        await hass.services.async_call(
            "automation", "turn_off", {"entity_id": "automation.a"}, blocking=True
        )
