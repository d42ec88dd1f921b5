"""The rules that options set, and what becomes of options that make no sense."""

from dataclasses import replace
import logging
from typing import Any

from homeassistant.config_entries import ConfigEntryState
from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import (
    DEFAULT_PROFILES,
    CostWeights,
    Limits,
    PreemptionRules,
    Settings,
    Workload,
)
from custom_components.fair_share.household.registry import Registry
from custom_components.fair_share.household.settings import settings_from
from tests.common import device, household_entry, member, set_up

CHAT = DEFAULT_PROFILES[Workload.CHAT]


def usual(**changed: Any) -> Settings:
    """Return the usual rules but for these."""
    return replace(Settings(preemption=PreemptionRules(while_reading=True)), **changed)


def test_without_options_the_rules_are_the_usual_ones() -> None:
    assert settings_from({}) == usual()


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({"policy": "latency_first"}, {"policy": "latency_first"}),
        ({"background_share_percent": 0}, {"background_share": 0.0}),
        ({"background_share_percent": 90.0}, {"background_share": 0.9}),
        ({"cost_uncached_prompt": 3}, {"costs": CostWeights(uncached_prompt=3)}),
        ({"cost_cached_prompt": 0.5}, {"costs": CostWeights(cached_prompt=0.5)}),
        ({"cost_output": 0}, {"costs": CostWeights(output=0)}),
        ({"queue_limit": 7.0}, {"limits": Limits(queued=7)}),
        ({"queue_limit_class": 3}, {"limits": Limits(queued_per_class=3)}),
        ({"bypass": 0}, {"bypass": 0}),
        ({"preemption": False}, {"preemption": None}),
        ({"preemption": True}, {}),
        (
            {"preemption_threshold": 50},
            {"preemption": PreemptionRules(threshold=50, while_reading=True)},
        ),
    ],
    ids=str,
)
def test_an_option_sets_its_rule_and_no_other(
    options: dict[str, Any], changed: dict[str, Any]
) -> None:
    assert settings_from(options) == usual(**changed)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("band", 3),
        ("band", 0),
        ("ttft_target_s", 0.5),
        ("age_step_s", 1),
        ("max_wait_s", 7.5),
        ("preemptible", False),
        ("completion_target_s", 9),
        ("max_pause_s", 0),
        ("patience_s", 0),
    ],
)
def test_a_kind_of_requests_is_changed_in_that_alone(key: str, value: float) -> None:
    profiles = settings_from({"workloads": {"chat": {key: value}}}).profiles
    assert profiles == {
        **DEFAULT_PROFILES,
        Workload.CHAT: replace(CHAT, **{key: value}),
    }


NONSENSE: list[dict[str, Any]] = [
    {"policy": "chance"},
    {"policy": 5},
    {"background_share_percent": 90.5},
    {"background_share_percent": -1},
    {"background_share_percent": "5"},
    {"background_share_percent": True},
    {"cost_output": float("nan")},
    {"cost_output": float("inf")},
    {"cost_uncached_prompt": -1},
    {"queue_limit": 0},
    {"queue_limit": 2.5},
    {"queue_limit_class": []},
    {"bypass": -0.5},
    {"preemption": "yes"},
    {"preemption_threshold": -1},
    {"workloads": []},
    {"workloads": {"chat": 5}},
    {"workloads": {"chat": {"band": 4}}},
    {"workloads": {"chat": {"band": 1.5}}},
    {"workloads": {"chat": {"ttft_target_s": 0}}},
    {"workloads": {"chat": {"age_step_s": 0}}},
    {"workloads": {"chat": {"max_wait_s": -5}}},
    {"workloads": {"chat": {"preemptible": 1}}},
    {"workloads": {"chat": {"completion_target_s": 0}}},
    {"workloads": {"chat": {"max_pause_s": None, "patience_s": "long"}}},
]


@pytest.mark.parametrize("options", NONSENSE, ids=str)
def test_what_makes_no_sense_is_as_usual_with_a_warning(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert settings_from(options) == usual()
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert warning.name == "custom_components.fair_share.household.stored"


def test_what_no_rule_knows_is_ignored() -> None:
    assert settings_from({"colour": "blue", "workloads": {"dreams": {}}}) == usual()


@pytest.mark.parametrize(
    "options", [*NONSENSE, {"guest_weight": 0}, {"guest_quota_tokens": "many"}], ids=str
)
async def test_a_household_starts_whatever_its_options_are(
    hass: HomeAssistant, options: dict[str, Any]
) -> None:
    assert await async_setup_component(hass, "homeassistant", {})
    entry = household_entry(member("parent"), options=options)
    await set_up(hass, entry)
    assert entry.state is ConfigEntryState.LOADED
    assert entry.runtime_data.settings == usual()
    assert entry.runtime_data.node_status("guest").weight == 1.0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("weight", 0),
        ("weight", "heavy"),
        ("quota_tokens", -1),
        ("quota_window", "year"),
        ("quota_end", "explode"),
        ("quota_refill", 0),
        ("in_flight", 0),
        ("queued", 1.5),
        ("context_tokens", "all"),
        ("output_tokens", True),
        ("workload", "dreams"),
    ],
)
async def test_a_household_starts_whatever_its_parts_say(
    hass: HomeAssistant, key: str, value: object
) -> None:
    assert await async_setup_component(hass, "homeassistant", {})
    changed = {key: value}
    entry = household_entry(
        member("parent", **changed), device("tablet", "d_tablet", "parent", **changed)
    )
    await set_up(hass, entry)
    assert entry.state is ConfigEntryState.LOADED
    plain = household_entry(member("parent"), device("tablet", "d_tablet", "parent"))
    assert entry.runtime_data.registry.nodes() == Registry(hass, plain).nodes()
