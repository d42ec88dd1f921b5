"""What the integration says of its own quality, held against what can be checked."""

import ast
from typing import Any

from homeassistant.util.yaml import load_yaml_dict
import pytest

from custom_components.fair_share import PLATFORMS
from tests.metadata.source import PACKAGE, tree

RULES = {
    # Bronze
    "action-setup", "appropriate-polling", "brands", "common-modules",
    "config-flow-test-coverage", "config-flow", "dependency-transparency",
    "docs-actions", "docs-conditions", "docs-high-level-description",
    "docs-installation-instructions", "docs-removal-instructions", "docs-triggers",
    "entity-event-setup", "entity-unique-id", "has-entity-name", "runtime-data",
    "test-before-configure", "test-before-setup", "unique-config-entry",
    # Silver
    "action-exceptions", "config-entry-unloading", "docs-configuration-parameters",
    "docs-installation-parameters", "entity-unavailable", "integration-owner",
    "log-when-unavailable", "parallel-updates", "reauthentication-flow",
    "test-coverage",
    # Gold
    "devices", "diagnostics", "discovery", "discovery-update-info",
    "docs-data-update", "docs-examples", "docs-known-limitations",
    "docs-supported-devices", "docs-supported-functions", "docs-troubleshooting",
    "docs-use-cases", "dynamic-devices", "entity-category", "entity-device-class",
    "entity-disabled-by-default", "entity-translations", "exception-translations",
    "icon-translations", "reconfiguration-flow", "repair-issues", "stale-devices",
    # Platinum
    "async-dependency", "inject-websession", "strict-typing",
}  # fmt: skip
"""Home Assistant's rules for the quality scale, through platinum."""

SCALE: dict[str, Any] = load_yaml_dict(str(PACKAGE / "quality_scale.yaml"))["rules"]


def test_every_rule_has_an_answer_and_no_rule_is_made_up() -> None:
    assert set(SCALE) == RULES


@pytest.mark.parametrize("rule", sorted(RULES))
def test_whatever_is_not_simply_done_says_why(rule: str) -> None:
    match SCALE[rule]:
        case "done":
            return
        case {"status": "done" | "exempt" | "todo", "comment": str(reason), **others}:
            assert len(reason) > 10
            assert not others
        case answer:
            pytest.fail(f"{rule}: {answer}")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_platform_says_how_many_updates_run_at_once(platform: str) -> None:
    names = {
        target.id
        for node in tree(f"{platform}.py").body
        for target in getattr(node, "targets", ())
        if isinstance(node, ast.Assign) and isinstance(target, ast.Name)
    }
    assert "PARALLEL_UPDATES" in names


@pytest.mark.parametrize(
    ("rule", "file"),
    [
        ("diagnostics", "diagnostics.py"),
        ("repair-issues", "repairs.py"),
        ("docs-triggers", "triggers.yaml"),
        ("docs-conditions", "conditions.yaml"),
        ("docs-actions", "services.yaml"),
        ("icon-translations", "icons.json"),
        ("brands", "brand/icon.png"),
        ("brands", "brand/icon@2x.png"),
    ],
)
def test_what_is_done_is_there(rule: str, file: str) -> None:
    assert SCALE[rule] == "done"
    assert (PACKAGE / file).is_file()
