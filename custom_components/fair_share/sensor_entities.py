"""Sensors that are written only when what they show has changed."""

from abc import abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import override

from homeassistant.components.sensor import SensorEntity, SensorEntityDescription
from homeassistant.core import callback
from homeassistant.helpers.typing import StateType

from .entity import FairShareEntity, Place
from .household.runtime import Household
from .sensor_descriptions import NodeSensorDescription
from .sensor_facts import FactDescription


@dataclass(frozen=True, slots=True)
class Reading:
    """What a sensor shows; ``last_reset`` is when a total began anew."""

    value: StateType | datetime = None
    last_reset: datetime | None = None
    available: bool = True


class FairShareSensor(FairShareEntity, SensorEntity):
    """A sensor that reads what it shows again whenever that may have changed."""

    def __init__(
        self,
        household: Household,
        place: Place,
        topics: tuple[str, ...],
        description: SensorEntityDescription,
    ) -> None:
        """Belong to the device of ``place``."""
        super().__init__(household, place.device_info, topics)
        self.entity_description = description
        self._attr_translation_key = description.key
        self._attr_unique_id = f"{place.unique_prefix}_{description.key}"
        self._owner_id = place.owner_id
        self._reading = Reading()

    @abstractmethod
    def read(self) -> Reading:
        """Return what is to be shown now. Raises ``LookupError``: no longer there."""

    @override
    async def async_added_to_hass(self) -> None:
        """Begin to listen, with something to show already."""
        await super().async_added_to_hass()
        self._show(self.read())

    @callback
    @override
    def async_refresh(self) -> None:
        """Read what is shown again, and write it if it is different."""
        try:
            reading = self.read()
        except LookupError:
            return  # just removed from the household; this entity follows
        if reading != self._reading:
            self._show(reading)
            self.async_write_ha_state()

    def _show(self, reading: Reading) -> None:
        self._reading = reading
        self._attr_native_value = reading.value
        self._attr_last_reset = reading.last_reset
        self._attr_available = reading.available


class NodeSensor(FairShareSensor):
    """A number of one node of the share tree.

    The accounts are facts of the household itself: they are there while servers are
    away.
    """

    entity_description: NodeSensorDescription

    def __init__(
        self, household: Household, place: Place, description: NodeSensorDescription
    ) -> None:
        """Show a number of the node that ``place`` belongs to."""
        super().__init__(household, place, (place.owner_id,), description)

    @override
    def read(self) -> Reading:
        """Read the node's account."""
        status = self._household.node_status(self._owner_id)
        return Reading(
            self.entity_description.value(status),
            self.entity_description.since(status),
        )


class FactSensor(FairShareSensor):
    """Something that the household knows of itself, a member or a kind of requests."""

    entity_description: FactDescription

    @override
    def read(self) -> Reading:
        """Ask the household."""
        return Reading(self.entity_description.value(self._household, self._owner_id))
