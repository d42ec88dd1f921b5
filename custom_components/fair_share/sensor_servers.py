"""What the sensors of a server show."""

from collections.abc import Iterable
from typing import override

from homeassistant.components.sensor import (
    SensorDeviceClass,
    SensorEntity,
    SensorEntityDescription,
    SensorStateClass,
)
from homeassistant.const import EntityCategory, UnitOfRatio, UnitOfTime

from .admission.metrics import ByServer, Measure
from .admission.model import ROOT_ID
from .admission.status import ServerStatus
from .entity import Place
from .household.runtime import Household
from .household.servers import ServerState, ServerView
from .sensor_entities import FairShareSensor, Reading

SATURATED = "saturated"
"""A server that is ready and has no slot left."""

SERVER_STATE = SensorEntityDescription(
    key="server_state",
    device_class=SensorDeviceClass.ENUM,
    options=[ServerState.READY.value, SATURATED]
    + [state.value for state in ServerState if state is not ServerState.READY],
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
KV_USED = SensorEntityDescription(
    key="kv_used",
    native_unit_of_measurement=UnitOfRatio.PERCENTAGE,
    state_class=SensorStateClass.MEASUREMENT,
    entity_category=EntityCategory.DIAGNOSTIC,
    suggested_display_precision=0,
)
LATENCY = SensorEntityDescription(
    key="latency",
    device_class=SensorDeviceClass.DURATION,
    native_unit_of_measurement=UnitOfTime.SECONDS,
    state_class=SensorStateClass.MEASUREMENT,
    entity_category=EntityCategory.DIAGNOSTIC,
    suggested_display_precision=2,
)


def server_sensors(household: Household, place: Place) -> Iterable[SensorEntity]:
    """Return the sensors of a server."""
    yield ServerStateSensor(household, place, SERVER_STATE)
    yield SlotsUsedSensor(household, place, SLOTS_USED)
    yield ForeignRequestsSensor(household, place, FOREIGN_REQUESTS)
    yield KvUsedSensor(household, place, KV_USED)
    yield LatencySensor(household, place, LATENCY)


class _ServerSensor(FairShareSensor):
    """Something about one server."""

    def __init__(
        self, household: Household, place: Place, description: SensorEntityDescription
    ) -> None:
        super().__init__(household, place, (place.owner_id, ROOT_ID), description)

    def server(self) -> ServerView:
        """Return the server as it is now. Raises ``KeyError``: removed."""
        return self._household.servers.get(self._owner_id).view()

    def placed(self) -> ServerStatus | None:
        """Return what the queue has placed on it, while it is ready."""
        if self.server().state is not ServerState.READY:
            return None
        servers = self._household.status().servers
        return next((s for s in servers if s.server_id == self._owner_id), None)


class ServerStateSensor(_ServerSensor):
    """Whether a server can be used, and if not, why."""

    @override
    def read(self) -> Reading:
        """Read the state the server was last seen in."""
        placed = self.placed()
        if placed is not None and placed.running + placed.foreign >= placed.slots:
            return Reading(SATURATED)
        return Reading(self.server().state.value)


class SlotsUsedSensor(_ServerSensor):
    """How many of a server's slots the queue has filled; only while it is ready."""

    @override
    def read(self) -> Reading:
        """Read from the queue what was placed on the server."""
        placed = self.placed()
        return Reading(available=False) if placed is None else Reading(placed.running)


class ForeignRequestsSensor(_ServerSensor):
    """How many requests a server runs that were sent past the queue.

    Unknown where the server does not tell what it runs.
    """

    @override
    def read(self) -> Reading:
        """Read what the server last reported beyond our own."""
        server = self.server()
        if server.state is not ServerState.READY:
            return Reading(available=False)
        return Reading(server.foreign)


class KvUsedSensor(_ServerSensor):
    """How much of a server's memory for context the queue has given away."""

    @override
    def read(self) -> Reading:
        """Read from the queue what its requests may come to hold."""
        placed = self.placed()
        if placed is None:
            return Reading(available=False)
        whole = placed.kv_tokens or placed.slots * placed.context_tokens
        return Reading(100 * placed.kv_committed_tokens / whole)


class LatencySensor(_ServerSensor):
    """How long a server usually takes from the start of a request to its first word."""

    @override
    def read(self) -> Reading:
        """Read what was measured of the latest requests there."""
        if self.server().state is not ServerState.READY:
            return Reading(available=False)
        measures = self._household.measures
        group = ByServer(self._owner_id)
        return Reading(measures.percentile(group, Measure.LATENCY, 50))
