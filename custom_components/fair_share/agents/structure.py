"""Answers that are data of a given shape, not text."""

from collections.abc import Mapping
import json
from math import isfinite
import re
from typing import Any, NoReturn

from homeassistant.helpers import llm
import probatio
import voluptuous as vol

from ..engines.surrogates import well_formed_texts

_FENCED = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)

_KEPT = ("type", "description", "enum", "const", "required")
_PARTS_OF = ("anyOf", "oneOf", "allOf")
_COUNTS = ("minItems", "maxItems")
_MOST_COUNTED = 64
"""Servers unroll counts in their grammars, and refuse those that get too large."""
_ANYTHING = ("string", "number", "boolean", "null", "object", "array")


class StructureError(Exception):
    """An answer that does not have the shape; the text says why, for the model."""


class Structure:
    """The shape of an answer: what is asked for, and what is checked in the end.

    ``json_schema`` says all of it. A server is held to what of it every grammar can
    say: some servers refuse a schema with anything else in it. The rest (formats,
    patterns, limits of numbers) the model is told in words, and it is checked here.
    """

    def __init__(self, schema: vol.Schema | probatio.Schema) -> None:
        """Ask for what this schema lets pass."""
        self._schema = schema
        self.json_schema: dict[str, Any] = probatio.to_openapi(
            schema, custom_serializer=llm.selector_serializer, openapi_version="3.1.0"
        )

    def response_format(self) -> dict[str, Any]:
        """Return what a server is sent so that it writes nothing else."""
        schema = {"name": "answer", "schema": _for_grammar(self.json_schema)}
        return {"type": "json_schema", "json_schema": schema}

    def instruction(self) -> str:
        """Return what the model is told."""
        schema = json.dumps(self.json_schema, ensure_ascii=False)
        what = "object" if self._is_object else "value"
        return (
            f"Answer with one JSON {what} and nothing else. It has to follow this JSON "
            f"schema: {schema}"
        )

    def correction(self, error: StructureError) -> str:
        """Return what the model is told after an answer of another shape."""
        return f"{error} Correct it. {self.instruction()}"

    def read(self, text: str) -> Any:  # noqa: ANN401 - whatever the schema lets pass
        """Return the data of an answer. Raises ``StructureError``.

        What may be left out may also be ``null``: many models write every field.
        """
        try:
            data = well_formed_texts(_data_in(text))
        except (ValueError, RecursionError) as err:
            raise StructureError(f"It is not valid JSON: {err}") from err
        if self._is_object and not isinstance(data, dict):
            raise StructureError("It is not a JSON object.")
        try:
            return self._schema(data)
        except vol.Invalid as err:
            wrong = err
        if isinstance(data, dict) and (given := self._given(data)) != data:
            try:
                return self._schema(given)
            except vol.Invalid as err:
                wrong = err
        raise StructureError(f"It does not follow the schema: {wrong}") from wrong

    @property
    def _is_object(self) -> bool:
        return self.json_schema.get("type") == "object"

    def _given(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data without fields that are ``null`` and may be left out."""
        required = self.json_schema.get("required", ())
        return {
            name: value
            for name, value in data.items()
            if value is not None or name in required
        }


def _data_in(text: str) -> Any:  # noqa: ANN401 - JSON of any kind
    """Return the data that is all of a text, or else what is fenced in it.

    Raises ``ValueError`` and ``RecursionError``.
    """
    try:
        return _loads(text)
    except ValueError:
        if not (fenced := _FENCED.search(text)):
            raise
    return _loads(fenced[1])


def _loads(text: str) -> Any:  # noqa: ANN401 - JSON of any kind
    return json.loads(text, parse_constant=_no_constant, parse_float=_finite)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _finite(text: str) -> float:
    if not isfinite(number := float(text)):
        raise ValueError(f"{text} is too large")
    return number


def _for_grammar(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return of a JSON schema what every server can make a grammar of."""
    kept = {name: schema[name] for name in _KEPT if name in schema}
    for name in _COUNTS:
        if 0 <= schema.get(name, -1) <= _MOST_COUNTED:
            kept[name] = schema[name]
    for name in _PARTS_OF:
        if name in schema:
            # Of several shapes that exclude each other one is meant in any case.
            kept["allOf" if name == "allOf" else "anyOf"] = [
                _for_grammar(part) for part in schema[name]
            ]
    if "properties" in schema:
        kept["properties"] = {
            name: _for_grammar(part) for name, part in schema["properties"].items()
        }
        kept["additionalProperties"] = False
    if isinstance(others := schema.get("additionalProperties"), Mapping):
        kept["additionalProperties"] = _for_grammar(others)
    elif others is not None:
        kept["additionalProperties"] = others
    if isinstance(items := schema.get("items"), Mapping):
        kept["items"] = _for_grammar(items)
    if not kept.keys() - {"description"}:
        # To some servers a schema that says nothing means an object.
        kept["anyOf"] = [{"type": kind} for kind in _ANYTHING]
    return kept
