"""Actions that change or top up quotas."""

from typing import Any

from homeassistant.const import ATTR_DEVICE_ID
from homeassistant.core import ServiceCall
from homeassistant.util.json import JsonObjectType
import voluptuous as vol

from ..admission.model import QuotaEnd
from ..const import (
    CONF_QUOTA_END,
    CONF_QUOTA_REFILL,
    CONF_QUOTA_TOKENS,
    CONF_QUOTA_WINDOW,
    QUOTA_STEADY,
)
from ..household.changes import async_change_share, stored_share
from ..household.report import window_report
from ..household.runtime import Household
from ..household.subentries import QUOTA_WINDOWS
from .mistakes import mistake
from .schemas import DEVICES, MOST_TOKENS
from .targets import node_ids, ruled_ids

_TOKENS = "tokens"
_WINDOW = "window"
_REFILL = "refill_per_hour"
_AT_END = "at_end"

SET_QUOTA = {
    **DEVICES,
    vol.Required(_TOKENS): vol.All(vol.Coerce(int), vol.Range(0, MOST_TOKENS)),
    vol.Optional(_WINDOW): vol.In([str(window) for window in QUOTA_WINDOWS]),
    vol.Optional(_REFILL): vol.All(vol.Coerce(int), vol.Range(1, MOST_TOKENS)),
    vol.Optional(_AT_END): vol.In([end.value for end in QuotaEnd]),
}
GRANT_TOKENS = {
    **DEVICES,
    vol.Required(_TOKENS): vol.All(vol.Coerce(int), vol.Range(1, MOST_TOKENS)),
}
RESET_USAGE = DEVICES


async def async_set_quota(household: Household, call: ServiceCall) -> JsonObjectType:
    """Give members and devices a quota, the same as in their dialogs; 0 for none.

    What is not named stays as it is. Raises ``ServiceValidationError``.
    """
    targets = ruled_ids(household, call.data[ATTR_DEVICE_ID])
    values: dict[str, Any] = {CONF_QUOTA_TOKENS: call.data[_TOKENS] or None}
    for field, key in (
        (_WINDOW, CONF_QUOTA_WINDOW),
        (_REFILL, CONF_QUOTA_REFILL),
        (_AT_END, CONF_QUOTA_END),
    ):
        if field in call.data:
            values[key] = call.data[field]
    for node_id in targets:
        _check_refill(household, node_id, values)
    for node_id in targets:
        async_change_share(household, node_id, values)
    return _quotas(household, targets)


async def async_grant_tokens(household: Household, call: ServiceCall) -> JsonObjectType:
    """Add tokens to quotas, for their current period only.

    Raises ``ServiceValidationError`` when one has no quota.
    """
    targets = node_ids(household, call.data[ATTR_DEVICE_ID])
    for node_id in targets:
        if household.node_status(node_id).window.limit_tokens is None:
            name = household.registry.name(node_id)
            raise mistake("no_quota", {"name": name})
    for node_id in targets:
        household.queue.grant_tokens(node_id, call.data[_TOKENS])
    return _quotas(household, targets)


async def async_reset_usage(household: Household, call: ServiceCall) -> JsonObjectType:
    """Begin the current period anew; what was ever served stays counted."""
    targets = node_ids(household, call.data[ATTR_DEVICE_ID])
    for node_id in targets:
        household.queue.reset_window(node_id)
    return _quotas(household, targets)


def _check_refill(household: Household, node_id: str, values: dict[str, Any]) -> None:
    stored = stored_share(household, node_id) | values
    steady = stored.get(CONF_QUOTA_WINDOW) == QUOTA_STEADY
    if steady and stored.get(CONF_QUOTA_REFILL) is None:
        raise mistake("refill_missing", {"name": household.registry.name(node_id)})


def _quotas(household: Household, targets: tuple[str, ...]) -> JsonObjectType:
    return {
        "quotas": [
            {
                "id": node_id,
                "name": household.registry.name(node_id),
                **window_report(household.node_status(node_id).window),
            }
            for node_id in targets
        ]
    }
