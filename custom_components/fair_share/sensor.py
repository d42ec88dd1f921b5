"""Sensors of the household, its members and devices, and its servers."""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import override

from homeassistant.components.sensor import (
    SensorDeviceClass,
    SensorEntity,
    SensorEntityDescription,
    SensorStateClass,
)
from homeassistant.const import EntityCategory
from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers.device_registry import DeviceInfo
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback
from homeassistant.helpers.typing import StateType

from .admission.model import ROOT_ID
from .const import SUBENTRY_SERVER
from .entity import (
    FairShareEntity,
    async_household_device,
    async_update_device,
    built_in_device_info,
    household_device_info,
    subentry_device_info,
)
from .household.registry import BUILT_IN_IDS, device_identifier
from .household.runtime import FairShareConfigEntry, Household
from .household.servers import ServerState, ServerView
from .sensor_descriptions import (
    HOUSEHOLD_SENSORS,
    MEMBER_SENSORS,
    NodeSensorDescription,
)

PARALLEL_UPDATES = 0

SERVER_STATE = SensorEntityDescription(
    key="server_state",
    device_class=SensorDeviceClass.ENUM,
    options=[state.value for state in ServerState],
)
SLOTS_USED = SensorEntityDescription(
    key="slots_used",
    state_class=SensorStateClass.MEASUREMENT,
    entity_category=EntityCategory.DIAGNOSTIC,
)
FOREIGN_REQUESTS = SensorEntityDescription(
    key="foreign_requests",
    state_class=SensorStateClass.MEASUREMENT,
    entity_category=EntityCategory.DIAGNOSTIC,
)


async def async_setup_entry(
    hass: HomeAssistant,
    entry: FairShareConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Add the sensors of the household, and those of subentries as they come."""
    platform = _Platform(hass, entry, async_add_entities)
    async_add_entities(platform.household_sensors())
    platform.async_follow_subentries()
    updates = entry.runtime_data.updates
    entry.async_on_unload(
        updates.async_listen(ROOT_ID, platform.async_follow_subentries)
    )


class _Platform:
    """Keeps the sensors in step with the subentries of one household."""

    def __init__(
        self,
        hass: HomeAssistant,
        entry: FairShareConfigEntry,
        async_add_entities: AddConfigEntryEntitiesCallback,
    ) -> None:
        self._hass = hass
        self._entry = entry
        self._household = entry.runtime_data
        self._async_add_entities = async_add_entities
        self._via_device_id = async_household_device(hass, entry).id
        self._titles: dict[str, str] = {}

    def household_sensors(self) -> Iterable[SensorEntity]:
        """Return the sensors that every household has."""
        entry_id = self._entry.entry_id
        info = household_device_info(self._entry)
        for description in HOUSEHOLD_SENSORS:
            yield NodeSensor(self._household, ROOT_ID, entry_id, info, description)
        for member_id in BUILT_IN_IDS:
            info = built_in_device_info(self._entry, member_id, self._via_device_id)
            prefix = device_identifier(entry_id, member_id)
            for description in MEMBER_SENSORS:
                yield NodeSensor(self._household, member_id, prefix, info, description)

    @callback
    def async_follow_subentries(self) -> None:
        """Add sensors of new subentries and update the devices of renamed ones.

        Home Assistant itself takes away those of removed ones.
        """
        titles = dict(self._subentry_titles())
        for subentry_id, title in titles.items():
            if subentry_id not in self._titles:
                self._async_add_entities(
                    self._subentry_sensors(subentry_id), config_subentry_id=subentry_id
                )
            elif title != self._titles[subentry_id]:
                async_update_device(self._hass, self._entry, subentry_id)
        self._titles = titles

    def _subentry_titles(self) -> Iterable[tuple[str, str]]:
        # Only what the household has set up already: a change of the subentries may
        # not have reached it yet.
        registry = self._household.registry
        for member in registry.members.values():
            yield member.member_id, member.name
        for device in registry.devices.values():
            yield device.subentry_id, device.name
        for view in self._household.servers.statuses():
            yield view.server_id, view.title

    def _subentry_sensors(self, subentry_id: str) -> Iterable[SensorEntity]:
        info = subentry_device_info(self._entry, subentry_id, self._via_device_id)
        if self._entry.subentries[subentry_id].subentry_type == SUBENTRY_SERVER:
            yield ServerStateSensor(self._household, subentry_id, info, SERVER_STATE)
            yield SlotsUsedSensor(self._household, subentry_id, info, SLOTS_USED)
            yield ForeignRequestsSensor(
                self._household, subentry_id, info, FOREIGN_REQUESTS
            )
            return
        for description in MEMBER_SENSORS:
            yield NodeSensor(
                self._household, subentry_id, subentry_id, info, description
            )


@dataclass(frozen=True, slots=True)
class _Reading:
    value: StateType | datetime = None
    last_reset: datetime | None = None
    available: bool = True


class _Sensor(FairShareEntity, SensorEntity):
    """A sensor that is written only when what it shows has changed."""

    def __init__(
        self,
        household: Household,
        topics: tuple[str, ...],
        unique_prefix: str,
        device_info: DeviceInfo,
        description: SensorEntityDescription,
    ) -> None:
        super().__init__(household, device_info, topics)
        self.entity_description = description
        self._attr_translation_key = description.key
        self._attr_unique_id = f"{unique_prefix}_{description.key}"
        self._reading = _Reading()

    @abstractmethod
    def read(self) -> _Reading:
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

    def _show(self, reading: _Reading) -> None:
        self._reading = reading
        self._attr_native_value = reading.value
        self._attr_last_reset = reading.last_reset
        self._attr_available = reading.available


class NodeSensor(_Sensor):
    """A number of one node of the share tree.

    The accounts are facts of the household itself: they are there while servers are
    away.
    """

    entity_description: NodeSensorDescription

    def __init__(
        self,
        household: Household,
        node_id: str,
        unique_prefix: str,
        device_info: DeviceInfo,
        description: NodeSensorDescription,
    ) -> None:
        """Show a number of the node ``node_id``."""
        super().__init__(household, (node_id,), unique_prefix, device_info, description)
        self._node_id = node_id

    @override
    def read(self) -> _Reading:
        """Read the node's account."""
        status = self._household.node_status(self._node_id)
        return _Reading(
            self.entity_description.value(status),
            self.entity_description.since(status),
        )


class _ServerSensor(_Sensor):
    """Something about one server."""

    def __init__(
        self,
        household: Household,
        server_id: str,
        device_info: DeviceInfo,
        description: SensorEntityDescription,
    ) -> None:
        super().__init__(
            household, (server_id, ROOT_ID), server_id, device_info, description
        )
        self._server_id = server_id

    def server(self) -> ServerView:
        """Return the server as it is now. Raises ``KeyError``: removed."""
        return self._household.servers.get(self._server_id).view()


class ServerStateSensor(_ServerSensor):
    """Whether a server can be used, and if not, why."""

    @override
    def read(self) -> _Reading:
        """Read the state the server was last seen in."""
        return _Reading(self.server().state.value)


class SlotsUsedSensor(_ServerSensor):
    """How many of a server's slots the queue has filled; only while it is ready."""

    @override
    def read(self) -> _Reading:
        """Read from the queue what was placed on the server."""
        if self.server().state is not ServerState.READY:
            return _Reading(available=False)
        servers = self._household.status().servers
        return _Reading(
            next((s.running for s in servers if s.server_id == self._server_id), 0)
        )


class ForeignRequestsSensor(_ServerSensor):
    """How many requests a server runs that were sent past the queue.

    Unknown where the server does not tell what it runs.
    """

    @override
    def read(self) -> _Reading:
        """Read what the server last reported beyond our own."""
        server = self.server()
        if server.state is not ServerState.READY:
            return _Reading(available=False)
        return _Reading(server.foreign)
