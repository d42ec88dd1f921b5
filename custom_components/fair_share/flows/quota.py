"""The fields of a quota, as members, devices and guests have it."""

from collections.abc import Mapping
from typing import Any

import voluptuous as vol

from ..admission.model import QuotaEnd, QuotaWindow
from ..const import (
    CONF_QUOTA_END,
    CONF_QUOTA_REFILL,
    CONF_QUOTA_TOKENS,
    CONF_QUOTA_WINDOW,
    QUOTA_STEADY,
)
from ..household.subentries import QUOTA_WINDOWS
from .schemas import Fields, choice, whole_number


def quota_fields(prefix: str = "") -> Fields:
    """Return the fields, with this prefix before their keys."""
    return {
        vol.Optional(f"{prefix}{CONF_QUOTA_TOKENS}"): whole_number(1),
        vol.Required(
            f"{prefix}{CONF_QUOTA_WINDOW}", default=QuotaWindow.DAY.value
        ): choice(QUOTA_WINDOWS, CONF_QUOTA_WINDOW),
        vol.Optional(f"{prefix}{CONF_QUOTA_REFILL}"): whole_number(1),
        vol.Required(f"{prefix}{CONF_QUOTA_END}", default=QuotaEnd.STOP.value): choice(
            QuotaEnd, CONF_QUOTA_END
        ),
    }


def quota_errors(
    data: Mapping[str, Any], field: str, prefix: str = ""
) -> dict[str, str]:
    """Return what is wrong with a quota, by the ``field`` that shall show it."""
    errors: dict[str, str] = {}
    steady = data[f"{prefix}{CONF_QUOTA_WINDOW}"] == QUOTA_STEADY
    if steady and f"{prefix}{CONF_QUOTA_REFILL}" not in data:
        errors[field] = "refill_missing"
    return errors
