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

from ..admission.model import QuotaWindow
from ..const import (
    CONF_CONTEXT_TOKENS,
    CONF_IN_FLIGHT,
    CONF_OUTPUT_TOKENS,
    CONF_QUOTA_TOKENS,
    CONF_QUOTA_WINDOW,
    CONF_WEIGHT,
)

type Fields = dict[vol.Marker, Any]

SECTION_QUOTA = "quota"
SECTION_LIMITS = "limits"

MAX_WEIGHT = 100.0
_MIN_WEIGHT = 0.1


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


def number(minimum: float, maximum: float, step: float) -> NumberSelector:
    """Return a box for a number."""
    return NumberSelector(
        NumberSelectorConfig(
            min=minimum, max=maximum, step=step, mode=NumberSelectorMode.BOX
        )
    )


def weight() -> NumberSelector:
    """Return a box for a weight in the share tree."""
    return number(_MIN_WEIGHT, MAX_WEIGHT, 0.1)


def choice(options: Iterable[str], translation_key: str) -> SelectSelector:
    """Return a list to choose one of these from, named by the translations."""
    return SelectSelector(
        SelectSelectorConfig(
            options=[str(option) for option in options],
            translation_key=translation_key,
            mode=SelectSelectorMode.DROPDOWN,
        )
    )


def share_fields() -> Fields:
    """Return weight, quota and limits: what a member and a device have in common."""
    quota: Fields = {
        vol.Optional(CONF_QUOTA_TOKENS): whole_number(1),
        vol.Required(CONF_QUOTA_WINDOW, default=QuotaWindow.DAY.value): choice(
            QuotaWindow, CONF_QUOTA_WINDOW
        ),
    }
    limits: Fields = {
        vol.Optional(CONF_CONTEXT_TOKENS): whole_number(1),
        vol.Optional(CONF_OUTPUT_TOKENS): whole_number(1),
        vol.Optional(CONF_IN_FLIGHT): whole_number(1),
    }
    return {
        vol.Required(CONF_WEIGHT, default=1.0): weight(),
        vol.Required(SECTION_QUOTA): section(vol.Schema(quota), {"collapsed": False}),
        vol.Required(SECTION_LIMITS): section(vol.Schema(limits), {"collapsed": True}),
    }


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
