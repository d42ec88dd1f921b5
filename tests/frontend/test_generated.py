"""What the dashboard shows of a household."""

from collections.abc import Iterator
from pathlib import Path
import re
from typing import Any

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
from homeassistant.helpers import entity_registry as er
from homeassistant.util.yaml import parse_yaml
import pytest

from tests.common import client, member, subentry
from tests.frontend.conftest import Generate, Json, run_script

PAGE = Path(__file__).parents[2] / "docs" / "dashboard.md"
BROUGHT = {
    "glance", "grid", "heading", "history-graph", "logbook", "statistics-graph", "tile",
}  # fmt: skip
"""The cards of Home Assistant itself that are used."""
HEADINGS = [
    "Now", "Tokens per day", "Quotas", "Fairness", "Waiting", "Servers", "Events",
]  # fmt: skip


def cards(config: Json) -> Iterator[Json]:
    """Return all cards of the only view, and the sections they are in."""
    (view,) = config["views"]
    for section in view["sections"]:
        yield section
        yield from section["cards"]


def headings(config: Json) -> list[str]:
    """Return the titles of the sections."""
    return [card["heading"] for card in cards(config) if card["type"] == "heading"]


def entity_ids(config: Any) -> set[str]:
    """Return every entity that is named anywhere."""
    match config:
        case str():
            pattern = r"(?:sensor|number|select|switch|event)\.\w+"
            return {config} if re.fullmatch(pattern, config) else set()
        case dict():
            return entity_ids(list(config.values()))
        case list():
            return set().union(*map(entity_ids, config))
        case _:
            return set()


async def test_the_documentation_shows_what_the_script_makes(
    entry: ConfigEntry, generate: Generate
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    (block,) = re.findall(r"<details>.*```yaml\n(.*?)```", page, re.DOTALL)
    made = await generate()
    assert parse_yaml(block) == {"views": made["views"]}


async def test_everything_that_is_shown_is_there(
    hass: HomeAssistant, entry: ConfigEntry, generate: Generate
) -> None:
    config = await generate()
    assert headings(config) == HEADINGS
    assert {card["type"] for card in cards(config)} == BROUGHT
    shown = entity_ids(config)
    assert len(shown) > 40
    assert {entity_id for entity_id in shown if hass.states.get(entity_id) is None} == (
        set()
    )


async def test_a_view_has_the_same_sections_and_keeps_its_own_title(
    entry: ConfigEntry, generate: Generate
) -> None:
    (whole,) = (await generate())["views"]
    view = await generate("view")
    assert view["sections"] == whole["sections"]
    assert "title" not in view


async def test_new_members_new_clients_and_renamed_entities_follow(
    hass: HomeAssistant,
    entry: ConfigEntry,
    entity_registry: er.EntityRegistry,
    generate: Generate,
) -> None:
    hass.config_entries.async_add_subentry(entry, subentry(member("teen")))
    editor = subentry(client("editor", "key-of-the-editor"))
    hass.config_entries.async_add_subentry(entry, editor)
    entity_registry.async_update_entity(
        "sensor.child_state", new_entity_id="sensor.what_child_does"
    )
    await hass.async_block_till_done()
    shown = entity_ids(await generate())
    assert {"sensor.teen_state", "sensor.teen_tokens_served"} <= shown
    assert "sensor.editor_state" in shown
    assert "sensor.editor_tokens_served" not in shown  # part of the member's
    assert "sensor.what_child_does" in shown
    assert "sensor.child_state" not in shown


@pytest.mark.parametrize(
    "changes",
    [
        {"disabled_by": er.RegistryEntryDisabler.USER},
        {"hidden_by": er.RegistryEntryHider.USER},
    ],
    ids=["disabled", "hidden"],
)
async def test_what_is_disabled_or_hidden_is_left_out(
    entry: ConfigEntry,
    entity_registry: er.EntityRegistry,
    generate: Generate,
    changes: Json,
) -> None:
    gone = {
        entity_id
        for entity_id in entity_ids(await generate())
        if "server" in entity_id or entity_id.endswith(("_state", "_percent"))
    }
    for entity_id in gone:
        entity_registry.async_update_entity(entity_id, **changes)
    config = await generate()
    assert not gone & entity_ids(config)
    assert headings(config) == [
        heading for heading in HEADINGS if heading not in ("Quotas", "Servers")
    ]


async def test_median_waits_are_shown_once_they_are_enabled(
    hass: HomeAssistant,
    entry: ConfigEntry,
    entity_registry: er.EntityRegistry,
    generate: Generate,
) -> None:
    median = "sensor.voice_requests_median_wait"
    assert median not in entity_ids(await generate())
    entity_registry.async_update_entity(median, disabled_by=None)
    assert median in entity_ids(await generate())


async def test_graphs_show_as_many_days_and_hours_as_wanted(
    entry: ConfigEntry, generate: Generate
) -> None:
    def periods(config: Json, name: str) -> set[object]:
        return {card[name] for card in cards(config) if name in card}

    usual = await generate()
    assert periods(usual, "days_to_show") == {7}
    assert periods(usual, "hours_to_show") == {24}
    other = await generate(options={"days": 30, "hours": 6})
    assert periods(other, "days_to_show") == {30}
    assert periods(other, "hours_to_show") == {6}


async def test_who_may_not_change_rules_is_shown_no_controls(
    entry: ConfigEntry, generate: Generate
) -> None:
    controls = {"select-options", "toggle", "numeric-input"}

    def offered(config: Json) -> set[str]:
        features = [each for c in cards(config) for each in c.get("features", ())]
        return {feature["type"] for feature in features}

    assert controls <= offered(await generate())
    config = await generate(user={"is_admin": False})
    assert not controls & offered(config)
    assert "select.fair_share_household_fairness" in entity_ids(config)


@pytest.mark.parametrize(
    ("language", "heading"),
    [
        ("de", "Jetzt"), ("es", "Ahora"), ("es-419", "Ahora"), ("fr", "Maintenant"),
        ("ja", "現在"), ("ko", "현재"), ("nl", "Nu"), ("pl", "Now"),
    ],
)  # fmt: skip
async def test_headings_are_in_the_language_of_the_user(
    entry: ConfigEntry, generate: Generate, language: str, heading: str
) -> None:
    config = await generate(language=language)
    assert headings(config)[0] == heading
    assert len(set(headings(config))) == len(HEADINGS)


async def test_without_fair_share_it_says_so() -> None:
    made = await run_script(entities={}, devices=None)
    (view,) = made["config"]["views"]
    (card,) = view["cards"]
    assert card["type"] == "markdown"
    assert "Is Fair Share set up" in card["content"]


async def test_it_is_offered_in_the_dialog_for_a_new_dashboard() -> None:
    (offer,) = (await run_script(entities={}, devices={}))["offered"]
    assert (offer["type"], offer["strategyType"]) == ("fair-share", "dashboard")
    assert offer["name"] == "Fair Share"
    assert offer["description"]
