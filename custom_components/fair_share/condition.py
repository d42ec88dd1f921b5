"""Conditions that are made for quotas and the household's queue."""

from typing import override

from homeassistant.const import STATE_ON
from homeassistant.core import HomeAssistant, State
from homeassistant.helpers.condition import (
    Condition,
    EntityConditionBase,
    EntityStateConditionBase,
)

from .targets import (
    BINARY_SENSORS,
    QUEUE_DEPTH,
    QUOTA_EXHAUSTED,
    RUNNING,
    SENSORS,
    async_of_household,
    async_of_kind,
    counts_some,
)


class IsOverQuota(EntityStateConditionBase):
    """A quota is used up."""

    _domain_specs = BINARY_SENSORS
    _states = {STATE_ON}  # noqa: RUF012 - as the class above has it
    _primary_entities_only = False

    @override
    def entity_filter(self, entities: set[str]) -> set[str]:
        """Look at quotas alone, of all that a device or an area has."""
        return async_of_kind(self._hass, entities, QUOTA_EXHAUSTED)


class IsBusy(EntityConditionBase):
    """Answers are being written in the household, or requests wait."""

    _domain_specs = SENSORS
    _primary_entities_only = False

    @override
    def entity_filter(self, entities: set[str]) -> set[str]:
        """Look at what the household as a whole has running and waiting."""
        return async_of_household(self._hass, entities, RUNNING, QUEUE_DEPTH)

    @override
    def is_valid_state(self, entity_state: State) -> bool:
        """Return whether something runs, or waits."""
        return counts_some(entity_state)


CONDITIONS: dict[str, type[Condition]] = {
    "is_over_quota": IsOverQuota,
    "is_busy": IsBusy,
}


async def async_get_conditions(_hass: HomeAssistant) -> dict[str, type[Condition]]:
    """Return the conditions by their name."""
    return CONDITIONS
