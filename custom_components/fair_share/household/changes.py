"""Changes of the household's rules from outside the dialogs; they outlive a restart.

They are written where the dialogs write them, so that both always agree.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from homeassistant.core import callback

from ..admission.model import Workload
from ..const import CONF_PAUSED, CONF_PAUSED_WORKLOADS, GUEST_ID, GUEST_PREFIX

if TYPE_CHECKING:
    from .runtime import Household


def has_rules(household: Household, node_id: str) -> bool:
    """Whether a member or device can have a weight and a quota of its own."""
    return node_id == GUEST_ID or node_id in household.entry.subentries


def stored_share(household: Household, node_id: str) -> dict[str, Any]:
    """Return what is stored of a member's or device's share.

    With the keys of a subentry's data. Raises ``KeyError`` as below.
    """
    if node_id != GUEST_ID:
        return dict(household.entry.subentries[node_id].data)
    return {
        key.removeprefix(GUEST_PREFIX): value
        for key, value in household.entry.options.items()
        if key.startswith(GUEST_PREFIX)
    }


@callback
def async_change_share(
    household: Household, node_id: str, values: Mapping[str, Any]
) -> None:
    """Change weight or quota of a member or device; ``None`` takes a value away.

    ``values`` have the keys of a subentry's data. Raises ``KeyError`` when it has no
    rules of its own.
    """
    entries, entry = household.hass.config_entries, household.entry
    if node_id == GUEST_ID:
        guest = {f"{GUEST_PREFIX}{key}": value for key, value in values.items()}
        entries.async_update_entry(entry, options=_changed(entry.options, guest))
        return
    subentry = entry.subentries[node_id]
    entries.async_update_subentry(entry, subentry, data=_changed(subentry.data, values))


@callback
def async_pause(
    household: Household, node_ids: Iterable[str], workloads: Iterable[Workload]
) -> None:
    """Let nothing of these members, devices and kinds of requests start any more."""
    rules = household.settings
    _async_set_paused(
        household,
        rules.paused_nodes.union(node_ids),
        rules.paused_workloads.union(workloads),
    )


@callback
def async_resume(
    household: Household, node_ids: Iterable[str], workloads: Iterable[Workload]
) -> None:
    """Let them go on."""
    rules = household.settings
    _async_set_paused(
        household,
        rules.paused_nodes.difference(node_ids),
        rules.paused_workloads.difference(workloads),
    )


def _async_set_paused(
    household: Household, node_ids: Iterable[str], workloads: Iterable[Workload]
) -> None:
    before = household.settings.paused_nodes
    entry = household.entry
    household.hass.config_entries.async_update_entry(
        entry,
        options=_changed(
            entry.options,
            {
                CONF_PAUSED: sorted(node_ids) or None,
                CONF_PAUSED_WORKLOADS: sorted(w.value for w in workloads) or None,
            },
        ),
    )
    household.tell_paused(before ^ household.settings.paused_nodes)


def _changed(data: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    changed = {**data, **values}
    return {key: value for key, value in changed.items() if value is not None}
