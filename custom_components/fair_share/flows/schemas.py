"""Fields that several dialogs share, and how sections become flat data."""

from collections.abc import Iterable, Mapping
from typing import Any, override

from homeassistant.data_entry_flow import section
from homeassistant.helpers.selector import (
    NumberSelector,
    NumberSelectorConfig,
    NumberSelectorMode,
    SelectSelector,
    SelectSelectorConfig,
    SelectSelectorMode,
)
import voluptuous as vol

type Fields = dict[vol.Marker, Any]

MAX_WEIGHT = 100.0
MIN_WEIGHT = 0.1


class _WholeNumberSelector(NumberSelector):
    """A box that takes no fractions; its step alone only moves the arrows."""

    @override
    def __call__(self, data: Any) -> int:
        """Return what was typed. Raises ``vol.Invalid``."""
        value = super().__call__(data)
        if not value.is_integer():
            raise vol.Invalid("This has to be a whole number")
        return int(value)


def whole_number(minimum: int) -> NumberSelector:
    """Return a box for a whole number."""
    return _WholeNumberSelector(
        NumberSelectorConfig(min=minimum, step=1, mode=NumberSelectorMode.BOX)
    )


def number(
    minimum: float, maximum: float, step: float, unit: str | None = None
) -> NumberSelector:
    """Return a box for a number."""
    config = NumberSelectorConfig(
        min=minimum, max=maximum, step=step, mode=NumberSelectorMode.BOX
    )
    if unit is not None:
        config["unit_of_measurement"] = unit
    return NumberSelector(config)


def weight() -> NumberSelector:
    """Return a box for a weight in the share tree."""
    return number(MIN_WEIGHT, MAX_WEIGHT, 0.1)


def choice(options: Iterable[str], translation_key: str) -> SelectSelector:
    """Return a list to choose one of these from, named by the translations."""
    return SelectSelector(
        SelectSelectorConfig(
            options=[str(option) for option in options],
            translation_key=translation_key,
            mode=SelectSelectorMode.DROPDOWN,
        )
    )


def flatten(user_input: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input of a form without its sections."""
    flat: dict[str, Any] = {}
    for key, value in user_input.items():
        if isinstance(value, Mapping):
            flat.update(value)
        else:
            flat[key] = value
    return flat


def nest(schema: vol.Schema, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return flat data in the sections of this form; the inverse of ``flatten``."""
    nested = dict(data)
    for marker, field in schema.schema.items():
        if isinstance(field, section):
            keys = {inner.schema for inner in field.schema.schema}
            nested[marker.schema] = {key: data[key] for key in keys & set(data)}
    return nested
