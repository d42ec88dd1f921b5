"""Sensors of the household, its members and devices, kinds of requests and servers."""

from collections.abc import Iterable

from homeassistant.components.sensor import SensorEntity
from homeassistant.core import HomeAssistant
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .admission.model import ROOT_ID, Workload
from .entity import (
    Place,
    async_add_to_places,
    async_household_device,
    household_device_info,
    workload_device_info,
)
from .household.runtime import FairShareConfigEntry
from .sensor_descriptions import HOUSEHOLD_SENSORS, MEMBER_SENSORS
from .sensor_entities import FactSensor, NodeSensor
from .sensor_facts import CLIENT_FACTS, HOUSEHOLD_FACTS, MEMBER_FACTS, WORKLOAD_FACTS
from .sensor_servers import (
    FOREIGN_REQUESTS,
    SERVER_STATE,
    SLOTS_USED,
    server_sensors,
)

__all__ = ["FOREIGN_REQUESTS", "SERVER_STATE", "SLOTS_USED"]

PARALLEL_UPDATES = 0


async def async_setup_entry(
    hass: HomeAssistant,
    entry: FairShareConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Add the sensors of the household, and those of subentries as they come."""
    household = entry.runtime_data

    def sensors(place: Place) -> Iterable[SensorEntity]:
        if place.is_server:
            yield from server_sensors(household, place)
            return
        for description in MEMBER_SENSORS:
            yield NodeSensor(household, place, description)
        topics = household.queue.path_ids(place.owner_id)
        for fact in MEMBER_FACTS:
            yield FactSensor(household, place, topics, fact)
        if place.owner_id in household.registry.clients:
            for fact in CLIENT_FACTS:
                yield FactSensor(household, place, topics, fact)

    via_device_id = async_household_device(hass, entry).id
    home = Place(ROOT_ID, entry.entry_id, household_device_info(entry))
    async_add_entities(NodeSensor(household, home, each) for each in HOUSEHOLD_SENSORS)
    async_add_entities(
        FactSensor(household, home, (ROOT_ID,), fact) for fact in HOUSEHOLD_FACTS
    )
    for workload in Workload:
        place = Place(
            workload.value,
            f"{entry.entry_id}_workload_{workload}",
            workload_device_info(entry, workload, via_device_id),
        )
        async_add_entities(
            FactSensor(household, place, (ROOT_ID,), fact) for fact in WORKLOAD_FACTS
        )
    async_add_to_places(hass, entry, async_add_entities, sensors)
