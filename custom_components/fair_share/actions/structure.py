"""Answers that are data of a given shape, not text."""

from collections.abc import Mapping
import json
import re
from typing import Any

from homeassistant.const import CONF_DESCRIPTION, CONF_SELECTOR
from homeassistant.helpers import llm, selector
import probatio
import voluptuous as vol

_REQUIRED = "required"
_FENCED = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)

_FIELD = vol.Schema(
    {
        vol.Optional(CONF_DESCRIPTION): str,
        vol.Optional(_REQUIRED, default=False): bool,
        vol.Required(CONF_SELECTOR): selector.validate_selector,
    }
)


class StructureError(Exception):
    """An answer that does not have the shape; the text says why, for the model."""


class Structure:
    """The shape of an answer: named fields, each with a selector."""

    def __init__(self, fields: Mapping[str, Mapping[str, Any]]) -> None:
        """Take fields that were validated by ``structure``."""
        markers: dict[vol.Marker, Any] = {}
        for name, field in fields.items():
            marker = vol.Required if field[_REQUIRED] else vol.Optional
            description = field.get(CONF_DESCRIPTION)
            key = marker(name, description=description)
            markers[key] = selector.selector(field[CONF_SELECTOR])
        self._schema = vol.Schema(markers, extra=vol.PREVENT_EXTRA)
        self.json_schema: dict[str, Any] = probatio.to_openapi(
            self._schema, custom_serializer=llm.selector_serializer
        )

    def response_format(self) -> dict[str, Any]:
        """Return what a server is sent so that it writes nothing else."""
        schema = {"name": "answer", "schema": self.json_schema}
        return {"type": "json_schema", "json_schema": schema}

    def instruction(self) -> str:
        """Return what the model is told."""
        schema = json.dumps(self.json_schema, ensure_ascii=False)
        return (
            "Answer with one JSON object and nothing else. It has to follow this JSON "
            f"schema: {schema}"
        )

    def read(self, text: str) -> dict[str, Any]:
        """Return the data of an answer. Raises ``StructureError``."""
        fenced = _FENCED.search(text)
        try:
            data = json.loads(fenced[1] if fenced else text)
        except ValueError as err:
            raise StructureError(f"It is not valid JSON: {err}") from err
        if not isinstance(data, dict):
            raise StructureError("It is not a JSON object.")
        try:
            return dict(self._schema(data))
        except vol.Invalid as err:
            raise StructureError(f"It does not follow the schema: {err}") from err


def structure(value: object) -> Structure:
    """Validate the fields of a structure. Raises ``vol.Invalid``."""
    fields = vol.Schema({str: _FIELD})(value)
    if not fields:
        raise vol.Invalid("a structure needs at least one field")
    return Structure(fields)
