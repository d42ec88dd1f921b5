"""What of a structure a server is held to, and that no other keyword reaches it."""

from collections.abc import Iterator, Mapping
import json
from typing import Any

from homeassistant.helpers import selector
import probatio
import pytest

from custom_components.fair_share.agents.structure import Structure, StructureError

ANYTHING = {
    "anyOf": [
        {"type": kind}
        for kind in ("string", "number", "boolean", "null", "object", "array")
    ]
}
KNOWN_TO_ALL = {
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "description",
    "enum",
    "items",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "type",
}


def held_to(schema: Any) -> dict[str, Any]:
    """Return the schema that a server gets."""
    structure = Structure(probatio.Schema(schema))
    sent: dict[str, Any] = structure.response_format()["json_schema"]["schema"]
    return sent


def keywords(schema: Mapping[str, Any]) -> Iterator[str]:
    """Return every keyword of a JSON schema, at any depth."""
    yield from schema
    parts = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    parts += [*schema.get("allOf", ()), schema.get("items")]
    for part in parts:
        if isinstance(part, Mapping):
            yield from keywords(part)


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (probatio.All(str, probatio.Length(min=1, max=99)), {"type": "string"}),
        (probatio.All(probatio.Coerce(int), probatio.Range(1, 9)), {"type": "integer"}),
        (probatio.In(["ä", "b"]), {"type": "string", "enum": ["ä", "b"]}),
        (
            probatio.Any(None, str),
            {"anyOf": [{"type": "null"}, {"type": "string"}]},
        ),
        ([str], {"type": "array", "items": {"type": "string"}}),
        (object, ANYTHING),
        (
            selector.ColorRGBSelector(),
            {
                "type": "array",
                "items": {"type": "number"},
                "minItems": 3,
                "maxItems": 3,
            },
        ),
        (selector.DateSelector(), {"type": "string"}),
        (selector.ObjectSelector(), {"type": "object", "additionalProperties": True}),
    ],
)
def test_a_field_is_sent_as_every_grammar_knows_it(
    schema: Any, sent: dict[str, Any]
) -> None:
    assert held_to({probatio.Required("field"): schema})["properties"]["field"] == sent


def test_a_count_that_would_blow_up_a_grammar_is_not_sent() -> None:
    many = probatio.All([str], probatio.Length(min=1, max=1000))
    sent = held_to({"field": many})["properties"]["field"]
    assert sent == {"type": "array", "items": {"type": "string"}, "minItems": 1}


@pytest.mark.parametrize("kind", sorted(selector.SELECTORS))
def test_no_selector_brings_a_keyword_that_some_server_does_not_know(
    kind: str,
) -> None:
    needed = {
        "select": {"options": ["a"], "multiple": True},
        "constant": {"value": True, "label": "a"},
        "attribute": {"entity_id": "sun.sun"},
        "number": {"min": 0, "max": 1},
        "state": {"entity_id": "sun.sun"},
    }
    try:
        field = selector.selector({kind: needed.get(kind, {})})
    except probatio.Invalid:
        pytest.skip("needs settings that no structure has")
    sent = held_to({probatio.Required("field", description="A"): field})
    assert set(keywords(sent)) <= KNOWN_TO_ALL


def test_what_is_read_is_what_the_schema_makes_of_it() -> None:
    schema = probatio.Schema({"count": probatio.Coerce(int)})
    assert Structure(schema).read('{"count": "3"}') == {"count": 3}


def test_a_null_that_the_schema_wants_stays() -> None:
    schema = probatio.Schema({probatio.Optional("field"): probatio.Any(None, str)})
    assert Structure(schema).read('{"field": null}') == {"field": None}


def test_what_is_required_must_not_be_null() -> None:
    schema = probatio.Schema({probatio.Required("field"): str})
    with pytest.raises(StructureError, match="does not follow the schema"):
        Structure(schema).read('{"field": null}')


def test_a_fence_inside_of_the_data_is_data() -> None:
    structure = Structure(probatio.Schema({probatio.Required("note"): str}))
    note = "empty is written ```json {} ```"
    assert structure.read(json.dumps({"note": note})) == {"note": note}
    assert structure.read(f"Here:\n```json\n{json.dumps({'note': 'a'})}\n```") == {
        "note": "a"
    }
