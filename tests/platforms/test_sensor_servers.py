"""Sensors of servers, and what is left without them."""

import asyncio

from homeassistant.const import STATE_UNAVAILABLE, STATE_UNKNOWN
from homeassistant.core import HomeAssistant
from homeassistant.helpers.event import async_track_state_change_event
import pytest

from custom_components.fair_share.engines.base import (
    AuthError,
    BusyError,
    EngineError,
    LoadingError,
    UnreachableError,
)
from custom_components.fair_share.household.runtime import Household
from tests.common import household_entry, member, server, set_up
from tests.fake_server import FakeServer
from tests.platforms.conftest import Elapse, Sensor, Show, Talk


async def test_a_server_that_is_gone_takes_its_gauges_away_and_no_accounts(
    household: Household, llama: FakeServer, talk: Talk, show: Show, elapse: Elapse
) -> None:
    await talk("user_parent")
    await elapse(6)
    assert show("server_server_state") == "ready"

    await llama.stop()
    household.servers.get("server").report(UnreachableError("connection refused"))
    await elapse(6)

    assert show("server_server_state") == "unreachable"
    assert show("server_slots_used") == STATE_UNAVAILABLE
    assert show("parent_tokens_served") == "6"
    assert show("parent_quota_remaining") == "94"
    assert show("household_entry_queue_depth") == "0"


async def test_a_household_starts_while_its_server_is_away(
    hass: HomeAssistant, llama: FakeServer, show: Show
) -> None:
    await llama.stop()
    await set_up(hass, household_entry(server(llama.url), member("parent")))
    assert show("server_server_state") == "unreachable"
    assert show("server_slots_used") == STATE_UNAVAILABLE
    assert show("parent_tokens_served") == "0"


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (AuthError("no"), "auth_failed"),
        (LoadingError("soon"), "loading"),
        (BusyError("later"), "loading"),
    ],
    ids=str,
)
async def test_the_state_of_a_server_says_why_it_cannot_be_used(
    hass: HomeAssistant,
    household: Household,
    sensor: Sensor,
    elapse: Elapse,
    error: EngineError,
    state: str,
) -> None:
    states: list[str] = []
    async_track_state_change_event(
        hass,
        sensor("server_server_state").entity_id,
        lambda event: states.append(event.data["new_state"].state),
    )
    household.servers.get("server").report(error)
    await elapse(0)
    assert states[0] == state


async def test_requests_from_elsewhere_are_unknown_until_the_server_told_them(
    household: Household, show: Show, elapse: Elapse, llama: FakeServer
) -> None:
    assert show("server_foreign_requests") == STATE_UNKNOWN
    async with asyncio.timeout(120):
        while show("server_foreign_requests") == STATE_UNKNOWN:
            await elapse(0.05)
    assert show("server_foreign_requests") == "0"

    await llama.stop()
    household.servers.get("server").report(UnreachableError("connection refused"))
    await elapse(6)
    assert show("server_foreign_requests") == STATE_UNAVAILABLE
