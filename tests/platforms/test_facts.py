"""Sensors that are measured, and the entities beside them."""

from homeassistant.config_entries import ConfigEntry
from homeassistant.const import STATE_UNAVAILABLE, STATE_UNKNOWN
from homeassistant.core import HomeAssistant
from homeassistant.helpers import entity_registry as er
import pytest
from pytest_homeassistant_custom_component.common import async_capture_events

from custom_components.fair_share.household.runtime import Household
from tests.fake_server import FakeServer, answer
from tests.platforms.conftest import Elapse, Show, Talk, Talking, until

EXHAUSTED = "binary_sensor.{}_quota_used_up"


@pytest.fixture
async def everything(
    hass: HomeAssistant, entry: ConfigEntry, entity_registry: er.EntityRegistry
) -> None:
    """Enable also what is disabled at first."""
    for found in er.async_entries_for_config_entry(entity_registry, entry.entry_id):
        entity_registry.async_update_entity(found.entity_id, disabled_by=None)
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()


# ---- members -----------------------------------------------------------------------


async def test_the_state_tells_what_goes_on_with_everybody(
    household: Household, two_talk: Talking, show: Show, elapse: Elapse
) -> None:
    await elapse(6)
    assert show("parent_member_state") == "served"
    assert show("household_entry_guest_member_state") == "idle"
    household.queue.cancel(household.status().requests[0].request_id)
    await two_talk.end()
    await elapse(6)
    assert show("parent_member_state") == "idle"


async def test_a_used_up_quota_is_a_state_of_all_below_it(
    hass: HomeAssistant,
    llama: FakeServer,
    talk: Talk,
    show: Show,
    elapse: Elapse,
) -> None:
    llama.default = answer(*["word"] * 64)
    await talk("user_parent")
    await elapse(6)
    shown = {who: hass.states.get(EXHAUSTED.format(who)) for who in ("parent", "phone")}
    assert {who: state and state.state for who, state in shown.items()} == {
        "parent": "off",
        "phone": "off",
    }
    with pytest.raises(Exception, match="quota"):
        await talk("user_parent")
    await elapse(6)
    for who in ("parent", "phone"):
        state = hass.states.get(EXHAUSTED.format(who))
        assert state is not None
        assert state.state == "on"
        assert state.attributes["device_class"] == "problem"
        assert show(f"{who}_member_state") == "over_quota"
    child = hass.states.get(EXHAUSTED.format("child"))
    assert child is not None
    assert child.state == "off"


async def test_shares_of_the_last_hour_are_told_beside_what_is_due(
    talk: Talk, show: Show, elapse: Elapse
) -> None:
    assert show("parent_share_observed") == STATE_UNKNOWN
    assert show("parent_share_entitled") == STATE_UNKNOWN
    await talk("user_parent", device_id="d_phone")
    await talk("user_child")
    await elapse(6)
    assert float(show("parent_share_observed")) == pytest.approx(50)
    assert float(show("parent_share_entitled")) == pytest.approx(100 / 3)
    assert float(show("child_share_entitled")) == pytest.approx(200 / 3)
    assert float(show("phone_share_observed")) == pytest.approx(100)
    assert float(show("household_entry_guest_share_observed")) == 0
    assert show("household_entry_guest_share_entitled") == STATE_UNKNOWN


@pytest.mark.usefixtures("everything")
async def test_waits_are_told_by_member_and_by_kind(
    entry: ConfigEntry[Household],
    llama: FakeServer,
    two_talk: Talking,
    show: Show,
    elapse: Elapse,
) -> None:
    await elapse(6)
    assert show("household_entry_workload_chat_queue_depth") == "1"
    await two_talk.end()
    await elapse(6)
    # Parent asked twice: once at once, once after 6 seconds.
    assert float(show("parent_wait_p95")) == 6
    assert float(show("child_wait_p95")) == 0
    assert float(show("parent_ttft_p95")) == 6
    assert float(show("parent_completion_p95")) == 6
    assert float(show("child_itl_p95")) == 6  # two words, the second after the gate
    chat = "household_entry_workload_chat"
    assert float(show(f"{chat}_wait_p50")) == 0
    assert float(show(f"{chat}_wait_p95")) == 6
    assert float(show(f"{chat}_ttft_p50")) == 0
    assert float(show(f"{chat}_ttft_p95")) == 6
    assert float(show(f"{chat}_completion_p50")) == 6
    assert float(show(f"{chat}_completion_p95")) == 6
    assert show(f"{chat}_queue_depth") == "0"
    assert show("household_entry_workload_voice_wait_p95") == STATE_UNKNOWN
    assert float(show("server_latency")) == 0
    assert show("household_entry_tokens_recomputed") == "0"


# ---- household ---------------------------------------------------------------------


async def test_the_household_tells_its_fairness_and_what_a_voice_command_would_wait(
    household: Household, two_talk: Talking, show: Show, elapse: Elapse
) -> None:
    await elapse(6)
    gap, bound = (show(f"household_entry_fairness_{key}") for key in ("gap", "bound"))
    assert 0 <= float(gap) <= float(bound)
    assert show("household_entry_expected_wait_voice") == str(
        household.expected_wait_s(next(iter(household.settings.profiles)))
    )
    await two_talk.end()


async def test_without_a_server_nobody_knows_how_long_to_wait(
    hass: HomeAssistant, entry: ConfigEntry, show: Show, elapse: Elapse
) -> None:
    hass.config_entries.async_remove_subentry(entry, "server")
    await hass.async_block_till_done()
    await elapse(6)
    assert show("household_entry_expected_wait_voice") == STATE_UNKNOWN


async def test_the_policy_is_matched_by_what_it_aims_at(
    hass: HomeAssistant, household: Household, talk: Talk, show: Show, elapse: Elapse
) -> None:
    assert show("household_entry_policy_match") == STATE_UNKNOWN
    options = {"policy": "equal_completion"}
    hass.config_entries.async_update_entry(household.entry, options=options)
    await talk("user_parent")
    await talk("user_child")
    await elapse(6)
    assert float(show("household_entry_policy_match")) == 100


async def test_the_speed_is_that_of_now_and_goes_back_to_nothing(
    talk: Talk, show: Show, elapse: Elapse
) -> None:
    assert show("household_entry_tokens_per_second") == "0.0"
    await elapse(60)
    await talk("user_parent")  # writes four tokens
    await elapse(6)
    speeds = [float(show("household_entry_tokens_per_second"))]
    for _ in range(3):
        await elapse(6)
        speeds.append(float(show("household_entry_tokens_per_second")))
    assert max(speeds) == pytest.approx(0.8)
    assert speeds[-1] == 0


# ---- servers -----------------------------------------------------------------------


async def test_a_server_tells_that_it_is_full_and_how_much_memory_is_given_away(
    two_talk: Talking, show: Show, elapse: Elapse
) -> None:
    await elapse(6)
    assert show("server_server_state") == "saturated"
    assert show("server_slots_used") == "2"
    assert 0 < float(show("server_kv_used")) <= 100
    await two_talk.end()
    await elapse(6)
    assert show("server_server_state") == "ready"
    assert float(show("server_kv_used")) == 0


async def test_a_server_is_looked_at_again_by_a_button(
    hass: HomeAssistant,
    entry: ConfigEntry,
    entity_registry: er.EntityRegistry,
    household: Household,
    llama: FakeServer,
    show: Show,
    elapse: Elapse,
) -> None:
    button = entity_registry.async_get_entity_id("button", "fair_share", "server_probe")
    assert button is not None
    await llama.stop()
    await hass.services.async_call(
        "button", "press", {"entity_id": button}, blocking=True
    )
    await until(lambda: not list(household.servers.ready()))
    await elapse(6)
    assert show("server_server_state") == "unreachable"
    assert show("server_kv_used") == show("server_latency") == STATE_UNAVAILABLE


# ---- weights, quotas and the pause -------------------------------------------------


@pytest.mark.parametrize(
    ("entity_id", "value", "key", "stored"),
    [
        ("number.child_weight", 3.5, "weight", 3.5),
        ("number.child_quota", 900, "quota_tokens", 900),
        ("number.parent_quota", 0, "quota_tokens", None),
        ("number.phone_quota", 50, "quota_tokens", 50),
    ],
)
async def test_a_number_of_a_share_holds_at_once_and_after_a_restart(
    hass: HomeAssistant,
    entry: ConfigEntry[Household],
    entity_id: str,
    value: float,
    key: str,
    stored: float | None,
) -> None:
    target = {"entity_id": entity_id, "value": value}
    await hass.services.async_call("number", "set_value", target, blocking=True)
    owner = entity_id.split(".")[1].split("_", maxsplit=1)[0]
    state = hass.states.get(entity_id)
    assert state is not None
    assert float(state.state) == value
    assert entry.subentries[owner].data.get(key) == stored
    spec = entry.runtime_data.registry.spec(owner)
    assert value in {spec.weight, spec.quota.tokens if spec.quota else 0}
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    again = hass.states.get(entity_id)
    assert again is not None
    assert float(again.state) == value


async def test_the_share_of_guests_is_kept_in_the_options(
    hass: HomeAssistant, entry: ConfigEntry[Household]
) -> None:
    for entity_id, value in (
        ("number.guests_weight", 0.5),
        ("number.guests_quota", 40),
    ):
        target = {"entity_id": entity_id, "value": value}
        await hass.services.async_call("number", "set_value", target, blocking=True)
    assert entry.options == {"guest_weight": 0.5, "guest_quota_tokens": 40}
    status = entry.runtime_data.node_status("guest")
    assert (status.weight, status.window.limit_tokens) == (0.5, 40)


async def test_a_change_in_the_dialog_changes_the_number(
    hass: HomeAssistant, entry: ConfigEntry, elapse: Elapse
) -> None:
    child = entry.subentries["child"]
    hass.config_entries.async_update_subentry(
        entry, child, data={**child.data, "weight": 7.0}
    )
    await elapse(6)
    state = hass.states.get("number.child_weight")
    assert state is not None
    assert state.state == "7.0"


async def test_the_switch_pauses_background_work_until_it_is_off(
    hass: HomeAssistant, entry: ConfigEntry[Household]
) -> None:
    switch = {"entity_id": "switch.fair_share_household_pause_background_work"}
    await hass.services.async_call("switch", "turn_on", switch, blocking=True)
    assert entry.runtime_data.settings.paused_workloads == {"background"}
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    state = hass.states.get(switch["entity_id"])
    assert state is not None
    assert state.state == "on"
    await hass.services.async_call("switch", "turn_off", switch, blocking=True)
    assert entry.runtime_data.settings.paused_workloads == frozenset()
    assert entry.options == {}


# ---- how often ---------------------------------------------------------------------


async def test_a_fast_stream_is_written_down_at_human_speed(
    hass: HomeAssistant,
    llama: FakeServer,
    talk: Talk,
    elapse: Elapse,
) -> None:
    await elapse(6)
    states = async_capture_events(hass, "state_changed")
    llama.default = answer(*["word"] * 60)
    await talk("user_child")
    await elapse(6)
    await elapse(6)
    written: dict[str, int] = {}
    for event in states:
        entity_id = event.data["entity_id"]
        written[entity_id] = written.get(entity_id, 0) + 1
    assert written["sensor.child_tokens_served"] <= 2
    # 60 tokens in one moment: nothing is written more often than at its start, five
    # seconds later, and once more when the speed goes back to nothing.
    assert max(written.values()) <= 3
    assert sum(written.values()) <= 60
