"""What the actions answer."""

from collections.abc import Awaitable
import json
from pathlib import Path
from typing import Any

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import Context, HomeAssistant
from homeassistant.exceptions import ServiceValidationError, Unauthorized
from homeassistant.setup import async_setup_component
from homeassistant.util.yaml import load_yaml_dict
import pytest
from pytest_homeassistant_custom_component.common import MockUser

from custom_components import fair_share
from custom_components.fair_share.household.runtime import Household
from tests.common import ENTRY_ID, household_entry, server, set_up
from tests.fake_server import FakeServer, answer
from tests.platforms.conftest import Elapse, Talk, Talking

PACKAGE = Path(fair_share.__file__).parent
ACTIONS = ["get_queue", "get_usage"]
ALL_ACTIONS = [
    "cancel_request",
    "generate",
    "get_queue",
    "get_usage",
    "grant_tokens",
    "pause",
    "reset_usage",
    "resume",
    "set_quota",
]


async def ask(hass: HomeAssistant, action: str, **data: str) -> dict[str, Any]:
    """Call an action, and check that its answer is plain JSON."""
    response = await hass.services.async_call(
        "fair_share", action, data, blocking=True, return_response=True
    )
    return json.loads(json.dumps(response, allow_nan=False))


def by_id(items: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {item["id"]: item for item in items}


# ---- usage -------------------------------------------------------------------------


@pytest.mark.usefixtures("entry")
async def test_everybody_is_in_the_usage_also_before_they_asked(
    hass: HomeAssistant,
) -> None:
    usage = await ask(hass, "get_usage")
    assert {(m["id"], m["name"], m["kind"]) for m in usage["members"]} == {
        ("guest", "Guests", "guest"),
        ("shared", "Shared", "shared"),
        ("parent", "Parent", "person"),
        ("child", "Child", "person"),
    }
    assert usage["household"]["tokens"] == 0
    parent = by_id(usage["members"])["parent"]
    assert parent["last_request"] is None
    assert parent["share_observed"] is None
    assert parent["share_entitled"] is None


async def test_tokens_and_charge_are_told_by_member_and_device(
    hass: HomeAssistant, llama: FakeServer, talk: Talk
) -> None:
    llama.default = answer("a", "b", "c", cached=1)
    await talk("user_parent", "two words", device_id="d_phone")

    usage = await ask(hass, "get_usage")

    parent = by_id(usage["members"])["parent"]
    used = {
        "tokens": 6,
        "prompt_tokens": 3,
        "cached_tokens": 1,
        "output_tokens": 3,
        "charge": 8.1,  # 2 new of the prompt, 1 from the cache, 3 written
        "requests": 1,
        "rejected": 0,
        "preemptions": 0,
        "waiting": 0,
        "running": 0,
    }
    assert used.items() <= parent.items()
    assert used.items() <= usage["household"].items()
    sources = by_id(parent["sources"])
    assert sources["phone"]["kind"] == "device"
    assert used.items() <= sources["phone"].items()
    assert sources["parent/direct"]["kind"] == "direct"
    assert sources["parent/direct"]["tokens"] == 0


async def test_the_quota_is_told_with_what_is_left(
    hass: HomeAssistant, talk: Talk
) -> None:
    await talk("user_parent")
    quota = by_id((await ask(hass, "get_usage"))["members"])["parent"]["quota"]
    assert quota["window"] == "day"
    assert quota["used_tokens"] == 6
    assert quota["limit_tokens"] == 100
    assert quota["remaining_tokens"] == 94
    assert quota["started_at"] < quota["resets_at"]
    assert quota["refill_per_hour"] is None


async def test_shares_are_compared_among_those_who_asked(
    hass: HomeAssistant, talk: Talk
) -> None:
    await talk("user_parent")
    await talk("user_child")  # has twice the weight

    members = by_id((await ask(hass, "get_usage"))["members"])

    assert members["parent"]["share_observed"] == 0.5
    assert members["parent"]["share_entitled"] == pytest.approx(1 / 3, abs=1e-4)
    assert members["child"]["share_entitled"] == pytest.approx(2 / 3, abs=1e-4)
    assert members["guest"]["share_observed"] == 0
    assert members["guest"]["share_entitled"] is None


async def test_the_last_request_is_told(
    hass: HomeAssistant, llama: FakeServer, talk: Talk
) -> None:
    await talk("user_parent")
    last = by_id((await ask(hass, "get_usage"))["members"])["parent"]["last_request"]
    assert last == {
        "outcome": "finished",
        "workload": "chat",
        "server": f"fake-model ({llama.url.removeprefix('http://')})",
        "wait_s": 0,
        "ttft_s": 0,
        "duration_s": 0,
        "tokens": 6,
        "prompt_tokens": 2,
        "cached_tokens": 0,
        "output_tokens": 4,
        "charge": 10,
        "estimated": False,
        "preemptions": 0,
        "longest_pause_s": 0,
    }


async def test_an_automation_is_told_as_itself(
    hass: HomeAssistant, household: Household, talk: Talk
) -> None:
    hass.states.async_set("automation.night", "on", {"friendly_name": "Good night"})
    state = hass.states.get("automation.night")
    assert state is not None
    await talk(None, context=state.context)

    shared = by_id((await ask(hass, "get_usage"))["members"])["shared"]

    source = by_id(shared["sources"])["shared/automation.night"]
    assert source["name"] == "Good night"
    assert source["kind"] == "automation"
    assert source["tokens"] == 6


async def test_accounts_from_before_a_restart_are_told(
    hass: HomeAssistant, entry: ConfigEntry, talk: Talk
) -> None:
    hass.states.async_set("automation.night", "on")
    state = hass.states.get("automation.night")
    assert state is not None
    await talk(None, context=state.context)
    assert await hass.config_entries.async_reload(entry.entry_id)
    usage = await ask(hass, "get_usage")
    assert by_id(usage["members"])["shared"]["tokens"] == 6


# ---- queue -------------------------------------------------------------------------


async def test_an_empty_queue_is_told_with_its_servers(
    hass: HomeAssistant, entry: ConfigEntry, llama: FakeServer
) -> None:
    queue = await ask(hass, "get_queue")
    assert queue["waiting"] == queue["running"] == 0
    assert queue["requests"] == []
    assert queue["fairness_gap"] == 0
    assert queue["servers"] == [
        {
            "id": "server",
            "name": entry.subentries["server"].title,
            "state": "ready",
            "slots": 2,
            "running": 0,
            "foreign": None,
            "context_tokens": 4096,
            "kv_tokens": 4096,
            "kv_committed_tokens": 0,
        }
    ]


async def test_who_waits_is_told_with_the_reason(
    hass: HomeAssistant, two_talk: Talking, elapse: Elapse
) -> None:
    await elapse(2)

    queue = await ask(hass, "get_queue")

    assert queue["waiting"] == 1
    assert queue["running"] == 2
    assert [
        (request["state"], request["member"], request["source"], request["server"])
        for request in queue["requests"]
    ] == [
        ("running", "Parent", "Parent", queue["servers"][0]["name"]),
        ("running", "Child", "Child", queue["servers"][0]["name"]),
        ("waiting", "Parent", "Parent", None),
    ]
    waiting = queue["requests"][2]
    assert waiting["reason"] == "no_slot"
    assert waiting["workload"] == "chat"
    assert waiting["waited_s"] == 2
    assert (waiting["ahead"], queue["requests"][0]["ahead"]) == (0, None)
    assert waiting["prompt_tokens"] == 8  # estimated: it is too short to be counted
    assert queue["requests"][0]["output_tokens"] == 1
    assert queue["requests"][0]["preemptions"] == 0
    assert queue["servers"][0]["running"] == 2

    await two_talk.end()


@pytest.mark.parametrize("left", [["parent"], ["parent", "phone"]])
async def test_who_was_removed_while_their_answer_runs_is_told_as_removed(
    hass: HomeAssistant, entry: ConfigEntry, two_talk: Talking, left: list[str]
) -> None:
    for subentry_id in left:
        hass.config_entries.async_remove_subentry(entry, subentry_id)
    await hass.async_block_till_done()

    queue = await ask(hass, "get_queue")
    usage = await ask(hass, "get_usage")

    assert [(r["state"], r["member"], r["source"]) for r in queue["requests"]] == [
        ("running", "removed", "removed"),
        ("running", "Child", "Child"),
    ]
    assert "parent" not in by_id(usage["members"])
    await two_talk.end()


async def test_a_device_that_was_removed_does_not_come_back_as_something_else(
    hass: HomeAssistant, household: Household, entry: ConfigEntry, talk: Talk
) -> None:
    hass.config_entries.async_remove_subentry(entry, "phone")
    await hass.async_block_till_done()

    await talk(None, device_id="d_phone")
    await talk("user_parent", device_id="d_phone")

    members = by_id((await ask(hass, "get_usage"))["members"])
    assert [s["id"] for s in members["parent"]["sources"]] == ["parent/direct"]
    assert members["parent"]["tokens"] == members["guest"]["tokens"] == 6


async def test_a_server_that_was_never_there_has_unknown_sizes(
    hass: HomeAssistant,
) -> None:
    await set_up(hass, household_entry(server("http://127.0.0.1:1")))
    nowhere = (await ask(hass, "get_queue"))["servers"][0]
    assert nowhere["state"] == "unreachable"
    assert nowhere["slots"] is None
    assert nowhere["running"] == 0


# ---- calling -----------------------------------------------------------------------


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("action", ACTIONS)
async def test_of_all_users_only_administrators_may_ask(
    hass: HomeAssistant,
    hass_admin_user: MockUser,
    hass_read_only_user: MockUser,
    action: str,
) -> None:
    def asked_by(user: MockUser) -> Awaitable[Any]:
        return hass.services.async_call(
            "fair_share",
            action,
            blocking=True,
            return_response=True,
            context=Context(user_id=user.id),
        )

    assert await asked_by(hass_admin_user)
    with pytest.raises(Unauthorized):
        await asked_by(hass_read_only_user)


@pytest.mark.parametrize("action", ACTIONS)
async def test_the_household_can_be_named(
    hass: HomeAssistant, entry: ConfigEntry, action: str
) -> None:
    named = await ask(hass, action, config_entry_id=ENTRY_ID)
    assert named == await ask(hass, action)


@pytest.mark.parametrize("action", ACTIONS)
async def test_a_household_that_is_not_there_is_a_mistake_of_the_caller(
    hass: HomeAssistant, entry: ConfigEntry, action: str
) -> None:
    with pytest.raises(ServiceValidationError):
        await ask(hass, action, config_entry_id="nowhere")


@pytest.mark.parametrize("action", ACTIONS)
async def test_an_action_exists_without_a_household_and_says_so(
    hass: HomeAssistant, action: str
) -> None:
    assert await async_setup_component(hass, "fair_share", {})
    with pytest.raises(ServiceValidationError):
        await ask(hass, action)


def test_every_action_has_fields_texts_and_an_icon() -> None:
    fields = load_yaml_dict(str(PACKAGE / "services.yaml"))
    texts = json.loads((PACKAGE / "translations" / "en.json").read_text())["services"]
    icons = json.loads((PACKAGE / "icons.json").read_text())["services"]
    assert sorted(fields) == sorted(texts) == sorted(icons) == ALL_ACTIONS
    for action in ALL_ACTIONS:
        assert set(fields[action]["fields"]) == set(texts[action]["fields"])
