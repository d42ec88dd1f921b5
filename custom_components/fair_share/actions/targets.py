"""Whom an action is about: from devices that people choose to nodes of the tree."""

from collections.abc import Iterable

from homeassistant.helpers import device_registry as dr

from ..const import DOMAIN
from ..household.asker import Asker, IdentityRule
from ..household.changes import has_rules
from ..household.registry import (
    automation_id,
    device_identifier,
    direct_id,
)
from ..household.runtime import Household
from .mistakes import mistake

_ACTION = f"{DOMAIN}.generate"


def node_ids(household: Household, device_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the members and devices that are meant.

    Raises ``ServiceValidationError`` when one is neither.
    """
    return tuple(_node_id(household, device_id) for device_id in device_ids)


def ruled_ids(household: Household, device_ids: Iterable[str]) -> tuple[str, ...]:
    """Return those meant, all of whom can have a quota. Raises as above."""
    found = node_ids(household, device_ids)
    for node_id in found:
        if not has_rules(household, node_id):
            name = household.registry.name(node_id)
            raise mistake("no_quota_possible", {"name": name})
    return found


def asker_for(household: Household, device_id: str) -> Asker:
    """Return who asks when something is done for this member or device."""
    node_id = _node_id(household, device_id)
    if device := household.registry.devices.get(node_id):
        return Asker(
            device.member_id,
            node_id,
            node_id,
            device.workload,
            IdentityRule.DEVICE,
        )
    if client := household.registry.clients.get(node_id):
        return client.asker
    if household.registry.has_direct(node_id):
        source_id = direct_id(node_id)
        return Asker(node_id, source_id, None, None, IdentityRule.USER)
    return Asker(node_id, automation_id(_ACTION), None, None, IdentityRule.HOUSE)


def _node_id(household: Household, device_id: str) -> str:
    device = dr.async_get(household.hass).async_get(device_id)
    registry = household.registry
    known = {
        device_identifier(household.entry.entry_id, node_id): node_id
        for node_id in (*registry.member_ids(), *registry.devices, *registry.clients)
    }
    for domain, identifier in device.identifiers if device else ():
        if domain == DOMAIN and identifier in known:
            return known[identifier]
    name = device_id
    if device is not None:
        name = device.name_by_user or device.name or device_id
    raise mistake("no_member_or_device", {"name": name})
