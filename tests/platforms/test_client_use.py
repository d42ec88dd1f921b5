"""When clients of the gateway were used: what is shown of it, and when it matters."""

from datetime import timedelta
from typing import Any

from homeassistant.components.repairs import repairs_flow_manager
from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType
from homeassistant.helpers import entity_registry as er, issue_registry as ir
from homeassistant.setup import async_setup_component
from homeassistant.util import dt as dt_util
import pytest

from custom_components.fair_share.const import DOMAIN
from custom_components.fair_share.household.client_use import UNUSED_AFTER, ClientUse
from custom_components.fair_share.household.runtime import Household
from tests.common import ENTRY_ID, client, household_entry, server, set_up
from tests.fake_server import FakeServer
from tests.platforms.conftest import Elapse
from tests.platforms.test_repairs import _answer, _choose, _issues, _open

UNUSED = "key_unused_desktop"
SHARED = "key_shared_desktop"


@pytest.fixture
async def entry(hass: HomeAssistant, llama: FakeServer) -> ConfigEntry[Household]:
    """A household with a client."""
    assert await async_setup_component(hass, "person", {})
    assert await async_setup_component(hass, "repairs", {})
    entry = household_entry(server(llama.url), client("desktop", "fs-key"))
    await set_up(hass, entry)
    return entry


def _use(entry: ConfigEntry[Household]) -> ClientUse:
    return entry.runtime_data.client_use


async def test_the_last_use_is_shown_and_survives_a_restart(
    hass: HomeAssistant,
    entry: ConfigEntry[Household],
    entity_registry: er.EntityRegistry,
) -> None:
    entity_id = entity_registry.async_get_entity_id(
        "sensor", DOMAIN, "desktop_last_used"
    )
    assert entity_id is not None
    state = hass.states.get(entity_id)
    assert state is not None
    assert state.state == "unknown"
    _use(entry).note("desktop", "192.168.1.5")
    used = _use(entry).last("desktop")
    assert used is not None
    await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    state = hass.states.get(entity_id)
    assert state is not None
    assert dt_util.parse_datetime(state.state) == used.replace(microsecond=0)


async def test_where_from_is_never_written(
    hass: HomeAssistant, entry: ConfigEntry[Household], hass_storage: dict[str, Any]
) -> None:
    _use(entry).note("desktop", "192.168.1.5")
    await hass.config_entries.async_unload(entry.entry_id)
    stored = hass_storage[f"{DOMAIN}.{ENTRY_ID}.clients"]["data"]
    assert stored["desktop"].keys() == {"since", "last"}
    assert "192.168" not in str(stored)
    await hass.config_entries.async_remove(entry.entry_id)
    assert f"{DOMAIN}.{ENTRY_ID}.clients" not in hass_storage


@pytest.mark.parametrize("stored", [{"since": 5}, {"since": "x"}, {}])
async def test_what_was_not_written_by_us_is_passed_over(
    hass: HomeAssistant, hass_storage: dict[str, Any], stored: dict[str, Any]
) -> None:
    key = f"{DOMAIN}.{ENTRY_ID}.clients"
    hass_storage[key] = {"version": 1, "key": key, "data": {"desktop": stored}}
    use = ClientUse(hass, ENTRY_ID)
    await use.async_load()
    use.follow(["desktop"])
    assert use.last("desktop") is None
    assert not use.is_unused("desktop")


async def test_a_key_that_nothing_uses_is_told_and_can_be_removed(
    hass: HomeAssistant,
    entry: ConfigEntry[Household],
    elapse: Elapse,
) -> None:
    await elapse((UNUSED_AFTER - timedelta(minutes=1)).total_seconds())
    assert UNUSED not in _issues(hass)
    await elapse(120)
    assert UNUSED in _issues(hass)
    result = await _open(hass, UNUSED)
    assert result["menu_options"] == ["remove_client", "ignore"]
    result = await _choose(hass, result, "remove_client")
    assert "desktop" in entry.subentries
    result = await _answer(hass, result, {})
    assert result["type"] is FlowResultType.CREATE_ENTRY
    await hass.async_block_till_done()
    assert "desktop" not in entry.subentries
    assert _issues(hass) == set()


async def test_a_use_takes_it_back(
    hass: HomeAssistant,
    entry: ConfigEntry[Household],
    elapse: Elapse,
) -> None:
    await elapse(UNUSED_AFTER.total_seconds())
    assert UNUSED in _issues(hass)
    _use(entry).note("desktop", "192.168.1.5")
    await elapse(61)
    assert UNUSED not in _issues(hass)


async def test_a_key_from_three_places_within_an_hour_is_told(
    hass: HomeAssistant,
    entry: ConfigEntry[Household],
    elapse: Elapse,
) -> None:
    for place in range(3):
        _use(entry).note("desktop", f"192.168.1.{place}")
        await elapse(31 * 60)
    assert SHARED not in _issues(hass)
    for place in range(20):
        _use(entry).note("desktop", f"192.168.1.{place}")
    await elapse(61)
    assert SHARED in _issues(hass)
    result = await _open(hass, SHARED)
    result = await _choose(hass, result, "separate")
    result = await _answer(hass, result, {})
    assert result["type"] is FlowResultType.CREATE_ENTRY
    assert SHARED not in _issues(hass)


async def test_who_knows_it_is_not_told_again(
    hass: HomeAssistant,
    entry: ConfigEntry[Household],
    elapse: Elapse,
) -> None:
    for _ in range(2):
        for place in range(3):
            _use(entry).note("desktop", f"192.168.1.{place}")
        await elapse(61)
        if SHARED in _issues(hass):
            result = await _open(hass, SHARED)
            result = await _choose(hass, result, "ignore")
            assert result["reason"] == "ignored"
        await elapse(7200)
    issue = ir.async_get(hass).async_get_issue(DOMAIN, SHARED)
    assert issue is not None
    assert issue.dismissed_version
    assert repairs_flow_manager(hass) is not None
