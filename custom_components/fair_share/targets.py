"""Which entities the triggers and conditions of the integration look at."""

from collections.abc import Iterable

from homeassistant.const import Platform
from homeassistant.core import HomeAssistant, State, callback
from homeassistant.helpers import entity_registry as er
from homeassistant.helpers.automation import DomainSpec

from .const import DOMAIN

QUOTA_EXHAUSTED = "quota_exhausted"
QUOTA_REMAINING_PERCENT = "quota_remaining_percent"
MEMBER_STATE = "member_state"
QUEUE_DEPTH = "queue_depth"
RUNNING = "running"

SENSORS = {Platform.SENSOR.value: DomainSpec()}
BINARY_SENSORS = {Platform.BINARY_SENSOR.value: DomainSpec()}


@callback
def async_of_kind(
    hass: HomeAssistant, entity_ids: Iterable[str], kind: str
) -> set[str]:
    """Return those that are entities of this integration and of this kind.

    ``kind`` is what the translations know them by: it stays the same when people rename
    an entity.
    """
    registry = er.async_get(hass)
    return {
        entity_id
        for entity_id in entity_ids
        if (entry := registry.async_get(entity_id)) is not None
        and entry.platform == DOMAIN
        and entry.translation_key == kind
    }


@callback
def async_of_household(
    hass: HomeAssistant, entity_ids: Iterable[str], *kinds: str
) -> set[str]:
    """Return those that tell of the household as a whole, of one of these kinds."""
    registry = er.async_get(hass)
    return {
        entity_id
        for entity_id in entity_ids
        if (entry := registry.async_get(entity_id)) is not None
        and entry.platform == DOMAIN
        and entry.unique_id in {f"{entry.config_entry_id}_{kind}" for kind in kinds}
    }


def counts_some(state: State) -> bool:
    """Whether a state is a number above 0."""
    try:
        return float(state.state) > 0
    except ValueError:
        return False
