"""What happened is told: to whom, how often, and never twice."""

from typing import Any

from freezegun.api import FrozenDateTimeFactory
from homeassistant.config_entries import ConfigEntry
from homeassistant.core import (
    Context,
    Event,
    EventStateChangedData,
    HomeAssistant,
)
from homeassistant.helpers import entity_registry as er
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import async_capture_events

from custom_components.fair_share.admission.model import Rejected, Workload
from custom_components.fair_share.engines.base import GenerationRequest
from custom_components.fair_share.household.generation import Ask
from custom_components.fair_share.household.runtime import Household
from tests.fake_server import FakeServer, answer
from tests.platforms.conftest import Elapse, Talk, until

HOUSEHOLD = "event.fair_share_household_events"
PARENT = "event.parent_events"
PHONE = "event.phone_events"

type States = list[Event[EventStateChangedData]]


@pytest.fixture
async def states(hass: HomeAssistant, entry: ConfigEntry) -> States:
    """All states that are written from here on."""
    return async_capture_events(hass, "state_changed")


def told(states: States, entity_id: str) -> list[dict[str, Any]]:
    """Return what an event entity told, in order, with all its attributes.

    After a restart it shows the latest event again, which is none.
    """
    events: dict[str, dict[str, Any]] = {}
    for event in states:
        state = event.data["new_state"]
        is_it = event.data["entity_id"] == entity_id and state is not None
        attributes = dict(state.attributes) if is_it and state else {}
        attributes = {
            key: value
            for key, value in attributes.items()
            if key not in {"event_types", "friendly_name", "resets_at"}
        }
        shown = attributes.get("event_type") is not None
        events |= {f"{state and state.state} {attributes}": attributes} if shown else {}
    return list(events.values())


def kinds(states: States, entity_id: str) -> list[Any]:
    """Return the kinds of what was told, thresholds as their percent."""
    return [
        attributes.get("percent", attributes["event_type"])
        for attributes in told(states, entity_id)
    ]


def use(household: Household, percent: int) -> None:
    """Have Parent use so much of the quota of 100 tokens, in all."""
    window = household.queue.scheduler._tree.nodes["parent"].window  # noqa: SLF001
    window.count(percent - window.used_tokens)
    household.updates.touch("parent")


# ---- quotas ------------------------------------------------------------------------


async def test_every_threshold_is_told_once_in_a_period(
    household: Household, states: States, elapse: Elapse
) -> None:
    for percent in (49, 50, 62, 79, 81, 80, 85, 99, 100, 103):
        use(household, percent)
        await elapse(6)
    assert kinds(states, PARENT) == [50, 80, 90, "quota_exhausted"]
    assert told(states, PARENT)[1] == {
        "event_type": "threshold",
        "percent": 80,
        "used_tokens": 81,
        "limit_tokens": 100,
    }


async def test_several_thresholds_at_once_are_all_told(
    household: Household, states: States, elapse: Elapse
) -> None:
    use(household, 100)
    await elapse(6)
    assert kinds(states, PARENT) == [50, 80, 90, "quota_exhausted"]


async def test_a_new_period_is_told_and_begins_to_count_anew(
    household: Household, states: States, elapse: Elapse
) -> None:
    use(household, 60)
    await elapse(6)
    await elapse(86400)
    await elapse(6)
    use(household, 60)
    await elapse(6)
    assert kinds(states, PARENT) == [50, "quota_reset", 50]


async def test_nothing_is_told_twice_over_a_restart(
    hass: HomeAssistant, entry: ConfigEntry[Household], states: States, elapse: Elapse
) -> None:
    use(entry.runtime_data, 85)
    await elapse(6)
    entry.runtime_data.ledger.mark_dirty()
    assert await hass.config_entries.async_reload(entry.entry_id)
    await elapse(6)
    use(entry.runtime_data, 89)
    await elapse(6)
    use(entry.runtime_data, 91)
    await elapse(6)
    assert kinds(states, PARENT) == [50, 80, 90]


async def test_a_period_that_began_while_home_assistant_was_away_is_told(
    hass: HomeAssistant,
    entry: ConfigEntry[Household],
    states: States,
    freezer: FrozenDateTimeFactory,
    elapse: Elapse,
) -> None:
    use(entry.runtime_data, 85)
    entry.runtime_data.ledger.mark_dirty()
    await elapse(6)
    assert await hass.config_entries.async_unload(entry.entry_id)
    freezer.tick(86400)
    states.clear()
    assert await hass.config_entries.async_setup(entry.entry_id)
    await hass.async_block_till_done()
    assert "quota_reset" in kinds(states, PARENT)
    assert 80 not in kinds(states, PARENT)


async def test_granted_tokens_can_be_used_up_as_well(
    hass: HomeAssistant, household: Household, states: States, elapse: Elapse
) -> None:
    use(household, 100)
    await elapse(6)
    household.queue.grant_tokens("parent", 100)
    await elapse(6)
    use(household, 170)
    await elapse(6)
    use(household, 200)
    await elapse(6)
    assert kinds(states, PARENT)[4:] == [80, 90, "quota_exhausted"]


async def test_a_reset_by_hand_is_told(
    household: Household, states: States, elapse: Elapse
) -> None:
    use(household, 60)
    await elapse(6)
    household.queue.reset_window("parent")
    await elapse(6)
    assert kinds(states, PARENT) == [50, "quota_reset"]


async def test_who_has_no_quota_is_told_nothing_of_it(
    hass: HomeAssistant,
    entry: ConfigEntry,
    household: Household,
    states: States,
    talk: Talk,
    elapse: Elapse,
) -> None:
    await talk("user_child")
    await elapse(86400)
    await elapse(6)
    assert kinds(states, "event.child_events") == []
    # A quota that is new and nearly used is told, from nothing on.
    child = entry.subentries["child"]
    await talk("user_child")
    hass.config_entries.async_update_subentry(
        entry, child, data={**child.data, "quota_tokens": 11}
    )
    await elapse(6)
    assert kinds(states, "event.child_events") == [50]


# ---- requests ----------------------------------------------------------------------


async def test_a_refusal_is_told_with_its_reason_to_all_it_concerns(
    household: Household, states: States, talk: Talk, elapse: Elapse
) -> None:
    use(household, 100)
    with pytest.raises(Rejected):
        await talk("user_parent", device_id="d_phone")
    for entity_id in (HOUSEHOLD, PARENT, PHONE):
        rejected = [e for e in told(states, entity_id) if e["event_type"] == "rejected"]
        assert rejected == [
            {
                "event_type": "rejected",
                "reason": "quota",
                "workload": "chat",
                "had_begun": False,
                "duration": 0,
                "member": "Parent",
                "source": "Phone",
                "count": 1,
            }
        ]


async def test_many_refusals_are_two_events_and_all_are_counted(
    household: Household, states: States, talk: Talk, elapse: Elapse
) -> None:
    use(household, 100)
    for _ in range(5):
        with pytest.raises(Rejected):
            await talk("user_parent")
    await elapse(31)
    await elapse(31)
    counts = [e["count"] for e in told(states, HOUSEHOLD)]
    assert counts == [1, 4]


async def test_what_is_still_to_be_told_is_told_before_home_assistant_stops(
    hass: HomeAssistant,
    entry: ConfigEntry,
    household: Household,
    talk: Talk,
) -> None:
    events = list[int]()
    household.events.async_listen(
        "household", lambda event: events.append(int(str(event.attributes["count"])))
    )
    use(household, 100)
    for _ in range(3):
        with pytest.raises(Rejected):
            await talk("user_parent")
    household.events.async_stop()
    assert events == [1, 2]


async def test_interruptions_are_told_with_whose_they_were(
    household: Household, states: States, elapse: Elapse
) -> None:
    path = ("household", "child", "child/direct", "child/direct/background")
    for _ in range(3):
        household.events.note_preempted(path)
    await elapse(31)
    event = {
        "event_type": "preempted",
        "workload": "background",
        "member": "Child",
        "source": "Child",
    }
    both = [{**event, "count": 1}, {**event, "count": 2}]
    assert told(states, HOUSEHOLD) == told(states, "event.child_events") == both
    assert told(states, PARENT) == []


async def test_complete_answers_are_told_to_who_wants_to_know(
    hass: HomeAssistant,
    entry: ConfigEntry,
    entity_registry: er.EntityRegistry,
    llama: FakeServer,
    elapse: Elapse,
) -> None:
    entity_id = "event.parent_answers"
    found = entity_registry.async_get(entity_id)
    assert found is not None
    assert found.disabled_by is er.RegistryEntryDisabler.INTEGRATION
    entity_registry.async_update_entity(entity_id, disabled_by=None)
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    states = async_capture_events(hass, "state_changed")
    household = entry.runtime_data
    llama.default = answer("secret", " word")
    who = household.identity.resolve(Context(user_id="user_parent"), None, None)
    request = GenerationRequest([{"role": "user", "content": "tell me"}], 64)
    async with household.generate(Ask(who, Workload.CHAT, request)) as deltas:
        assert [delta async for delta in deltas]
    await hass.async_block_till_done()
    assert told(states, entity_id) == [
        {
            "event_type": "finished",
            "workload": "chat",
            "wait": 0,
            "duration": 0,
            "prompt_tokens": 3,
            "output_tokens": 2,
            "preemptions": 0,
        }
    ]
    assert "secret" not in str(states)


# ---- servers -----------------------------------------------------------------------


async def test_a_server_that_goes_and_comes_back_is_told_once_each(
    household: Household, states: States, llama: FakeServer
) -> None:
    server = household.servers.get("server")
    await llama.stop()
    server.look_again()
    await until(lambda: kinds(states, HOUSEHOLD) == ["server_down"])
    await llama.start()
    server.look_again()
    await until(lambda: kinds(states, HOUSEHOLD)[-1] == "server_up")
    assert [(e["event_type"], e["state"]) for e in told(states, HOUSEHOLD)] == [
        ("server_down", "unreachable"),
        ("server_up", "ready"),
    ]
    assert told(states, HOUSEHOLD)[0]["server"] == server.view().title


async def test_a_restart_is_no_news_of_a_server(
    hass: HomeAssistant, entry: ConfigEntry, states: States
) -> None:
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    assert kinds(states, HOUSEHOLD) == []


# ---- automations -------------------------------------------------------------------


async def test_an_automation_hears_of_a_threshold(
    hass: HomeAssistant, household: Household, elapse: Elapse
) -> None:
    heard = async_capture_events(hass, "heard")
    automation = {
        "triggers": {
            "trigger": "state",
            "entity_id": PARENT,
            "not_from": ["unavailable"],
        },
        "conditions": "{{ trigger.to_state.attributes.percent | default(0) == 80 }}",
        "actions": {
            "event": "heard",
            "event_data": {"left": "{{ trigger.to_state.attributes.limit_tokens }}"},
        },
    }
    assert await async_setup_component(hass, "automation", {"automation": automation})
    use(household, 85)
    await elapse(6)
    assert [event.data["left"] for event in heard] == [100]
