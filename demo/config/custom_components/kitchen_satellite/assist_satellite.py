"""The satellite's entity and its device."""

from typing import override

from homeassistant.components.assist_pipeline import PipelineEvent
from homeassistant.components.assist_satellite import (
    AssistSatelliteConfiguration,
    AssistSatelliteEntity,
)
from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers.device_registry import DeviceInfo
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback


async def async_setup_entry(
    hass: HomeAssistant,
    entry: ConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Add the one satellite."""
    del hass
    async_add_entities([KitchenSatellite(entry.entry_id)])


class KitchenSatellite(AssistSatelliteEntity):
    """A satellite that neither hears nor speaks."""

    _attr_has_entity_name = True
    _attr_name = None

    def __init__(self, entry_id: str) -> None:
        """Belong to a device in the kitchen."""
        self._attr_unique_id = entry_id
        self._attr_device_info = DeviceInfo(
            identifiers={("kitchen_satellite", entry_id)},
            name="Kitchen satellite",
            suggested_area="Kitchen",
        )

    @callback
    @override
    def async_get_configuration(self) -> AssistSatelliteConfiguration:
        """There are no wake words."""
        return AssistSatelliteConfiguration([], [], 0)

    @override
    async def async_set_configuration(
        self, config: AssistSatelliteConfiguration
    ) -> None:
        """There is nothing to set."""

    @callback
    @override
    def on_pipeline_event(self, event: PipelineEvent) -> None:
        """Nothing is shown or spoken."""
