"""A quota of which little is left is told, once."""

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant, ServiceCall

from tests.platforms.blueprints.from_blueprint import automate, state_of, told
from tests.platforms.conftest import Elapse, Talk

NAME = "quota_nearly_used"
TOLD = [
    ("notify.child_phone", "16 % of your quota are left until 2026-12-01 00:00"),
    ("notify.parent_phone", "Child has 16 % of the quota left until 2026-12-01 00:00"),
]


async def test_member_and_parent_are_told_once(
    hass: HomeAssistant,
    sent: list[ServiceCall],
    shown: list[ServiceCall],
    talk: Talk,
    elapse: Elapse,
) -> None:
    await automate(hass, NAME)
    await talk("user_child", "word " * 74)  # with role and answer: 79 tokens
    await elapse(6)
    assert told(sent) == []

    await talk("user_child", "")
    await elapse(6)
    assert told(sent) == TOLD
    assert {call.data["title"] for call in sent} == {"Fair Share"}
    assert shown == []

    await talk("user_child", "")
    await talk("user_parent", "word " * 90)
    await elapse(6)
    assert told(sent) == TOLD


async def test_it_is_told_again_in_the_next_period(
    hass: HomeAssistant, sent: list[ServiceCall], talk: Talk, elapse: Elapse
) -> None:
    await automate(hass, NAME, member_targets=[])
    for _ in range(2):
        await talk("user_child", "word " * 80)
        await elapse(6)
        await elapse(24 * 3600)
        await elapse(6)
    assert [target for target, _ in told(sent)] == ["notify.parent_phone"] * 2


async def test_a_restart_is_no_news(
    hass: HomeAssistant,
    entry: ConfigEntry,
    sent: list[ServiceCall],
    talk: Talk,
    elapse: Elapse,
) -> None:
    await talk("user_child", "word " * 80)
    await elapse(6)
    await automate(hass, NAME)
    assert await hass.config_entries.async_reload(entry.entry_id)
    await elapse(6)
    assert state_of(hass, "automation.a").attributes["last_triggered"] is None
    assert sent == []


async def test_a_parent_that_is_not_told_keeps_nobody_else_from_it(
    hass: HomeAssistant, shown: list[ServiceCall], talk: Talk, elapse: Elapse
) -> None:
    def refuse(_call: ServiceCall) -> None:
        raise ValueError

    hass.services.async_register("notify", "send_message", refuse)
    await automate(hass, NAME, actions=None)  # as it comes
    await talk("user_child", "word " * 80)
    await elapse(6)
    assert [call.data["message"] for call in shown] == [
        "Child has 15 % of the quota left until 2026-12-01 00:00"
    ]
