"""Rules of the household that are a number."""

from typing import override

from homeassistant.components.number import NumberEntity
from homeassistant.const import UnitOfRatio
from homeassistant.core import HomeAssistant
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .const import CONF_BACKGROUND_SHARE, MAX_BACKGROUND_SHARE
from .entity import RuleEntity
from .household.runtime import FairShareConfigEntry
from .household.settings import percent

PARALLEL_UPDATES = 0


async def async_setup_entry(
    _hass: HomeAssistant,
    entry: FairShareConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Add the part of all service that is kept for background work."""
    async_add_entities([BackgroundShareNumber(entry)])


class BackgroundShareNumber(RuleEntity, NumberEntity):
    """How much of all service background work gets for as long as it waits."""

    _attr_native_min_value = 0.0
    _attr_native_max_value = MAX_BACKGROUND_SHARE
    _attr_native_step = 1.0
    _attr_native_unit_of_measurement = UnitOfRatio.PERCENTAGE

    def __init__(self, entry: FairShareConfigEntry) -> None:
        """Show the household's share."""
        super().__init__(entry, "reserved_background_share")

    @property
    @override
    def native_value(self) -> float:
        """The share that the queue keeps."""
        return percent(self.rules.background_share)

    @override
    async def async_set_native_value(self, value: float) -> None:
        """Keep another share from now on."""
        self.async_change(CONF_BACKGROUND_SHARE, value)
