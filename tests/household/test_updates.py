"""Changes are passed on at human speed, and none is lost."""

from collections.abc import AsyncIterator, Awaitable, Callable

from freezegun.api import FrozenDateTimeFactory
from homeassistant.core import HomeAssistant
import pytest
from pytest_homeassistant_custom_component.common import async_fire_time_changed

from custom_components.fair_share.household.updates import UpdateHub

type Elapse = Callable[[float], Awaitable[None]]


@pytest.fixture(name="elapse")
def fixture_elapse(hass: HomeAssistant, freezer: FrozenDateTimeFactory) -> Elapse:
    """Let so many seconds pass."""

    async def elapse(seconds: float) -> None:
        freezer.tick(seconds)
        async_fire_time_changed(hass)
        await hass.async_block_till_done()

    return elapse


@pytest.fixture(name="told")
def fixture_told() -> list[str]:
    """What listeners heard, in order."""
    return []


@pytest.fixture(name="hub")
async def fixture_hub(hass: HomeAssistant, told: list[str]) -> AsyncIterator[UpdateHub]:
    """A hub where somebody listens to Parent and to Child."""
    hub = UpdateHub(hass)
    unsubs = [
        hub.async_listen(("parent",), lambda: told.append("parent")),
        hub.async_listen(("child",), lambda: told.append("child")),
    ]
    yield hub
    for unsub in unsubs:
        unsub()


async def test_a_change_after_quiet_is_told_at_once(
    hub: UpdateHub, told: list[str], elapse: Elapse
) -> None:
    hub.touch("parent")
    await elapse(0)
    assert told == ["parent"]


async def test_nobody_is_told_in_the_middle_of_a_change(
    hub: UpdateHub, told: list[str]
) -> None:
    hub.touch("parent")
    assert told == []


async def test_many_changes_at_once_are_told_once(
    hub: UpdateHub, told: list[str], elapse: Elapse
) -> None:
    for _ in range(100):
        hub.touch("parent")
    await elapse(0)
    assert told == ["parent"]


async def test_a_busy_topic_is_told_every_five_seconds(
    hub: UpdateHub, told: list[str], elapse: Elapse
) -> None:
    for _ in range(21):
        hub.touch("parent")
        await elapse(1)
    assert len(told) == 5  # at 0, 5, 10, 15 and 20 seconds


async def test_the_last_change_is_told_in_the_end(
    hub: UpdateHub, told: list[str], elapse: Elapse
) -> None:
    hub.touch("parent")
    await elapse(0)
    hub.touch("parent")
    await elapse(4)
    assert told == ["parent"]
    await elapse(1)
    assert told == ["parent", "parent"]
    await elapse(60)
    assert told == ["parent", "parent"]


async def test_after_quiet_the_next_change_is_told_at_once_again(
    hub: UpdateHub, told: list[str], elapse: Elapse
) -> None:
    hub.touch("parent")
    await elapse(0)
    await elapse(5)
    hub.touch("parent")
    await elapse(0)
    assert told == ["parent", "parent"]


async def test_a_busy_topic_does_not_hold_up_another(
    hub: UpdateHub, told: list[str], elapse: Elapse
) -> None:
    hub.touch("parent")
    await elapse(1)
    hub.touch("child", "parent")
    await elapse(1)
    assert told == ["parent", "child"]


async def test_a_listener_to_two_topics_has_one_pace(
    hub: UpdateHub, told: list[str], elapse: Elapse
) -> None:
    unsub = hub.async_listen(("child", "parent"), lambda: told.append("both"))
    hub.touch("parent")
    await elapse(0)
    hub.touch("child")
    await elapse(4)
    assert told == ["parent", "both", "child"]
    await elapse(1)
    unsub()
    assert told == ["parent", "both", "child", "both"]


async def test_one_who_stops_listening_leaves_the_other_topics_theirs(
    hub: UpdateHub, told: list[str], elapse: Elapse
) -> None:
    hub.async_listen(("child", "parent"), lambda: told.append("both"))()
    hub.touch("parent", "child")
    await elapse(0)
    assert told == ["parent", "child"]


async def test_all_listeners_of_a_topic_are_told(
    hub: UpdateHub, told: list[str], elapse: Elapse
) -> None:
    unsub = hub.async_listen(("parent",), lambda: told.append("parent again"))
    hub.touch("parent")
    await elapse(0)
    unsub()
    hub.touch("parent")
    await elapse(5)
    assert told == ["parent", "parent again", "parent"]


async def test_a_topic_without_listeners_is_forgotten(
    hass: HomeAssistant, told: list[str], elapse: Elapse
) -> None:
    hub = UpdateHub(hass)
    unsub = hub.async_listen(("parent",), lambda: told.append("parent"))
    hub.touch("parent", "nobody listens")
    unsub()
    hub.touch("parent")
    await elapse(10)
    assert told == []
