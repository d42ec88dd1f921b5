"""Whether the quota of a member or device is used up."""

from collections.abc import Iterable
from typing import override

from homeassistant.components.binary_sensor import BinarySensorEntity
from homeassistant.components.binary_sensor.const import BinarySensorDeviceClass
from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .entity import FairShareEntity, Place, async_add_to_places
from .household.runtime import FairShareConfigEntry, Household

PARALLEL_UPDATES = 0


async def async_setup_entry(
    hass: HomeAssistant,
    entry: FairShareConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Add one for every member and device."""

    def sensors(place: Place) -> Iterable[BinarySensorEntity]:
        if not place.is_server:
            yield QuotaExhausted(entry.runtime_data, place)

    async_add_to_places(hass, entry, async_add_entities, sensors)


class QuotaExhausted(FairShareEntity, BinarySensorEntity):
    """On while the own quota, or that of the member above, is used up."""

    _attr_device_class = BinarySensorDeviceClass.PROBLEM
    _attr_translation_key = "quota_exhausted"

    def __init__(self, household: Household, place: Place) -> None:
        """Watch the quotas of a node."""
        topics = household.queue.path_ids(place.owner_id)
        super().__init__(household, place.device_info, topics)
        self._node_id = place.owner_id
        self._attr_unique_id = f"{place.unique_prefix}_quota_exhausted"

    @override
    async def async_added_to_hass(self) -> None:
        """Begin to listen, with something to show already."""
        await super().async_added_to_hass()
        self._attr_is_on = self._household.is_over_quota(self._node_id)

    @callback
    @override
    def async_refresh(self) -> None:
        """Look again, and write it if it is different."""
        try:
            is_on = self._household.is_over_quota(self._node_id)
        except LookupError:
            return  # just removed from the household; this entity follows
        if is_on is not self._attr_is_on:
            self._attr_is_on = is_on
            self.async_write_ha_state()
