"""Which devices and entities there are, and of what kind."""

import json
from pathlib import Path
from typing import Any

from homeassistant.components.sensor import (
    DEVICE_CLASS_STATE_CLASSES,
    DEVICE_CLASS_UNITS,
    SensorDeviceClass as Kind,
    SensorEntityDescription,
    SensorStateClass as Class,
)
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import EntityCategory
from homeassistant.helpers import device_registry as dr, entity_registry as er
import pytest

from custom_components import fair_share
from custom_components.fair_share.admission.model import Workload
from custom_components.fair_share.sensor_descriptions import (
    HOUSEHOLD_SENSORS,
    MEMBER_SENSORS,
)
from custom_components.fair_share.sensor_facts import (
    CLIENT_FACTS,
    HOUSEHOLD_FACTS,
    MEMBER_FACTS,
    WORKLOAD_FACTS,
)
from custom_components.fair_share.sensor_servers import (
    FOREIGN_REQUESTS,
    KV_USED,
    LATENCY,
    SERVER_STATE,
    SLOTS_USED,
)
from tests.platforms.conftest import (
    MEMBER_KEYS,
    SHARE_KEYS,
    found_device,
    unique_ids,
)

PACKAGE = Path(fair_share.__file__).parent
TEXTS = json.loads((PACKAGE / "translations" / "en.json").read_text())
ICONS = json.loads((PACKAGE / "icons.json").read_text())
DESCRIPTIONS: dict[str, SensorEntityDescription] = {
    description.key: description
    for description in (
        *HOUSEHOLD_SENSORS,
        *MEMBER_SENSORS,
        *HOUSEHOLD_FACTS,
        *WORKLOAD_FACTS,
        *MEMBER_FACTS,
        *CLIENT_FACTS,
        SERVER_STATE,
        SLOTS_USED,
        FOREIGN_REQUESTS,
        KV_USED,
        LATENCY,
    )
}


@pytest.mark.parametrize(
    ("identifier", "name", "subentry_id"),
    [
        ("household_entry_guest", "Guests", None),
        ("household_entry_shared", "Shared", None),
        ("parent", "Parent", "parent"),
        ("phone", "Phone", "phone"),
    ],
)
async def test_everybody_has_a_device_behind_the_households(
    entry: ConfigEntry,
    device_registry: dr.DeviceRegistry,
    identifier: str,
    name: str,
    subentry_id: str | None,
) -> None:
    household = found_device(device_registry, entry, "household_entry")
    found = found_device(device_registry, entry, identifier)
    assert found.name == name
    assert found.via_device_id == household.id
    assert found.entry_type is dr.DeviceEntryType.SERVICE
    assert found.config_subentry_id == subentry_id


async def test_the_household_is_a_service(
    entry: ConfigEntry, device_registry: dr.DeviceRegistry
) -> None:
    household = found_device(device_registry, entry, "household_entry")
    assert household.name == "Fair Share household"
    assert household.entry_type is dr.DeviceEntryType.SERVICE
    assert household.via_device_id is None


@pytest.mark.parametrize("prefix", ["household_entry_guest", "child", "phone"])
async def test_members_and_devices_have_the_same_entities(
    entry: ConfigEntry, entity_registry: er.EntityRegistry, prefix: str
) -> None:
    assert unique_ids(entity_registry, entry, prefix) == MEMBER_KEYS | SHARE_KEYS


async def test_what_is_shared_by_all_has_no_weight_and_no_quota_to_set(
    entry: ConfigEntry, entity_registry: er.EntityRegistry
) -> None:
    shared = unique_ids(entity_registry, entry, "household_entry_shared")
    assert shared == MEMBER_KEYS


@pytest.mark.parametrize("workload", Workload)
async def test_every_kind_of_requests_has_a_device_with_its_waits(
    entry: ConfigEntry,
    entity_registry: er.EntityRegistry,
    device_registry: dr.DeviceRegistry,
    workload: Workload,
) -> None:
    identifier = f"household_entry_workload_{workload}"
    found = found_device(device_registry, entry, identifier)
    assert found.name == f"{workload.capitalize()} requests"
    assert unique_ids(entity_registry, entry, identifier) == {
        "queue_depth",
        "wait_p50",
        "wait_p95",
        "ttft_p50",
        "ttft_p95",
        "completion_p50",
        "completion_p95",
    }


async def test_a_server_has_its_state_its_slots_and_what_comes_from_elsewhere(
    entry: ConfigEntry, entity_registry: er.EntityRegistry
) -> None:
    assert unique_ids(entity_registry, entry, "server") == {
        "server_state",
        "slots_used",
        "foreign_requests",
        "kv_used",
        "latency",
        "probe",
    }


@pytest.mark.parametrize(
    ("key", "kind", "state_class", "unit", "category", "enabled"),
    [
        ("queue_depth", None, Class.MEASUREMENT, None, None, True),
        ("running", None, Class.MEASUREMENT, None, None, True),
        ("tokens_served", None, Class.TOTAL, None, None, True),
        ("tokens_prompt", None, Class.TOTAL, None, "diagnostic", False),
        ("tokens_cached", None, Class.TOTAL, None, "diagnostic", False),
        ("tokens_output", None, Class.TOTAL, None, "diagnostic", False),
        ("tokens_window", None, Class.TOTAL, None, None, True),
        ("quota_remaining", None, Class.MEASUREMENT, None, None, True),
        ("quota_remaining_percent", None, Class.MEASUREMENT, "%", None, True),
        ("next_reset", Kind.TIMESTAMP, None, None, None, True),
        ("last_wait", Kind.DURATION, Class.MEASUREMENT, "s", None, True),
        ("last_ttft", Kind.DURATION, Class.MEASUREMENT, "s", "diagnostic", True),
        ("preemptions", None, Class.TOTAL_INCREASING, None, "diagnostic", False),
        ("rejected", None, Class.TOTAL_INCREASING, None, "diagnostic", True),
        ("expected_wait_voice", Kind.DURATION, Class.MEASUREMENT, "s", None, True),
        ("tokens_per_second", None, Class.MEASUREMENT, None, None, True),
        (
            "tokens_recomputed",
            None,
            Class.TOTAL_INCREASING,
            None,
            "diagnostic",
            False,
        ),
        ("fairness_gap", None, Class.MEASUREMENT, None, "diagnostic", True),
        ("fairness_bound", None, Class.MEASUREMENT, None, "diagnostic", True),
        ("policy_match", None, Class.MEASUREMENT, "%", None, True),
        ("member_state", Kind.ENUM, None, None, None, True),
        ("share_observed", None, Class.MEASUREMENT, "%", None, True),
        ("share_entitled", None, Class.MEASUREMENT, "%", None, True),
        ("wait_p95", Kind.DURATION, Class.MEASUREMENT, "s", None, True),
        ("wait_p50", Kind.DURATION, Class.MEASUREMENT, "s", "diagnostic", False),
        ("ttft_p50", Kind.DURATION, Class.MEASUREMENT, "s", "diagnostic", False),
        ("ttft_p95", Kind.DURATION, Class.MEASUREMENT, "s", "diagnostic", False),
        ("itl_p95", Kind.DURATION, Class.MEASUREMENT, "s", "diagnostic", False),
        ("completion_p50", Kind.DURATION, Class.MEASUREMENT, "s", "diagnostic", False),
        ("completion_p95", Kind.DURATION, Class.MEASUREMENT, "s", "diagnostic", False),
        ("kv_used", None, Class.MEASUREMENT, "%", "diagnostic", True),
        ("latency", Kind.DURATION, Class.MEASUREMENT, "s", "diagnostic", True),
        ("server_state", Kind.ENUM, None, None, None, True),
        ("slots_used", None, Class.MEASUREMENT, None, "diagnostic", True),
        ("foreign_requests", None, Class.MEASUREMENT, None, "diagnostic", True),
    ],
)
def test_a_sensor_is_of_its_kind(
    key: str,
    kind: Kind | None,
    state_class: Class | None,
    unit: str | None,
    category: EntityCategory | None,
    *,
    enabled: bool,
) -> None:
    description = DESCRIPTIONS[key]
    assert description.device_class == kind
    assert description.state_class == state_class
    assert description.native_unit_of_measurement == unit
    assert description.entity_category == category
    assert description.entity_registry_enabled_default is enabled


@pytest.mark.parametrize("description", DESCRIPTIONS.values(), ids=list(DESCRIPTIONS))
def test_home_assistant_knows_such_a_kind(description: SensorEntityDescription) -> None:
    kind = description.device_class
    unit = description.native_unit_of_measurement
    allowed_units = DEVICE_CLASS_UNITS.get(kind, {unit})
    allowed_classes = DEVICE_CLASS_STATE_CLASSES.get(kind, {description.state_class})
    assert unit in allowed_units
    assert description.state_class in allowed_classes | {None}


def test_every_sensor_and_only_they_have_texts_and_an_icon() -> None:
    assert set(TEXTS["entity"]["sensor"]) == set(DESCRIPTIONS)
    assert set(ICONS["entity"]["sensor"]) == set(DESCRIPTIONS)


@pytest.mark.parametrize("description", DESCRIPTIONS.values(), ids=list(DESCRIPTIONS))
def test_a_number_without_a_unit_of_its_own_has_one_in_words(
    description: SensorEntityDescription,
) -> None:
    text: dict[str, Any] = TEXTS["entity"]["sensor"][description.key]
    has_unit = bool(description.native_unit_of_measurement)
    is_number = description.state_class is not None
    assert ("unit_of_measurement" in text) == (is_number and not has_unit)


def test_every_state_of_a_server_has_a_text() -> None:
    assert list(TEXTS["entity"]["sensor"]["server_state"]["state"]) == list(
        SERVER_STATE.options or ()
    )
