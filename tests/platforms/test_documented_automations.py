"""The triggers and conditions that the documentation shows are ones that run."""

from pathlib import Path
import re

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
from homeassistant.util.yaml import parse_yaml
import pytest

from tests.platforms.automating import automate

PAGE = Path(__file__).parents[2] / "docs" / "automations.md"
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)


def _shown(part: str) -> list[str]:
    return [block for block in BLOCKS if re.search(f"{part}: fair_share\\.", block)]


@pytest.mark.parametrize("block", _shown("trigger"))
async def test_a_trigger_that_is_shown_runs(
    hass: HomeAssistant, entry: ConfigEntry, block: str
) -> None:
    shown = parse_yaml(block)
    assert isinstance(shown, dict)
    await automate(hass, triggers=shown["triggers"])


@pytest.mark.parametrize("block", _shown("condition"))
async def test_a_condition_that_is_shown_runs(
    hass: HomeAssistant, entry: ConfigEntry, block: str
) -> None:
    shown = parse_yaml(block)
    assert isinstance(shown, dict)
    event = {"trigger": "event", "event_type": "asked"}
    await automate(hass, triggers=[event], conditions=shown["conditions"])


def test_both_are_shown() -> None:
    assert _shown("trigger")
    assert _shown("condition")
