"""Background work waits while people talk or watch, and outside of its time."""

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
import pytest
from pytest_homeassistant_custom_component.common import async_capture_events

from custom_components.fair_share.admission.model import Workload
from custom_components.fair_share.household.changes import async_pause
from custom_components.fair_share.household.runtime import Household
from tests.platforms.blueprints.from_blueprint import (
    SWITCH,
    automate,
    restart,
    state_of,
)
from tests.platforms.conftest import Elapse

FILM = "media_player.living_room"
VOICE = "assist_satellite.kitchen"
POWER = "sensor.solar_surplus"
QUIET = "pause_background"
WINDOW = "background_window"


@pytest.fixture(autouse=True)
def _around(hass: HomeAssistant, household: Household) -> None:
    """It is Monday, 12:00; nobody talks or watches, and there is no power."""
    hass.states.async_set(FILM, "off")
    hass.states.async_set(VOICE, "idle")
    hass.states.async_set(POWER, "0")


async def become(hass: HomeAssistant, entity_id: str, state: str) -> None:
    """Let something change, and what follows happen."""
    hass.states.async_set(entity_id, state)
    await hass.async_block_till_done()


def paused(hass: HomeAssistant) -> bool:
    """Whether background work waits."""
    return state_of(hass, SWITCH).state == "on"


async def pause(hass: HomeAssistant, household: Household) -> None:
    """Let background work wait, as it was before a restart."""
    async_pause(household, (), (Workload.BACKGROUND,))
    await hass.async_block_till_done()
    assert paused(hass)


@pytest.mark.parametrize(
    ("entity_id", "begins", "goes_on"),
    [
        (VOICE, "listening", ("processing", "responding")),
        (FILM, "playing", ("buffering",)),
    ],
)
async def test_it_waits_while_somebody_talks_or_watches(
    hass: HomeAssistant,
    elapse: Elapse,
    entity_id: str,
    begins: str,
    goes_on: tuple[str, ...],
) -> None:
    await automate(hass, QUIET)
    assert not paused(hass)
    for state in (begins, *goes_on):
        await become(hass, entity_id, state)
        await elapse(60)
        assert paused(hass), state
    await become(hass, entity_id, "idle")
    await elapse(29)
    assert paused(hass)
    await elapse(2)
    assert not paused(hass)


@pytest.mark.parametrize(
    ("entity_id", "state"),
    [(FILM, "paused"), (FILM, "unavailable"), (VOICE, "unavailable"), (FILM, "on")],
)
async def test_it_does_not_wait_without_reason(
    hass: HomeAssistant, entity_id: str, state: str
) -> None:
    await automate(hass, QUIET)
    await become(hass, entity_id, state)
    assert not paused(hass)


async def test_it_goes_on_when_all_is_over(hass: HomeAssistant, elapse: Elapse) -> None:
    await automate(hass, QUIET)
    await become(hass, FILM, "playing")
    await become(hass, VOICE, "listening")
    await become(hass, VOICE, "idle")
    await elapse(60)
    assert paused(hass)
    await become(hass, FILM, "off")
    await elapse(20)
    await become(hass, VOICE, "listening")  # again, before it went on
    await elapse(60)
    assert paused(hass)
    await become(hass, VOICE, "idle")
    await elapse(31)
    assert not paused(hass)


async def test_a_restart_during_a_film_leaves_nothing_waiting(
    hass: HomeAssistant, household: Household, elapse: Elapse
) -> None:
    await pause(hass, household)
    await restart(hass, QUIET)
    await elapse(31)
    assert not paused(hass)


async def test_a_film_goes_on_after_a_restart(
    hass: HomeAssistant, household: Household, elapse: Elapse
) -> None:
    hass.states.async_set(FILM, "playing")
    await restart(hass, QUIET)
    await elapse(31)
    assert paused(hass)


async def test_a_household_that_comes_late_is_looked_at_too(
    hass: HomeAssistant, entry: ConfigEntry, household: Household, elapse: Elapse
) -> None:
    await pause(hass, household)
    assert await hass.config_entries.async_unload(entry.entry_id)
    await restart(hass, QUIET)
    assert await hass.config_entries.async_setup(entry.entry_id)
    await hass.async_block_till_done()
    assert paused(hass)
    await elapse(31)
    assert not paused(hass)


async def test_a_changed_automation_looks_anew(
    hass: HomeAssistant, household: Household, elapse: Elapse
) -> None:
    await pause(hass, household)
    await automate(hass, QUIET)
    hass.bus.async_fire("automation_reloaded")
    await hass.async_block_till_done()
    await elapse(31)
    assert not paused(hass)


@pytest.mark.parametrize("interrupt", [True, False])
async def test_what_runs_may_be_interrupted(
    hass: HomeAssistant,
    interrupt: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    await automate(hass, QUIET, interrupt=interrupt)
    calls = async_capture_events(hass, "call_service")
    await become(hass, FILM, "playing")
    (call,) = calls
    assert call.data["service"] == "pause"
    assert call.data["service_data"]["interrupt"] is interrupt
    assert paused(hass)


@pytest.mark.parametrize(
    ("rule", "power", "night", "day"),
    [
        ("window", "900", True, False),
        ("window", "0", True, False),
        ("power", "900", True, True),
        ("power", "0", False, False),
        ("power", "unavailable", False, False),
        ("either", "900", True, True),
        ("either", "0", True, False),
        ("both", "900", True, False),
        ("both", "0", False, False),
        ("both", "unknown", False, False),
    ],
)
async def test_a_start_sets_what_is_right_then(
    hass: HomeAssistant,
    elapse: Elapse,
    rule: str,
    power: str,
    night: bool,  # noqa: FBT001 - as above
    day: bool,  # noqa: FBT001 - as above
) -> None:
    hass.states.async_set(POWER, power)
    await restart(hass, WINDOW, rule=rule)
    assert paused(hass) is not day
    await elapse(11 * 3600)  # 23:00
    assert paused(hass) is not night
    await elapse(7 * 3600 - 60)
    assert paused(hass) is not night
    await elapse(60)  # 06:00
    await elapse(6)
    assert paused(hass) is not day


async def test_power_has_to_last_and_to_be_really_gone(
    hass: HomeAssistant, elapse: Elapse
) -> None:
    await restart(hass, WINDOW, rule="power")
    assert paused(hass)
    await become(hass, POWER, "600")
    await elapse(9 * 60)
    assert paused(hass)
    await become(hass, POWER, "400")  # not long enough
    await become(hass, POWER, "600")
    await elapse(9 * 60)
    assert paused(hass)
    await elapse(61)
    assert not paused(hass)

    await become(hass, POWER, "200")  # between the two: as it is
    await elapse(3600)
    assert not paused(hass)
    await become(hass, POWER, "50")
    await elapse(9 * 60)
    assert not paused(hass)
    await elapse(61)
    await elapse(6)
    assert paused(hass)
    await become(hass, POWER, "200")
    await elapse(3600)
    assert paused(hass)


async def test_a_sensor_that_is_lost_is_no_power(
    hass: HomeAssistant, elapse: Elapse
) -> None:
    hass.states.async_set(POWER, "600")
    await restart(hass, WINDOW, rule="power")
    assert not paused(hass)
    await become(hass, POWER, "unavailable")
    await elapse(9 * 60)
    assert not paused(hass)
    await elapse(61)
    await elapse(6)
    assert paused(hass)


@pytest.mark.parametrize("before", [True, False])
async def test_a_restart_between_the_thresholds_changes_nothing(
    hass: HomeAssistant,
    household: Household,
    before: bool,  # noqa: FBT001 - as above
) -> None:
    hass.states.async_set(POWER, "200")
    if before:
        await pause(hass, household)
    await restart(hass, WINDOW, rule="power")
    assert paused(hass) is before


async def test_without_a_sensor_the_times_count_alone(
    hass: HomeAssistant, elapse: Elapse
) -> None:
    await restart(hass, WINDOW, rule=None, power=None)
    assert paused(hass)
    await elapse(11 * 3600)
    assert not paused(hass)


async def test_it_also_waits_for_people_at_its_time(
    hass: HomeAssistant, elapse: Elapse
) -> None:
    await restart(hass, WINDOW, begin="10:00:00", players=[FILM], satellites=[VOICE])
    assert not paused(hass)
    await become(hass, FILM, "playing")
    assert paused(hass)
    await become(hass, FILM, "idle")
    await elapse(29)
    assert paused(hass)
    await elapse(2)
    assert not paused(hass)


async def test_people_who_leave_do_not_start_it_outside_of_its_time(
    hass: HomeAssistant, elapse: Elapse
) -> None:
    await restart(hass, WINDOW, players=[FILM])
    await become(hass, FILM, "playing")
    await become(hass, FILM, "idle")
    await elapse(31)
    assert paused(hass)
