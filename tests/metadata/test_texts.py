"""The texts of entities, actions and exceptions, and the rules for all texts."""

import ast
from collections.abc import Iterator, Mapping
import json
from typing import Any

from homeassistant.core import HomeAssistant
from homeassistant.helpers import device_registry as dr, entity_registry as er
from homeassistant.setup import async_setup_component
from homeassistant.util.yaml import load_yaml_dict
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.fair_share.admission.model import (
    Rejected,
    RejectReason,
    Workload,
)
from custom_components.fair_share.admission.policies import POLICIES
from custom_components.fair_share.agents.errors import explain
from custom_components.fair_share.const import GUEST_ID, SHARED_ID
from custom_components.fair_share.engines.base import EngineError
from tests.common import client, device, household_entry, member, server
from tests.fake_server import FakeServer
from tests.flow_texts import TRANSLATIONS, placeholders
from tests.metadata.source import PACKAGE, calls, text_argument, tree

ICONS: dict[str, Any] = json.loads((PACKAGE / "icons.json").read_text())
ACTION_FILES = sorted(
    str(p.relative_to(PACKAGE))
    for p in (*PACKAGE.glob("actions/*.py"), PACKAGE / "household" / "permission.py")
)
AGENT_FILES = sorted(str(p.relative_to(PACKAGE)) for p in PACKAGE.glob("agents/*.py"))


@pytest.fixture
async def registry(
    hass: HomeAssistant,
    entity_registry: er.EntityRegistry,
    device_registry: dr.DeviceRegistry,
    socket_enabled: None,
) -> list[er.RegistryEntry]:
    """All entities of a household that has everything, disabled ones too."""
    assert await async_setup_component(hass, "homeassistant", {})
    other = MockConfigEntry(domain="esphome")
    other.add_to_hass(hass)
    kitchen = device_registry.async_get_or_create(
        config_entry_id=other.entry_id, identifiers={("esphome", "1")}
    )
    async with FakeServer() as fake:
        parts = (
            server(fake.url),
            member("parent"),
            device("kitchen", kitchen.id, "parent"),
            client("desktop", "fs-key", "parent"),
        )
        entry = household_entry(*parts)
        entry.add_to_hass(hass)
        assert await hass.config_entries.async_setup(entry.entry_id)
    return er.async_entries_for_config_entry(entity_registry, entry.entry_id)


def _keys(tree: Mapping[str, Mapping[str, object]]) -> set[tuple[str, str]]:
    return {(domain, key) for domain, keys in tree.items() for key in keys}


async def test_every_entity_has_a_name_and_no_name_is_left_over(
    registry: list[er.RegistryEntry],
) -> None:
    used = {(e.domain, e.translation_key) for e in registry if e.translation_key}
    assert used == _keys(TRANSLATIONS["entity"])
    assert all(
        key["name"] for keys in TRANSLATIONS["entity"].values() for key in keys.values()
    )


async def test_every_entity_has_an_icon_and_no_icon_is_left_over(
    registry: list[er.RegistryEntry],
) -> None:
    used = {(e.domain, e.translation_key) for e in registry if e.translation_key}
    assert used == _keys(ICONS["entity"])


async def test_every_state_of_a_list_of_states_has_a_text(
    registry: list[er.RegistryEntry],
) -> None:
    options = {
        (e.domain, e.translation_key): set(e.capabilities["options"])
        for e in registry
        if e.capabilities and "options" in e.capabilities
    }
    texts = {
        key: set(TRANSLATIONS["entity"][key[0]][key[1]].get("state", ()))
        for key in _keys(TRANSLATIONS["entity"])
    }
    # There are texts for every policy, whether a household can choose it or not.
    options["select", "policy"] |= set(POLICIES)
    assert options == {key: states for key, states in texts.items() if states}


def test_the_household_and_its_built_in_members_have_names() -> None:
    workloads = {f"workload_{workload}" for workload in Workload}
    assert set(TRANSLATIONS["device"]) == {
        "household",
        GUEST_ID,
        SHARED_ID,
        *workloads,
    }


def test_actions_their_texts_and_their_icons_belong_together() -> None:
    actions = load_yaml_dict(str(PACKAGE / "services.yaml"))
    texts = TRANSLATIONS["services"]
    assert set(actions) == set(texts) == set(ICONS["services"])
    assert {name: set(action["fields"]) for name, action in actions.items()} == {
        name: set(text["fields"]) for name, text in texts.items()
    }


def _engine_errors(
    kind: type[EngineError] = EngineError,
) -> Iterator[type[EngineError]]:
    yield kind
    for sub in kind.__subclasses__():
        yield from _engine_errors(sub)


def _raised() -> dict[str, set[str]]:
    """Return the keys that agents raise by name, with their placeholders."""
    raised: dict[str, set[str]] = {}
    for path in AGENT_FILES:
        for call in calls(tree(path), "AgentError"):
            key = text_argument(call, "key")
            given = [ast_keys(arg) for arg in call.args[1:2]]
            raised |= {key: set().union(*given)} if key else {}
    return raised


def _mistakes() -> dict[str, set[str]]:
    """Return the keys that actions and entities refuse by, with their placeholders."""
    refused: dict[str, set[str]] = {}
    for path in ACTION_FILES:
        for call in calls(tree(path), "mistake"):
            given = [ast_keys(arg) for arg in call.args[1:2]]
            refused[ast.literal_eval(call.args[0])] = set().union(*given)
        for call in calls(tree(path), "NotAllowed"):
            refused[ast.literal_eval(call.args[1])] = set()
        for call in calls(tree(path), "HomeAssistantError"):
            named = {keyword.arg: keyword.value for keyword in call.keywords}
            refused[ast.literal_eval(named["translation_key"])] = set()
        for call in calls(tree(path), "AgentError"):
            refused |= {
                node.value: set()
                for node in ast.walk(call)
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
    return refused


def _raised_at_start() -> dict[str, set[str]]:
    """Return the keys by which a household does not start, with their placeholders."""
    return {
        ast.literal_eval(given["translation_key"]): ast_keys(
            given["translation_placeholders"]
        )
        for call in calls(tree("household/ledger.py"), "ConfigEntryNotReady")
        for given in [{keyword.arg: keyword.value for keyword in call.keywords}]
    }


def ast_keys(node: Any) -> set[str]:
    """Return the keys of a dictionary in the source."""
    return {key.value for key in node.keys}


def test_every_exception_has_a_text_and_no_text_is_left_over() -> None:
    explained = {explain(Rejected(reason)).key for reason in RejectReason}
    explained |= {explain(kind()).key for kind in _engine_errors()}
    used = explained | set(_raised()) | set(_raised_at_start()) | set(_mistakes())
    assert used == set(TRANSLATIONS["exceptions"])


def test_every_placeholder_of_an_exception_is_filled() -> None:
    given = _raised() | _raised_at_start() | _mistakes()
    unfilled = {
        key
        for key, text in TRANSLATIONS["exceptions"].items()
        if placeholders(text["message"]) - given.get(key, set())
    }
    assert not unfilled
