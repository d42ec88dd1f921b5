"""The files of the blueprints, and how the documentation shows them."""

from pathlib import Path
import re
from typing import Any
from urllib.parse import quote

from homeassistant.components.automation.config import (
    AUTOMATION_BLUEPRINT_SCHEMA as SCHEMA,
)
from homeassistant.components.blueprint import Blueprint
from homeassistant.components.blueprint.importer import fetch_blueprint_from_url
from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
from homeassistant.util.yaml import extract_inputs, load_yaml_dict
import pytest
from pytest_homeassistant_custom_component.test_util.aiohttp import AiohttpClientMocker

from tests.platforms.blueprints.from_blueprint import FILES, PAGE, ROOT, documented

every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
_OURS = re.compile(r"\b(?:sensor|binary_sensor|number|select|switch|event)\.[a-z_]+\b")
_FOREIGN = {"sensor.solar_surplus"}


def _inputs(path: Path) -> dict[str, Any]:
    """Return all inputs, also those in sections."""
    inputs: dict[str, Any] = {}
    for key, field in load_yaml_dict(str(path))["blueprint"]["input"].items():
        inputs |= field.get("input", {key: field})
    return inputs


def _link(path: Path) -> str:
    where = path.relative_to(ROOT).as_posix()
    return f"https://github.com/fair-share/fair-share/blob/main/{where}"


def test_there_are_all() -> None:
    assert len(FILES) == 8


@every_file
def test_it_says_where_it_comes_from_and_what_it_needs(path: Path) -> None:
    blueprint = Blueprint(load_yaml_dict(str(path)), schema=SCHEMA)
    assert blueprint.metadata["source_url"] == _link(path)
    assert blueprint.metadata["homeassistant"]["min_version"] == "2026.10.0"
    assert blueprint.name.startswith("Fair Share: ")
    assert blueprint.metadata["description"]
    assert blueprint.validate() is None


@every_file
def test_every_input_has_a_name_a_selector_and_a_use(path: Path) -> None:
    inputs = _inputs(path)
    assert all(field["name"] and field["selector"] for field in inputs.values())
    data = load_yaml_dict(str(path))
    del data["blueprint"]
    assert extract_inputs(data) == set(inputs)


@every_file
def test_it_offers_entities_that_can_be_meant(path: Path) -> None:
    filters = [
        option
        for field in _inputs(path).values()
        for option in field["selector"].get("entity", {}).get("filter", [])
    ]
    assert any(option.get("integration") == "fair_share" for option in filters)
    assert all("integration" in option or "domain" in option for option in filters)
    # Other units are translated: a filter by them would find nothing elsewhere.
    units = {option.get("unit_of_measurement") for option in filters}
    assert units <= {None, "%"}


@every_file
async def test_it_can_be_imported_by_its_link(
    hass: HomeAssistant, aioclient_mock: AiohttpClientMocker, path: Path
) -> None:
    text = await hass.async_add_executor_job(path.read_text)
    raw = _link(path).replace("github.com", "raw.githubusercontent.com")
    aioclient_mock.get(raw.replace("/blob", ""), text=text)
    imported = await fetch_blueprint_from_url(hass, _link(path))
    assert imported.suggested_filename == f"fair-share/{path.stem}"
    assert imported.blueprint.validate() is None


@every_file
def test_the_documentation_has_its_link_and_its_inputs(path: Path) -> None:
    assert f"({_link(path)})" in PAGE
    assert f"?blueprint_url={quote(_link(path), safe='')})" in PAGE
    required = {key for key, field in _inputs(path).items() if "default" not in field}
    assert required <= documented(path.stem).keys() <= _inputs(path).keys()


@every_file
def test_the_entities_in_the_documentation_are_there(
    hass: HomeAssistant, entry: ConfigEntry, path: Path
) -> None:
    named = set(_OURS.findall(str(documented(path.stem)))) - _FOREIGN
    assert named
    assert named <= set(hass.states.async_entity_ids())
