"""A quota that is used up brings a message with a button for more."""

from collections.abc import Callable

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant, ServiceCall
from homeassistant.helpers import device_registry as dr
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import (
    MockConfigEntry,
    async_mock_service,
)

from custom_components.fair_share.household.runtime import Household
from tests.platforms.blueprints.from_blueprint import automate, told
from tests.platforms.conftest import Elapse, Talk

NAME = "quota_used_up"
CLEAR = "clear_notification"

type Press = Callable[[ServiceCall], None]


@pytest.fixture
async def phone(hass: HomeAssistant, entry: ConfigEntry) -> str:
    """The id of a telephone with Home Assistant's app."""
    assert await async_setup_component(hass, "mobile_app", {})
    app = MockConfigEntry(
        domain="mobile_app",
        data={
            "app_data": {"push_websocket_channel": True},
            "app_id": "app",
            "app_name": "App",
            "app_version": "1",
            "device_id": "telephone",
            "device_name": "Telephone",
            "manufacturer": "Somebody",
            "model": "One",
            "os_name": "Some",
            "os_version": "1",
            "supports_encryption": False,
            "user_id": "user_parent",
            "webhook_id": "telephone",
        },
    )
    app.add_to_hass(hass)
    assert await hass.config_entries.async_setup(app.entry_id)
    await hass.async_block_till_done()
    (device,) = dr.async_entries_for_config_entry(dr.async_get(hass), app.entry_id)
    return device.id


@pytest.fixture
def pushed(hass: HomeAssistant, phone: str) -> list[ServiceCall]:
    """What was sent to the telephone."""
    assert hass.services.has_service("notify", "mobile_app_telephone")
    return async_mock_service(hass, "notify", "mobile_app_telephone")


@pytest.fixture
def press(hass: HomeAssistant) -> Press:
    """Press the button of a message."""

    def press(message: ServiceCall) -> None:
        (button,) = message.data["data"]["actions"]
        hass.bus.async_fire(
            "mobile_app_notification_action", {"action": button["action"]}
        )

    return press


@pytest.fixture
async def used_up(
    hass: HomeAssistant,
    phone: str,
    pushed: list[ServiceCall],
    sent: list[ServiceCall],
    talk: Talk,
    elapse: Elapse,
) -> ServiceCall:
    """The message to the telephone after the child's quota was used up."""
    await automate(hass, NAME, phone=phone)
    await talk("user_child", "word " * 80)
    await elapse(6)
    assert pushed == []
    await talk("user_child", "word " * 20)
    await elapse(6)
    (message,) = pushed
    return message


def _limit(household: Household) -> int | None:
    return household.node_status("child").window.limit_tokens


def _messages(pushed: list[ServiceCall]) -> list[str]:
    return [call.data["message"] for call in pushed]


async def test_the_button_gives_more_once(
    hass: HomeAssistant,
    household: Household,
    pushed: list[ServiceCall],
    sent: list[ServiceCall],
    used_up: ServiceCall,
    press: Press,
) -> None:
    assert used_up.data["message"] == "The quota of Child is used up"
    assert used_up.data["data"]["actions"][0]["title"] == "Give 2000 more"
    assert told(sent) == [("notify.child_phone", "Your quota is used up")]
    assert _limit(household) == 100

    for _ in range(2):
        press(used_up)
        await hass.async_block_till_done()
        assert _limit(household) == 2100
    assert _messages(pushed)[1:] == ["Child got 2000 tokens more"]
    assert len({call.data["data"]["tag"] for call in pushed}) == 1


async def test_the_button_works_for_a_limited_time(
    hass: HomeAssistant,
    household: Household,
    pushed: list[ServiceCall],
    used_up: ServiceCall,
    press: Press,
    elapse: Elapse,
) -> None:
    await elapse(59 * 60)
    assert len(pushed) == 1
    await elapse(61)
    assert _messages(pushed)[1:] == [CLEAR]
    press(used_up)
    await hass.async_block_till_done()
    assert _limit(household) == 100


async def test_another_button_gives_nothing(
    hass: HomeAssistant, household: Household, used_up: ServiceCall
) -> None:
    hass.bus.async_fire("mobile_app_notification_action", {"action": "FAIR_SHARE_1"})
    await hass.async_block_till_done()
    assert _limit(household) == 100


async def test_the_button_gives_nothing_in_the_next_period(
    hass: HomeAssistant,
    household: Household,
    pushed: list[ServiceCall],
    used_up: ServiceCall,
    press: Press,
    elapse: Elapse,
) -> None:
    device = dr.async_get(hass).async_get_device_by_identifier(
        ("fair_share", "child"), household.entry.entry_id
    )
    assert device is not None
    await hass.services.async_call(
        "fair_share", "reset_usage", {"device_id": device.id}, blocking=True
    )
    await elapse(6)
    assert _messages(pushed)[1:] == [CLEAR]
    press(used_up)
    await hass.async_block_till_done()
    assert _limit(household) == 100


async def test_more_that_is_used_up_brings_another_button(
    hass: HomeAssistant,
    household: Household,
    pushed: list[ServiceCall],
    used_up: ServiceCall,
    press: Press,
    talk: Talk,
    elapse: Elapse,
) -> None:
    press(used_up)
    await hass.async_block_till_done()
    await elapse(6)
    await talk("user_child", "other " * 2200)
    await elapse(6)
    *_, again = pushed
    assert again.data["message"] == "The quota of Child is used up"
    press(used_up)
    await hass.async_block_till_done()
    assert _limit(household) == 2100
    press(again)
    await hass.async_block_till_done()
    assert _limit(household) == 4100


async def test_a_restart_tells_nothing(
    hass: HomeAssistant,
    entry: ConfigEntry,
    pushed: list[ServiceCall],
    used_up: ServiceCall,
    elapse: Elapse,
) -> None:
    assert await hass.config_entries.async_reload(entry.entry_id)
    await elapse(6)
    assert "The quota of Child is used up" not in _messages(pushed)[1:]
