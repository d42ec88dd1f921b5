"""The page on system information."""

import json
from typing import Any

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
from pytest_homeassistant_custom_component.common import get_system_health_info

from tests.metadata.source import PACKAGE
from tests.platforms.conftest import Talking

VERSION = json.loads((PACKAGE / "manifest.json").read_text())["version"]


async def _info(hass: HomeAssistant) -> dict[str, Any]:
    assert await async_setup_component(hass, "system_health", {})
    await hass.async_block_till_done()
    return await get_system_health_info(hass, "fair_share")


async def test_it_tells_how_the_household_is(
    hass: HomeAssistant, entry: ConfigEntry, two_talk: Talking
) -> None:
    assert await _info(hass) == {
        "version": VERSION,
        "servers": "1/1",
        "engines": "llama_cpp",
        "waiting": 1,
        "running": 2,
        "policy": "equal_tokens",
    }
    await two_talk.end()


async def test_without_a_household_it_tells_the_version(
    hass: HomeAssistant, entry: ConfigEntry
) -> None:
    assert await hass.config_entries.async_unload(entry.entry_id)
    assert await _info(hass) == {"version": VERSION}
