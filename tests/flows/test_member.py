"""Adding and changing a member."""

from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType, InvalidData
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry, MockUser

from tests.common import member, subentry
from tests.flows.drive import SHARE, add, change, fields, only, shown, submit

pytestmark = pytest.mark.usefixtures("persons")


async def test_a_person_becomes_a_member(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    MockUser(id="tablet", name="Tablet").add_to_hass(hass)
    result = await add(hass, household, "member")
    assert result["step_id"] == "user"
    assert fields(result)["person"].config["include_entities"] == ["person.child"]
    assert shown(result)["weight"] == 1.0
    assert shown(result)["quota"] == {
        "quota_tokens": None,
        "quota_window": "day",
        "quota_refill": None,
        "quota_end": "stop",
    }

    result = await submit(
        hass,
        result,
        {
            "person": "person.child",
            "user_ids": ["tablet"],
            "weight": 2,
            "quota": {
                "quota_tokens": 50000,
                "quota_window": "week",
                "quota_end": "finish",
            },
            "limits": {
                "context_tokens": 4000,
                "output_tokens": 500,
                "in_flight": 1,
                "queued": 3,
            },
        },
    )
    assert result["type"] is FlowResultType.CREATE_ENTRY
    added = list(household.get_subentries_of_type("member"))[-1]
    assert (added.title, added.unique_id) == ("Child", "person_child")
    assert added.data == {
        "person_id": "person_child",
        "user_ids": ["tablet"],
        "weight": 2.0,
        "quota_tokens": 50000,
        "quota_window": "week",
        "quota_end": "finish",
        "context_tokens": 4000,
        "output_tokens": 500,
        "in_flight": 1,
        "queued": 3,
    }
    assert isinstance(added.data["quota_tokens"], int)


@pytest.mark.parametrize("tokens", [0, -5, 10.5, float("inf"), float("nan")])
async def test_a_quota_is_a_whole_number_of_tokens(
    hass: HomeAssistant, household: MockConfigEntry, tokens: float
) -> None:
    result = await add(hass, household, "member")
    share = {**SHARE, "quota": {**SHARE["quota"], "quota_tokens": tokens}}
    with pytest.raises(InvalidData):
        await submit(hass, result, {"person": "person.child", **share})


async def test_a_member_needs_neither_quota_nor_limits(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await add(hass, household, "member")
    await submit(hass, result, {"person": "person.child", **SHARE})
    added = list(household.get_subentries_of_type("member"))[-1]
    assert added.data == {
        "person_id": "person_child",
        "user_ids": [],
        "weight": 1.0,
        "quota_window": "day",
        "quota_end": "stop",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"weight": 0},
        {"quota": {**SHARE["quota"], "quota_window": "year"}},
        {"quota": {**SHARE["quota"], "quota_end": "explode"}},
        {"quota": {**SHARE["quota"], "quota_tokens": 0}},
        {"limits": {"in_flight": 0}},
        {"limits": {"queued": 0}},
        {"user_ids": ["nobody"]},
        {"person": "person.parent"},
    ],
)
async def test_values_that_make_no_sense_are_refused(
    hass: HomeAssistant, household: MockConfigEntry, wrong: dict[str, object]
) -> None:
    result = await add(hass, household, "member")
    with pytest.raises(InvalidData):
        await submit(hass, result, {"person": "person.child", **SHARE, **wrong})


async def test_only_users_of_nobody_are_offered(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    MockUser(id="tablet", name="Tablet").add_to_hass(hass)
    MockUser(id="taken", name="Taken").add_to_hass(hass)
    MockUser(id="old", name="Old", is_active=False).add_to_hass(hass)
    MockUser(id="system", name="System", system_generated=True).add_to_hass(hass)
    parent = only(household, "member")
    hass.config_entries.async_update_subentry(
        household, parent, data={**parent.data, "user_ids": ["taken"]}
    )

    result = await add(hass, household, "member")
    assert fields(result)["user_ids"].config["options"] == [
        {"value": "tablet", "label": "Tablet"}
    ]
    result = await change(hass, household, parent)
    offered = fields(result)["user_ids"].config["options"]
    assert [option["value"] for option in offered] == ["tablet", "taken"]


async def test_a_person_added_in_two_dialogs_at_once_is_added_once(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    first = await add(hass, household, "member")
    second = await add(hass, household, "member")
    child = {"person": "person.child", **SHARE}
    assert (await submit(hass, first, child))["type"] is FlowResultType.CREATE_ENTRY
    second = await submit(hass, second, child)
    assert (second["type"], second["reason"]) == (
        FlowResultType.ABORT,
        "already_configured",
    )


async def test_a_household_of_all_persons_cannot_grow(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    hass.config_entries.async_add_subentry(household, subentry(member("child")))
    result = await add(hass, household, "member")
    assert (result["type"], result["reason"]) == (
        FlowResultType.ABORT,
        "no_more_persons",
    )


async def test_no_member_is_added_to_a_household_that_does_not_run(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    await hass.config_entries.async_unload(household.entry_id)
    result = await add(hass, household, "member")
    assert result["reason"] == "entry_not_loaded"


async def test_the_share_of_a_member_is_changed(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    parent = only(household, "member")
    hass.config_entries.async_update_subentry(
        household,
        parent,
        data={
            **parent.data,
            "user_ids": ["deleted"],
            "quota_tokens": 100,
            "quota_window": "month",
            "in_flight": 2,
        },
    )
    result = await change(hass, household, parent)
    assert result["step_id"] == "reconfigure"
    assert result["description_placeholders"] == {"member": "Parent"}
    assert shown(result) == {
        "user_ids": [],
        "weight": 1.0,
        "quota": {
            "quota_tokens": 100,
            "quota_window": "month",
            "quota_refill": None,
            "quota_end": "stop",
        },
        "limits": {
            "context_tokens": None,
            "output_tokens": None,
            "in_flight": 2,
            "queued": None,
        },
    }

    result = await submit(hass, result, {**SHARE, "weight": 0.5})
    assert result["reason"] == "reconfigure_successful"
    assert only(household, "member").data == {
        "person_id": "person_parent",
        "user_ids": [],
        "weight": 0.5,
        "quota_window": "day",
        "quota_end": "stop",
    }


async def test_a_member_is_still_the_same_after_the_person_was_renamed(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    renamed = {"id": "person_parent", "name": "Parent Maria"}
    assert await async_setup_component(hass, "person", {"person": [renamed]})
    result = await add(hass, household, "member")
    assert fields(result)["person"].config["include_entities"] == ["person.child"]


STEADY = {"quota_tokens": 100, "quota_window": "steady", "quota_end": "demote"}


async def test_a_steady_quota_of_a_new_member_needs_its_refill(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await add(hass, household, "member")
    child = {"person": "person.child", **SHARE, "weight": 2.0}
    result = await submit(hass, result, {**child, "quota": STEADY})
    assert result["errors"] == {"quota": "refill_missing"}
    assert shown(result)["weight"] == 2.0
    assert shown(result)["quota"]["quota_end"] == "demote"

    await submit(hass, result, {**child, "quota": {**STEADY, "quota_refill": 10}})
    added = list(household.get_subentries_of_type("member"))[-1]
    assert added.data["quota_window"] == "steady"
    assert added.data["quota_refill"] == 10


async def test_a_steady_quota_of_a_member_needs_its_refill(
    hass: HomeAssistant, household: MockConfigEntry
) -> None:
    result = await change(hass, household, only(household, "member"))
    result = await submit(hass, result, {**SHARE, "quota": STEADY})
    assert result["errors"] == {"quota": "refill_missing"}
    assert shown(result)["quota"]["quota_window"] == "steady"

    quota = {**STEADY, "quota_refill": 10}
    result = await submit(hass, result, {**SHARE, "quota": quota})
    assert result["reason"] == "reconfigure_successful"
