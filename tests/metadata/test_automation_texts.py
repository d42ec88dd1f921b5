"""Triggers, conditions, repairs and system health: code, texts and icons agree."""

import ast
from collections.abc import Iterator
import json
from typing import Any

from homeassistant.util.yaml import load_yaml_dict
import pytest

from custom_components.fair_share.condition import CONDITIONS
from custom_components.fair_share.household.issues import IssueKind
from custom_components.fair_share.repairs import _FLOWS, _HouseholdRepair as BASE
from custom_components.fair_share.trigger import TRIGGERS
from tests.flow_texts import TRANSLATIONS
from tests.metadata.source import PACKAGE, tree

ICONS: dict[str, Any] = json.loads((PACKAGE / "icons.json").read_text())
PARTS = [
    ("triggers", "trigger", set(TRIGGERS)),
    ("conditions", "condition", set(CONDITIONS)),
]


def _described(part: str) -> dict[str, Any]:
    """Return what the UI is told of them; what begins with a dot is none."""
    found = load_yaml_dict(str(PACKAGE / f"{part}.yaml"))
    return {name: each for name, each in found.items() if not name.startswith(".")}


@pytest.mark.parametrize(("part", "icon", "names"), PARTS)
def test_code_ui_texts_and_icons_know_the_same_ones(
    part: str, icon: str, names: set[str]
) -> None:
    assert set(_described(part)) == names
    assert set(TRANSLATIONS[part]) == names
    assert set(ICONS[part]) == names
    assert all(each[icon].startswith("mdi:") for each in ICONS[part].values())


@pytest.mark.parametrize(("part", "icon", "names"), PARTS)
def test_every_field_has_a_name_and_a_description_and_none_is_left_over(
    part: str, icon: str, names: set[str]
) -> None:
    fields = {name: set(each["fields"]) for name, each in _described(part).items()}
    texts = TRANSLATIONS[part]
    assert {name: set(text["fields"]) for name, text in texts.items()} == fields
    for text in texts.values():
        assert set(text) == {"name", "description", "fields"}
        assert all(set(f) == {"name", "description"} for f in text["fields"].values())


def test_triggers_and_conditions_are_worded_like_home_assistants() -> None:
    assert all(name.startswith("is_") for name in CONDITIONS)
    assert all(
        text["description"].startswith("Triggers when ")
        for text in TRANSLATIONS["triggers"].values()
    )
    assert all(
        text["description"].startswith("Tests if ")
        for text in TRANSLATIONS["conditions"].values()
    )


def test_every_issue_has_texts_and_a_dialog_and_none_is_left_over() -> None:
    assert set(TRANSLATIONS["issues"]) == set(IssueKind) == set(_FLOWS)
    assert all(set(t) == {"title", "fix_flow"} for t in TRANSLATIONS["issues"].values())


@pytest.mark.parametrize("kind", IssueKind)
def test_every_step_of_a_repair_has_texts_and_none_is_left_over(
    kind: IssueKind,
) -> None:
    flow = _FLOWS[kind]
    made_of = [each.__name__ for each in flow.__mro__[: flow.__mro__.index(BASE)]]
    source = ast.Module([_class(name) for name in made_of], [])
    texts = TRANSLATIONS["issues"][kind]["fix_flow"]
    shown = set(_texts_given(source, "_ask"))
    offered = set(_texts_given(source, "_offer"))
    steps = texts["step"]
    assert set(steps) == shown | ({"init"} if offered else set())
    menu = steps.get("init", {})
    assert set(menu.get("menu_options", ())) == offered
    assert set(menu.get("menu_option_descriptions", ())) == offered
    # All of them may find the household not running.
    aborts = {"entry_not_loaded"} | set(_reasons(source))
    assert set(texts["abort"]) == aborts


def test_every_line_of_system_health_has_a_text_and_none_is_left_over() -> None:
    keys = {
        key.value
        for node in ast.walk(tree("system_health.py"))
        for key in getattr(node, "keys", ())
        if isinstance(key, ast.Constant)
    }
    assert keys == set(TRANSLATIONS["system_health"]["info"])


def _class(name: str) -> ast.ClassDef:
    (found,) = [
        node
        for node in tree("repairs.py").body
        if isinstance(node, ast.ClassDef) and node.name == name
    ]
    return found


def _texts_given(source: ast.AST, method: str) -> Iterator[str]:
    """Yield the first text of what each argument of a call of ours is made of."""
    for node in ast.walk(source):
        match node:
            case ast.Call(func=ast.Attribute(attr=called), args=args) if (
                called == method
            ):
                first = args[:1] if method == "_ask" else args
                yield from (
                    part.value
                    for arg in first
                    for part in ast.walk(arg)
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                )


def _reasons(source: ast.AST) -> Iterator[str]:
    for node in ast.walk(source):
        match node:
            case ast.keyword(arg="reason", value=ast.Constant(value=str(reason))):
                yield reason
