"""The share tree follows the configuration."""

from typing import Any

from homeassistant.core import HomeAssistant
from homeassistant.helpers import device_registry as dr
import pytest

from custom_components.fair_share.admission.model import (
    ROOT_ID,
    Caps,
    NodeSpec,
    QuotaEnd,
    QuotaSpec,
    QuotaWindow,
    RequestClass,
    Workload,
)
from custom_components.fair_share.const import DOMAIN
from custom_components.fair_share.household.asker import Asker, IdentityRule
from custom_components.fair_share.household.registry import Registry
from tests.common import ENTRY_ID, device, household_entry, member, subentry

ANNA_DIRECT = Asker("parent", "parent/direct", None, None, IdentityRule.USER)
ANNA_PHONE = Asker("parent", "phone", "phone", Workload.VOICE, IdentityRule.DEVICE)
AUTOMATION = Asker(
    "shared",
    "shared/automation.night",
    None,
    Workload.BACKGROUND,
    IdentityRule.AUTOMATION,
)


def test_an_empty_household_has_guests_and_shared_things(hass: HomeAssistant) -> None:
    assert Registry(hass, household_entry()).nodes() == (
        NodeSpec("guest"),
        NodeSpec("shared"),
        NodeSpec("guest/direct", "guest"),
    )


def test_parents_come_before_children(hass: HomeAssistant) -> None:
    entry = household_entry(device("phone", "d1", "parent"), member("parent"))
    seen = {ROOT_ID}
    for spec in Registry(hass, entry).nodes():
        assert spec.parent_id in seen
        seen.add(spec.node_id)


def test_a_member_has_weight_quota_and_caps(hass: HomeAssistant) -> None:
    entry = household_entry(
        member(
            "parent",
            weight=2.5,
            quota_tokens=50_000.0,
            quota_window="week",
            context_tokens=8192.0,
            output_tokens=512,
            in_flight=2,
        )
    )
    assert Registry(hass, entry).members["parent"].spec == NodeSpec(
        "parent",
        ROOT_ID,
        2.5,
        QuotaSpec(50_000, QuotaWindow.WEEK),
        Caps(context_tokens=8192, output_tokens=512, in_flight=2),
    )


def test_guests_have_the_weight_and_the_daily_quota_of_the_options(
    hass: HomeAssistant,
) -> None:
    entry = household_entry(options={"guest_weight": 0.5, "guest_quota_tokens": 2000.0})
    assert Registry(hass, entry).nodes()[0] == NodeSpec(
        "guest", weight=0.5, quota=QuotaSpec(2000, QuotaWindow.DAY)
    )


@pytest.mark.parametrize(
    ("data", "quota"),
    [
        ({"quota_window": "month"}, QuotaSpec(50, QuotaWindow.MONTH)),
        ({"quota_end": "demote"}, QuotaSpec(50, at_end=QuotaEnd.DEMOTE)),
        (
            {"quota_window": "steady", "quota_refill": 7200, "quota_end": "finish"},
            QuotaSpec(50, at_end=QuotaEnd.FINISH, refill_per_s=2.0),
        ),
        ({"quota_window": "steady"}, QuotaSpec(50)),
        ({"quota_refill": 7200}, QuotaSpec(50)),
    ],
    ids=str,
)
def test_guests_and_members_have_quotas_of_the_same_kinds(
    hass: HomeAssistant, data: dict[str, Any], quota: QuotaSpec
) -> None:
    stored = {"quota_tokens": 50, **data}
    entry = household_entry(
        member("parent", **stored),
        options={f"guest_{key}": value for key, value in stored.items()},
    )
    registry = Registry(hass, entry)
    assert registry.nodes()[0].quota == registry.members["parent"].spec.quota == quota


def test_a_quota_of_zero_is_a_quota(hass: HomeAssistant) -> None:
    entry = household_entry(options={"guest_quota_tokens": 0})
    assert Registry(hass, entry).nodes()[0].quota == QuotaSpec(0)


@pytest.mark.parametrize(
    ("wanted", "parent"),
    [("parent", "parent"), ("shared", "shared"), ("gone", "shared")],
)
def test_a_device_is_below_its_member_or_shared(
    hass: HomeAssistant, wanted: str, parent: str
) -> None:
    entry = household_entry(member("parent"), device("kitchen", "d1", wanted))
    registry = Registry(hass, entry)
    assert registry.devices["kitchen"].member_id == parent
    assert NodeSpec("kitchen", parent) in registry.nodes()


def test_a_device_speaks_unless_told_otherwise(hass: HomeAssistant) -> None:
    entry = household_entry(
        device("kitchen", "d1"), device("button", "d2", workload="accessibility")
    )
    devices = Registry(hass, entry).devices
    assert devices["kitchen"].workload is Workload.VOICE
    assert devices["button"].workload is Workload.ACCESSIBILITY


def test_a_class_is_a_workload_of_what_asks(hass: HomeAssistant) -> None:
    registry = Registry(hass, household_entry(member("parent")))
    assert registry.class_for(ANNA_DIRECT, Workload.CHAT) == RequestClass(
        "parent/direct/chat", "parent/direct", Workload.CHAT
    )


def test_a_configured_source_keeps_what_was_configured(hass: HomeAssistant) -> None:
    entry = household_entry(member("parent"), device("phone", "d1", "parent", weight=3))
    registry = Registry(hass, entry)
    assert registry.source_spec(ANNA_PHONE) == NodeSpec("phone", "parent", 3.0)


def test_an_automation_gets_a_node_below_shared(hass: HomeAssistant) -> None:
    registry = Registry(hass, household_entry())
    assert registry.source_spec(AUTOMATION) == NodeSpec(
        "shared/automation.night", "shared"
    )
    assert registry.caps_for(AUTOMATION) == Caps()


@pytest.mark.parametrize("removed", [ANNA_DIRECT, ANNA_PHONE])
def test_what_was_removed_gets_no_node_again(
    hass: HomeAssistant, removed: Asker
) -> None:
    with pytest.raises(KeyError):
        Registry(hass, household_entry()).source_spec(removed)


def test_the_tighter_limit_of_member_and_device_counts(hass: HomeAssistant) -> None:
    entry = household_entry(
        member("parent", context_tokens=8000, output_tokens=300),
        device("phone", "d1", "parent", context_tokens=4000, in_flight=1),
    )
    assert Registry(hass, entry).caps_for(ANNA_PHONE) == Caps(4000, 300, 1)


def test_the_limits_of_somebody_who_just_left_are_none(hass: HomeAssistant) -> None:
    assert Registry(hass, household_entry()).caps_for(ANNA_PHONE) == Caps()


def test_a_new_member_and_their_device_are_added(hass: HomeAssistant) -> None:
    entry = household_entry()
    entry.add_to_hass(hass)
    registry = Registry(hass, entry)

    hass.config_entries.async_add_subentry(entry, subentry(member("parent")))
    hass.config_entries.async_add_subentry(
        entry, subentry(device("phone", "d1", "parent"))
    )
    change = registry.apply(entry)

    assert [spec.node_id for spec in change.added] == [
        "parent",
        "parent/direct",
        "phone",
    ]
    assert change.changed == ()
    assert change.removed == ()


def test_a_changed_weight_is_a_change_of_one_node(hass: HomeAssistant) -> None:
    entry = household_entry(member("parent"), member("child"))
    entry.add_to_hass(hass)
    registry = Registry(hass, entry)

    parent = entry.subentries["parent"]
    hass.config_entries.async_update_subentry(
        entry, parent, data={**parent.data, "weight": 2}
    )
    change = registry.apply(entry)

    assert change.added == ()
    assert change.changed == (NodeSpec("parent", weight=2.0),)
    assert change.removed == ()


def test_the_device_of_a_removed_member_becomes_shared(hass: HomeAssistant) -> None:
    entry = household_entry(member("parent"), device("phone", "d1", "parent"))
    entry.add_to_hass(hass)
    registry = Registry(hass, entry)

    hass.config_entries.async_remove_subentry(entry, "parent")
    change = registry.apply(entry)

    assert change.changed == (NodeSpec("phone", "shared"),)
    assert change.removed == ("parent/direct", "parent")


def test_an_unchanged_entry_changes_nothing(hass: HomeAssistant) -> None:
    entry = household_entry(member("parent"))
    registry = Registry(hass, entry)
    change = registry.apply(entry)
    assert (change.added, change.changed, change.removed) == ((), (), ())


def test_nodes_have_the_names_people_gave_them(
    hass: HomeAssistant, device_registry: dr.DeviceRegistry
) -> None:
    entry = household_entry(member("parent"), device("phone", "d1", "parent"))
    entry.add_to_hass(hass)
    device_registry.async_get_or_create(
        config_entry_id=ENTRY_ID,
        identifiers={(DOMAIN, f"{ENTRY_ID}_guest")},
        name="Visitors",
    )
    hass.states.async_set("automation.night", "on", {"friendly_name": "Good night"})
    registry = Registry(hass, entry)

    names = {
        "parent": "Parent",
        "parent/direct": "Parent",
        "phone": "Phone",
        "guest": "Visitors",
        "guest/direct": "Visitors",
        "shared": "shared",
        "shared/automation.night": "Good night",
        "shared/automation.gone": "shared/automation.gone",
        "nobody/direct": "nobody/direct",
    }
    assert {node_id: registry.name(node_id) for node_id in names} == names
