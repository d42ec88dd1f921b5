"""Every language says everything, nothing else, and fills in the same gaps."""

import json
from pathlib import Path
import re
from typing import Any

import pytest

from tests.flow_texts import TEXTS, flatten, placeholders
from tests.metadata.source import PACKAGE

FILES = sorted((PACKAGE / "translations").glob("*.json"))
FORBIDDEN = {
    "address": r"https?://|www\.",
    "markup": r"</?[a-zA-Z]",
    "quoted placeholder": r"'\{|\}'",
    "margin": r"^\s|\s$",
    "reference": r"\[%key:",
    "empty": r"^$",
}
TOP = {
    "config",
    "config_subentries",
    "options",
    "selector",
    "entity",
    "device",
    "services",
    "exceptions",
    "triggers",
    "conditions",
    "issues",
    "system_health",
}


def _texts(path: Path) -> dict[str, str]:
    return flatten(json.loads(path.read_text(encoding="utf-8")))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({key for key, _ in pairs}) == len(pairs), [key for key, _ in pairs]
    return dict(pairs)


def test_there_is_english() -> None:
    assert PACKAGE / "translations" / "en.json" in FILES
    assert {key.split(".")[0] for key in TEXTS} == TOP


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_language_has_every_text_and_none_is_left_over(path: Path) -> None:
    texts = _texts(path)
    assert TEXTS.keys() - texts.keys() == set()
    assert texts.keys() - TEXTS.keys() == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_language_fills_in_the_same_gaps(path: Path) -> None:
    texts = _texts(path)
    different = {
        key
        for key in TEXTS.keys() & texts.keys()
        if placeholders(TEXTS[key]) != placeholders(texts[key])
    }
    assert different == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("forbidden", FORBIDDEN.values(), ids=FORBIDDEN)
def test_no_language_holds_what_validators_refuse(path: Path, forbidden: str) -> None:
    assert not [key for key, text in _texts(path).items() if re.search(forbidden, text)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_key_of_a_language_is_there_twice(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert json.loads(text, object_pairs_hook=_once)
    assert json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n" == text
