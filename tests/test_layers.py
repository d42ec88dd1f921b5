"""Imports go downwards only: the layers of the package, read from its source."""

from pathlib import Path

import pytest

from tests.metadata.source import PACKAGE, imports

DOWNWARDS = {
    "actions": {"actions", "agents", "household", "engines", "admission", "const"},
    "admission": {"admission"},
    "engines": {"engines", "admission"},
    "household": {"household", "engines", "admission", "const"},
    "agents": {"agents", "household", "engines", "admission", "const"},
    "gateway": {"gateway", "household", "engines", "admission", "const"},
    "flows": {"flows", "household", "engines", "admission", "const"},
}
"""What each layer may import of this package; the files at the top may import all."""

FOREIGN = {
    "admission": {"homeassistant", "voluptuous", "probatio", "aiohttp", "yarl"},
    "engines": {"homeassistant", "voluptuous", "probatio"},
}
"""What a layer must not know at all."""


def _own(name: str) -> str | None:
    """Return the layer that a module name belongs to, if it is one of ours."""
    parts = name.removeprefix("custom_components.").split(".")
    return (*parts, "")[1] if parts[0] == "fair_share" else None


def _files() -> list[Path]:
    return sorted(p for p in PACKAGE.rglob("*.py") if p.parent != PACKAGE)


def _name(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", _files(), ids=_name)
def test_a_file_imports_only_its_own_layer_and_those_below(path: Path) -> None:
    layer = path.relative_to(PACKAGE).parts[0]
    assert layer in DOWNWARDS, f"{layer} is not a known layer"
    used = {own for name in imports(path) if (own := _own(name)) is not None}
    assert used <= DOWNWARDS[layer]


@pytest.mark.parametrize("path", _files(), ids=_name)
def test_the_core_knows_neither_home_assistant_nor_the_network(path: Path) -> None:
    layer = path.relative_to(PACKAGE).parts[0]
    used = {name.split(".")[0] for name in imports(path)}
    assert not used & FOREIGN.get(layer, set())


def test_the_test_reads_every_way_to_import(tmp_path: Path) -> None:
    source = PACKAGE / "engines" / "base.py"
    assert "dataclasses" in set(imports(source))
    names = set(imports(PACKAGE / "flows" / "member.py"))
    assert "fair_share.const" in names
    assert "fair_share.flows.people" in names
    assert _own("custom_components.fair_share.const") == "const"
    assert _own("homeassistant.core") is None
