"""The blueprints are ones that Home Assistant accepts."""

from pathlib import Path

from homeassistant.components.blueprint import Blueprint
from homeassistant.components.blueprint.schemas import BLUEPRINT_SCHEMA
from homeassistant.util.yaml import load_yaml_dict
import pytest

FOLDER = Path(__file__).parents[2] / "blueprints" / "automation" / "fair_share"
FILES = sorted(FOLDER.glob("*.yaml"))


def test_there_are_blueprints() -> None:
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_blueprint_loads(path: Path) -> None:
    blueprint = Blueprint(
        load_yaml_dict(str(path)),
        path=path.name,
        expected_domain="automation",
        schema=BLUEPRINT_SCHEMA,
    )
    assert blueprint.name
    assert blueprint.validate() is None
    assert blueprint.metadata["description"]
