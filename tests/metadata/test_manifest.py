"""The manifest, and what Home Assistant's and HACS's validators ask of it."""

import json
from pathlib import Path
from typing import Any

from awesomeversion import AwesomeVersion
from homeassistant.core import HomeAssistant
from homeassistant.loader import async_get_integration

from custom_components.fair_share import PLATFORMS
from custom_components.fair_share.const import DOMAIN
from tests.metadata.source import PACKAGE, imports

ROOT = Path(__file__).parents[2]
MANIFEST: dict[str, Any] = json.loads((PACKAGE / "manifest.json").read_text())


def test_domain_and_name_come_first_and_the_rest_in_order() -> None:
    keys = list(MANIFEST)
    assert keys[:2] == ["domain", "name"]
    assert keys[2:] == sorted(keys[2:])


def test_the_manifest_says_what_it_has_to() -> None:
    assert MANIFEST["domain"] == PACKAGE.name == DOMAIN
    assert MANIFEST["requirements"] == []
    assert MANIFEST["config_flow"] is True
    assert MANIFEST["single_config_entry"] is True
    assert MANIFEST["integration_type"] == "hub"
    assert MANIFEST["iot_class"] == "local_push"
    assert MANIFEST["codeowners"] == ["@fair-share"]
    assert MANIFEST["documentation"].startswith("https://github.com/fair-share/")
    assert MANIFEST["issue_tracker"].startswith(MANIFEST["documentation"])
    assert AwesomeVersion(MANIFEST["version"]).valid


def test_every_component_it_uses_is_a_dependency_or_always_allowed() -> None:
    allowed = {*MANIFEST["dependencies"], *MANIFEST["after_dependencies"]}
    allowed |= {
        *PLATFORMS,
        "automation",
        "person",
        "repairs",
        "script",
        "system_health",
    }
    used = {
        name.split(".")[2]
        for path in PACKAGE.rglob("*.py")
        for name in imports(path)
        if name.startswith("homeassistant.components.")
    }
    assert used <= allowed


def test_hacs_lists_it_under_the_same_name() -> None:
    hacs = json.loads((ROOT / "hacs.json").read_text())
    assert hacs["name"] == MANIFEST["name"]
    assert hacs["homeassistant"].startswith("2026.10")


def test_it_brings_its_own_icon() -> None:
    assert (PACKAGE / "brand" / "icon.png").is_file()


async def test_home_assistant_can_load_it(hass: HomeAssistant) -> None:
    integration = await async_get_integration(hass, DOMAIN)
    await integration.async_get_component()
    assert await integration.resolve_dependencies()
