"""Usage and entities outlive reloads and kills."""

from copy import deepcopy
from typing import Any

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
from homeassistant.helpers import entity_registry as er

from custom_components.fair_share.admission.model import (
    Rejected,
)
from tests.platforms.conftest import Elapse, Show, Talk, Talking


async def test_usage_survives_a_reload(
    hass: HomeAssistant, entry: ConfigEntry, talk: Talk, show: Show
) -> None:
    await talk("user_parent")
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    assert show("parent_tokens_served") == "6"
    assert show("parent_quota_remaining") == "94"
    assert show("household_entry_tokens_served") == "6"


async def test_usage_survives_a_kill_a_few_seconds_later(
    hass: HomeAssistant,
    hass_storage: dict[str, Any],
    entry: ConfigEntry,
    talk: Talk,
    show: Show,
    elapse: Elapse,
) -> None:
    await talk("user_parent")
    await elapse(3)
    killed = deepcopy(hass_storage["fair_share.household_entry"])

    await hass.config_entries.async_unload(entry.entry_id)
    hass_storage["fair_share.household_entry"] = killed
    assert await hass.config_entries.async_setup(entry.entry_id)
    await hass.async_block_till_done()

    assert show("parent_tokens_served") == "6"
    assert show("parent_quota_remaining") == "94"


async def test_a_reload_ends_what_waits_and_keeps_what_was_used(
    hass: HomeAssistant, entry: ConfigEntry, two_talk: Talking, show: Show
) -> None:
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    *_, waited = await two_talk.end()
    assert isinstance(waited, Rejected)
    assert show("parent_tokens_served") == "3"
    assert show("household_entry_running") == "0"


async def test_the_entities_are_the_same_after_a_reload(
    hass: HomeAssistant, entry: ConfigEntry, entity_registry: er.EntityRegistry
) -> None:
    def entities() -> dict[str, str]:
        found = er.async_entries_for_config_entry(entity_registry, entry.entry_id)
        return {entity.unique_id: entity.entity_id for entity in found}

    before = entities()
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    assert entities() == before
