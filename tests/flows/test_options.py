"""Changing the rules of the household."""

from typing import Any

from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType, InvalidData
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.fair_share.admission.policies import OFFERED
from custom_components.fair_share.household.settings import settings_from
from tests.flows.drive import fields, open_rules, set_rules, shown

BEFORE = {
    "policy": "latency_first",
    "guest_weight": 0.5,
    "guest_quota_tokens": 1000,
    "queue_limit": 20,
    "queue_limit_class": 5,
    "cost_uncached_prompt": 1.0,
    "cost_cached_prompt": 0.0,
    "cost_output": 3.0,
}
"""The options as the dialog stored them when it was one form."""

USUAL: dict[str, dict[str, Any]] = {
    "fairness": {"policy": "equal_tokens", "background_share_percent": 5.0},
    "interrupting": {"preemption": True, "expert": {"preemption_threshold": 1000.0}},
    "queue": {"queue_limit": 200, "queue_limit_class": 50, "bypass": 1000.0},
    "guests": {
        "guest_weight": 1.0,
        "guest_quota_tokens": None,
        "guest_quota_window": "day",
        "guest_quota_refill": None,
        "guest_quota_end": "stop",
    },
    "costs": {
        "cost_uncached_prompt": 1.0,
        "cost_cached_prompt": 0.1,
        "cost_output": 2.0,
    },
    "recording": {"activity_log": False},
    "web_pages": {"web_pages": None},
}
USUAL_CHAT = {
    "band": "soon",
    "ttft_target_s": 5.0,
    "age_step_s": 30.0,
    "max_wait_s": 60.0,
    "preemptible": True,
    "expert": {"completion_target_s": 60.0, "max_pause_s": 5.0, "patience_s": 120.0},
    "back_to_usual": False,
}


async def test_the_rules_are_a_menu(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await open_rules(hass, household)
    assert result["menu_options"] == [
        "fairness",
        "workloads",
        "interrupting",
        "queue",
        "guests",
        "costs",
        "recording",
        "web_pages",
    ]
    result = await open_rules(hass, household, "workloads")
    assert result["menu_options"] == [
        "voice",
        "accessibility",
        "chat",
        "task",
        "background",
    ]


@pytest.mark.parametrize("step", USUAL)
async def test_the_usual_rules_are_shown_first(
    hass: HomeAssistant, household: MockConfigEntry, step: str
) -> None:
    result = await open_rules(hass, household, step)
    assert result["step_id"] == step
    assert shown(result) == USUAL[step]


@pytest.mark.parametrize("step", USUAL)
async def test_usual_rules_that_are_submitted_change_nothing(
    hass: HomeAssistant, household: MockConfigEntry, step: str
) -> None:
    result = await set_rules(hass, household, step)
    assert result["type"] is FlowResultType.CREATE_ENTRY
    assert settings_from(household.options) == settings_from({})


@pytest.mark.parametrize(
    ("step", "changed", "stored"),
    [
        (
            "fairness",
            {"policy": "equal_waiting", "background_share_percent": 0},
            {"policy": "equal_waiting", "background_share_percent": 0.0},
        ),
        (
            "interrupting",
            {"preemption": False, "expert": {"preemption_threshold": 5}},
            {"preemption": False, "preemption_threshold": 5.0},
        ),
        (
            "queue",
            {"queue_limit": 9, "queue_limit_class": 4, "bypass": 0},
            {"queue_limit": 9, "queue_limit_class": 4, "bypass": 0.0},
        ),
        (
            "guests",
            {
                "guest_weight": 2,
                "guest_quota_tokens": 500,
                "guest_quota_window": "steady",
                "guest_quota_refill": 20,
                "guest_quota_end": "demote",
            },
            {
                "guest_weight": 2.0,
                "guest_quota_tokens": 500,
                "guest_quota_window": "steady",
                "guest_quota_refill": 20,
                "guest_quota_end": "demote",
            },
        ),
        (
            "costs",
            {"cost_uncached_prompt": 2, "cost_cached_prompt": 1, "cost_output": 4},
            {"cost_uncached_prompt": 2.0, "cost_cached_prompt": 1.0, "cost_output": 4},
        ),
        ("recording", {"activity_log": True}, {"activity_log": True}),
    ],
)
async def test_changed_rules_are_stored_flat_beside_all_others_and_shown_again(
    hass: HomeAssistant,
    household: MockConfigEntry,
    step: str,
    changed: dict[str, Any],
    stored: dict[str, Any],
) -> None:
    before = {**BEFORE, "workloads": {"chat": {"band": 0}}}
    hass.config_entries.async_update_entry(household, options=before)
    await set_rules(hass, household, step, **changed)
    assert household.options == {**before, **stored}
    assert shown(await open_rules(hass, household, step)) == changed


async def test_the_rules_of_before_are_shown_where_they_are_now(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    hass.config_entries.async_update_entry(household, options=BEFORE)
    shown_now = {
        key: value
        for step in USUAL
        for key, value in shown(await open_rules(hass, household, step)).items()
    }
    assert {key: shown_now[key] for key in BEFORE} == BEFORE
    assert household.runtime_data.settings.policy == "latency_first"


async def test_a_quota_that_is_left_empty_is_gone(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    hass.config_entries.async_update_entry(household, options=BEFORE)
    await set_rules(hass, household, "guests", guest_quota_tokens=None)
    assert "guest_quota_tokens" not in household.options
    assert household.options["queue_limit"] == 20


async def test_every_policy_that_is_offered_can_be_chosen(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await open_rules(hass, household, "fairness")
    assert fields(result)["policy"].config["options"] == list(OFFERED)


async def test_a_policy_that_does_not_exist_is_refused(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    with pytest.raises(InvalidData):
        await set_rules(hass, household, "fairness", policy="chance")


async def test_a_kind_of_requests_is_shown_as_it_usually_is(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await open_rules(hass, household, "workloads", "chat")
    assert shown(result) == USUAL_CHAT


@pytest.mark.parametrize(
    ("name", "band"),
    [
        ("voice", "at_once"),
        ("accessibility", "at_once"),
        ("task", "within_minutes"),
        ("background", "when_there_is_time"),
    ],
)
async def test_every_kind_of_requests_has_its_own_form(
    hass: HomeAssistant, household: MockConfigEntry, name: str, band: str
) -> None:
    assert shown(await open_rules(hass, household, "workloads", name))["band"] == band
    await set_rules(hass, household, "workloads", name, preemptible=False)
    assert household.options == {"workloads": {name: {"preemptible": False}}}


async def test_only_what_is_unusual_about_a_kind_of_requests_is_stored(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    await set_rules(hass, household, "workloads", "voice", max_wait_s=20)
    changed = {
        "band": "when_there_is_time",
        "ttft_target_s": 7.5,
        "expert": {**USUAL_CHAT["expert"], "patience_s": 0},
    }
    await set_rules(hass, household, "workloads", "chat", **changed)
    assert household.options == {
        "workloads": {
            "voice": {"max_wait_s": 20.0},
            "chat": {"band": 3, "ttft_target_s": 7.5, "patience_s": 0.0},
        }
    }
    result = await open_rules(hass, household, "workloads", "chat")
    assert shown(result) == USUAL_CHAT | changed


async def test_a_kind_of_requests_can_be_as_usual_again(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    await set_rules(hass, household, "workloads", "voice", max_wait_s=20)
    await set_rules(hass, household, "workloads", "chat", band="at_once")
    await set_rules(hass, household, "workloads", "voice", max_wait_s=15)
    assert household.options == {"workloads": {"chat": {"band": 0}}}
    back = {"back_to_usual": True, "age_step_s": 0}
    await set_rules(hass, household, "workloads", "chat", **back)
    assert household.options == {}


@pytest.mark.parametrize(
    ("menu", "wrong", "errors"),
    [
        (
            ("fairness",),
            {"background_share_percent": 90.5},
            {"background_share_percent": "share_too_large"},
        ),
        (
            ("guests",),
            {"guest_quota_tokens": 10, "guest_quota_window": "steady"},
            {"guest_quota_refill": "refill_missing"},
        ),
        (("workloads", "chat"), {"age_step_s": 0}, {"age_step_s": "not_above_zero"}),
        (
            ("workloads", "chat"),
            {"ttft_target_s": 0},
            {"ttft_target_s": "not_above_zero"},
        ),
        (
            ("workloads", "chat"),
            {"ttft_target_s": 6, "max_wait_s": 5.9},
            {"max_wait_s": "overdue_before_first_word"},
        ),
        (
            ("workloads", "chat"),
            {"expert": {**USUAL_CHAT["expert"], "completion_target_s": 4}},
            {"expert": "whole_before_first_word"},
        ),
    ],
)
async def test_what_makes_no_sense_is_shown_again_with_the_reason(
    hass: HomeAssistant,
    household: MockConfigEntry,
    menu: tuple[str, ...],
    wrong: dict[str, Any],
    errors: dict[str, str],
) -> None:
    before = shown(await open_rules(hass, household, *menu))
    result = await set_rules(hass, household, *menu, **wrong)
    assert result["type"] is FlowResultType.FORM
    assert result["errors"] == errors
    assert shown(result) == before | wrong
    assert household.options == {}


@pytest.mark.parametrize(
    ("step", "wrong"),
    [
        ("fairness", {"background_share_percent": -1}),
        ("queue", {"queue_limit": 0}),
        ("queue", {"bypass": -1}),
        ("guests", {"guest_weight": 0}),
        ("guests", {"guest_quota_end": "explode"}),
        ("costs", {"cost_output": -1}),
        ("interrupting", {"expert": {"preemption_threshold": -1}}),
    ],
)
async def test_values_that_no_form_allows_are_refused(
    hass: HomeAssistant, household: MockConfigEntry, step: str, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidData):
        await set_rules(hass, household, step, **wrong)


async def test_web_pages_are_stored_as_browsers_name_them(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    pages = [" http://Tablet.local:3000/ ", "https://chat.example:443"]
    result = await set_rules(hass, household, "web_pages", web_pages=pages)
    assert result["type"] is FlowResultType.CREATE_ENTRY
    assert household.options["web_pages"] == [
        "http://tablet.local:3000",
        "https://chat.example",
    ]
    await set_rules(hass, household, "web_pages", web_pages=[])
    assert "web_pages" not in household.options


@pytest.mark.parametrize(
    ("page", "error"),
    [
        ("*", "page_any"),
        ("chat.example", "page_not_valid"),
        ("http://a.example/page", "page_with_path"),
    ],
)
async def test_a_web_page_that_is_no_address_is_shown_again(
    hass: HomeAssistant, household: MockConfigEntry, page: str, error: str
) -> None:
    result = await set_rules(hass, household, "web_pages", web_pages=[page])
    assert result["errors"] == {"web_pages": error}
    assert shown(result) == {"web_pages": [page]}
    assert "web_pages" not in household.options
