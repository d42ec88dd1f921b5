"""The server is woken when somebody waits, and sleeps when nobody does."""

import asyncio
from collections.abc import AsyncIterator

from homeassistant.core import HomeAssistant, ServiceCall
import pytest
from pytest_homeassistant_custom_component.common import async_mock_service

from custom_components.fair_share.household.runtime import Household
from tests.fake_server import FakeServer, answer
from tests.platforms.blueprints.from_blueprint import automate, restart, state_of
from tests.platforms.conftest import Elapse, Talk, streaming, until

NAME = "wake_server"
STATE = "sensor.gpu_box_state"
WAKE = "button.wake_gpu_box"
SUSPEND = "button.suspend_gpu_box"


@pytest.fixture
def pressed(hass: HomeAssistant) -> list[ServiceCall]:
    """The buttons that were pressed."""
    return async_mock_service(hass, "button", "press")


def buttons(pressed: list[ServiceCall]) -> list[str]:
    """Return which buttons were pressed."""
    return [entity for call in pressed for entity in call.data["entity_id"]]


async def become(
    hass: HomeAssistant, household: Household, elapse: Elapse, state: str
) -> None:
    """Wait until the server is seen in this state."""
    household.servers.get("server").look_again()
    await until(lambda: household.servers.get("server").state.value == state)
    await elapse(6)
    assert state_of(hass, STATE).state == state


@pytest.fixture
async def asked(
    hass: HomeAssistant, household: Household, talk: Talk
) -> AsyncIterator[list[asyncio.Task[object]]]:
    """Questions that wait, to be filled by the test."""
    tasks: list[asyncio.Task[object]] = []
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def ask(
    hass: HomeAssistant,
    household: Household,
    talk: Talk,
    asked: list[asyncio.Task[object]],
    elapse: Elapse,
) -> None:
    """Let somebody ask, and wait."""
    asked.append(hass.async_create_background_task(talk("user_parent"), "talk"))
    await until(lambda: household.status().waiting == 1)
    await elapse(6)


async def test_a_server_that_sleeps_is_woken_until_it_is_there(
    hass: HomeAssistant,
    household: Household,
    llama: FakeServer,
    pressed: list[ServiceCall],
    talk: Talk,
    asked: list[asyncio.Task[object]],
    elapse: Elapse,
) -> None:
    await automate(hass, NAME, retry=1)
    await llama.stop()
    await become(hass, household, elapse, "unreachable")
    await elapse(60)
    assert buttons(pressed) == []

    await ask(hass, household, talk, asked, elapse)
    assert buttons(pressed) == [WAKE]
    await elapse(40)
    assert buttons(pressed) == [WAKE]
    await elapse(21)
    assert buttons(pressed) == [WAKE, WAKE]

    await llama.start()
    await become(hass, household, elapse, "ready")
    await asked[0]
    await elapse(300)
    assert buttons(pressed) == [WAKE, WAKE]


async def test_nobody_who_waits_any_more_wakes_it(
    hass: HomeAssistant,
    household: Household,
    llama: FakeServer,
    pressed: list[ServiceCall],
    talk: Talk,
    asked: list[asyncio.Task[object]],
    elapse: Elapse,
) -> None:
    await automate(hass, NAME)
    await llama.stop()
    await become(hass, household, elapse, "unreachable")
    await ask(hass, household, talk, asked, elapse)
    asked[0].cancel()
    await until(lambda: household.status().waiting == 0)
    await elapse(6)
    await elapse(300)
    assert buttons(pressed) == [WAKE]


async def test_one_that_is_lost_while_somebody_waits_is_woken(
    hass: HomeAssistant,
    household: Household,
    llama: FakeServer,
    pressed: list[ServiceCall],
    talk: Talk,
    asked: list[asyncio.Task[object]],
    elapse: Elapse,
) -> None:
    llama.default = answer("one", asyncio.Event(), " two")
    await automate(hass, NAME)
    for running in (1, 2):
        asked.append(hass.async_create_background_task(talk("user_child"), "talk"))
        await until(lambda r=running: len(streaming(household)) == r)
    await ask(hass, household, talk, asked, elapse)
    await elapse(6)
    assert buttons(pressed) == []
    await llama.stop()
    await become(hass, household, elapse, "unreachable")
    assert buttons(pressed) == [WAKE]


async def test_it_sleeps_once_when_nothing_was_asked_for_a_while(
    hass: HomeAssistant,
    household: Household,
    llama: FakeServer,
    pressed: list[ServiceCall],
    talk: Talk,
    elapse: Elapse,
) -> None:
    await automate(hass, NAME, idle=1)
    gate = asyncio.Event()
    llama.default = answer("one", gate, " two")
    await elapse(50)
    running = hass.async_create_background_task(talk("user_parent"), "talk")
    await until(lambda: len(streaming(household)) == 1)
    await elapse(25)
    assert buttons(pressed) == []  # it runs
    gate.set()
    await running
    await elapse(6)
    await elapse(50)
    assert buttons(pressed) == []
    for _ in range(360):  # as often as the household asks the server what it does
        if not pressed:
            await elapse(2)
    assert buttons(pressed) == [SUSPEND]
    await llama.stop()
    await become(hass, household, elapse, "unreachable")
    for _ in range(4):
        await elapse(600)
    assert buttons(pressed) == [SUSPEND]


async def test_it_does_not_sleep_while_it_answers_others(
    hass: HomeAssistant,
    household: Household,
    pressed: list[ServiceCall],
    elapse: Elapse,
) -> None:
    await automate(hass, NAME)
    for _ in range(4):
        hass.states.async_set("sensor.gpu_box_requests_from_elsewhere", "1")
        await elapse(600)
    assert buttons(pressed) == []


async def test_what_the_sensors_do_not_show_yet_keeps_it_awake(
    hass: HomeAssistant,
    household: Household,
    llama: FakeServer,
    pressed: list[ServiceCall],
    elapse: Elapse,
) -> None:
    await automate(hass, NAME, foreign=[])
    household.servers.get("server").foreign = 1
    for _ in range(4):
        await elapse(600)
        household.servers.get("server").foreign = 1
    assert buttons(pressed) == []


async def test_an_idle_server_sleeps_also_after_a_restart(
    hass: HomeAssistant,
    household: Household,
    pressed: list[ServiceCall],
    elapse: Elapse,
) -> None:
    await restart(hass, NAME)
    await elapse(20 * 60)
    assert buttons(pressed) == []
    await elapse(20 * 60)
    assert buttons(pressed) == [SUSPEND]
