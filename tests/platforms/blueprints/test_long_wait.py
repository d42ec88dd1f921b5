"""Somebody who waits for long is told of, not too often."""

import asyncio
from collections.abc import AsyncIterator

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import CoreState, HomeAssistant, ServiceCall, State
from homeassistant.util import dt as dt_util
import pytest
from pytest_homeassistant_custom_component.common import mock_restore_cache

from custom_components.fair_share.household.runtime import Household
from tests.fake_server import FakeServer, answer
from tests.platforms.blueprints.from_blueprint import automate, told
from tests.platforms.conftest import Elapse, Talk, streaming, until

NAME = "long_wait"
PARENT = ("notify.parent_phone", "Parent: waiting for more than 15 seconds")
VOICE = ("notify.parent_phone", "Voice requests: waiting for more than 15 seconds")


@pytest.fixture
async def gate(
    hass: HomeAssistant, llama: FakeServer, household: Household
) -> AsyncIterator[asyncio.Event]:
    """What holds every answer."""
    gate = asyncio.Event()
    llama.default = answer("one", gate, " two")
    yield gate
    gate.set()
    await until(lambda: household.status().running == 0)


async def queue_up(
    hass: HomeAssistant, household: Household, talk: Talk, user: str = "user_parent"
) -> None:
    """Let Child have both slots, and somebody wait."""
    for asks, running, waiting in (
        ("user_child", 1, 0),
        ("user_child", 2, 0),
        (user, 2, 1),
    ):
        hass.async_create_background_task(talk(asks), f"talk {asks}")
        await until(lambda r=running: len(streaming(household)) == r)
        await until(lambda w=waiting: household.status().waiting == w)


async def test_a_long_wait_is_told_once(
    hass: HomeAssistant,
    household: Household,
    gate: asyncio.Event,
    sent: list[ServiceCall],
    talk: Talk,
    elapse: Elapse,
) -> None:
    await automate(hass, NAME, seconds=15)
    await queue_up(hass, household, talk)
    await elapse(6)
    await elapse(9)
    assert told(sent) == []
    await elapse(9)
    assert told(sent) == [PARENT]
    await elapse(10)
    assert told(sent) == [PARENT]


async def test_a_short_wait_is_not(
    hass: HomeAssistant,
    household: Household,
    gate: asyncio.Event,
    sent: list[ServiceCall],
    talk: Talk,
    elapse: Elapse,
) -> None:
    await automate(hass, NAME, seconds=15)
    await queue_up(hass, household, talk)
    await elapse(10)
    gate.set()
    await until(lambda: household.status().running == 0)
    await elapse(6)
    await elapse(60)
    assert told(sent) == []


async def test_somebody_who_waits_while_another_of_theirs_is_answered_does_not_wait(
    hass: HomeAssistant,
    household: Household,
    gate: asyncio.Event,
    sent: list[ServiceCall],
    talk: Talk,
    elapse: Elapse,
) -> None:
    await automate(hass, NAME, seconds=15)
    await queue_up(hass, household, talk, "user_child")
    await elapse(25)
    assert told(sent) == []


async def test_a_voice_command_that_waits_is_told_as_such(
    hass: HomeAssistant,
    household: Household,
    gate: asyncio.Event,
    sent: list[ServiceCall],
    talk: Talk,
    elapse: Elapse,
) -> None:
    await automate(hass, NAME, members=None, seconds=15)
    for running in (1, 2, 2):
        hass.async_create_background_task(
            hass.services.async_call(
                "fair_share",
                "generate",
                {"prompt": "hello", "workload": "voice"},
                blocking=True,
                return_response=True,
            ),
            "voice",
        )
        await until(lambda r=running: len(streaming(household)) == r)
    await until(lambda: household.status().waiting == 1)
    await elapse(6)
    await elapse(16)
    assert told(sent) == [VOICE]


@pytest.mark.parametrize(("minutes_ago", "expected"), [(25, []), (31, [PARENT])])
async def test_it_is_told_at_most_once_in_a_while_also_over_a_restart(
    hass: HomeAssistant,
    entry: ConfigEntry,
    household: Household,
    gate: asyncio.Event,
    sent: list[ServiceCall],
    talk: Talk,
    elapse: Elapse,
    minutes_ago: int,
    expected: list[tuple[str, str]],
) -> None:
    last = dt_util.utcnow().timestamp() - minutes_ago * 60
    attributes = {"last_triggered": dt_util.utc_from_timestamp(last).isoformat()}
    hass.set_state(CoreState.not_running)
    mock_restore_cache(hass, [State("automation.a", "on", attributes)])
    await automate(hass, NAME, seconds=15)
    await hass.async_start()
    await queue_up(hass, household, talk)
    await elapse(6)
    await elapse(9)
    await elapse(9)
    assert told(sent) == expected
