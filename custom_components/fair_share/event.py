"""What happened to the household, its members and devices, to start automations."""

from collections.abc import Iterable
from typing import override

from homeassistant.components.event import EventEntity
from homeassistant.const import EntityCategory
from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .admission.model import ROOT_ID
from .entity import (
    FairShareEntity,
    Place,
    async_add_to_places,
    household_device_info,
)
from .household.events import EventKind, HouseEvent
from .household.runtime import FairShareConfigEntry, Household

PARALLEL_UPDATES = 0

HOUSEHOLD_EVENTS = (
    EventKind.PREEMPTED,
    EventKind.REJECTED,
    EventKind.SERVER_UP,
    EventKind.SERVER_DOWN,
)
MEMBER_EVENTS = (
    EventKind.PREEMPTED,
    EventKind.REJECTED,
    EventKind.THRESHOLD,
    EventKind.QUOTA_EXHAUSTED,
    EventKind.QUOTA_RESET,
)


async def async_setup_entry(
    hass: HomeAssistant,
    entry: FairShareConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Add the events of the household, and of members and devices as they come."""
    household = entry.runtime_data

    def events(place: Place) -> Iterable[EventEntity]:
        if not place.is_server:
            yield MemberEvents(household, place)
            yield Finished(household, place)

    home = Place(ROOT_ID, entry.entry_id, household_device_info(entry))
    async_add_entities([HouseEvents(household, home, "household", HOUSEHOLD_EVENTS)])
    async_add_to_places(hass, entry, async_add_entities, events)


class HouseEvents(FairShareEntity, EventEntity):
    """What happened to one node of the share tree, of these kinds."""

    def __init__(
        self,
        household: Household,
        place: Place,
        key: str,
        kinds: tuple[EventKind, ...],
        topics: tuple[str, ...] = (),
    ) -> None:
        """Tell of the node that ``place`` belongs to."""
        super().__init__(household, place.device_info, topics)
        self._node_id = place.owner_id
        self._attr_event_types = [kind.value for kind in kinds]
        self._attr_translation_key = key
        self._attr_unique_id = f"{place.unique_prefix}_events_{key}"

    @override
    async def async_added_to_hass(self) -> None:
        """Begin to listen."""
        await super().async_added_to_hass()
        events = self._household.events
        self.async_on_remove(events.async_listen(self._node_id, self.async_tell))

    @callback
    def async_tell(self, event: HouseEvent) -> None:
        """Tell an event, if it is of these kinds."""
        if event.kind.value in self.event_types:
            self._trigger_event(event.kind.value, dict(event.attributes))
            self.async_write_ha_state()

    @callback
    @override
    def async_refresh(self) -> None:
        """Nothing is read: what happens is told."""


class MemberEvents(HouseEvents):
    """What happened to a member or device, also to its quota."""

    def __init__(self, household: Household, place: Place) -> None:
        """Watch the quota of the node, from where it was before a restart."""
        topics = (place.owner_id,)
        super().__init__(household, place, "member", MEMBER_EVENTS, topics)
        self._watch = household.quota_watch(place.owner_id)

    @override
    async def async_added_to_hass(self) -> None:
        """Begin to listen, and tell what happened while Home Assistant was away."""
        await super().async_added_to_hass()
        self.async_refresh()

    @callback
    @override
    def async_refresh(self) -> None:
        """Tell what has happened to the quota since the last look."""
        try:
            window = self._household.node_status(self._node_id).window
        except LookupError:
            return  # just removed from the household; this entity follows
        for event in self._watch.look(window):
            self.async_tell(event)


class Finished(HouseEvents):
    """Every answer that a member or device got: of interest to few, so off at first."""

    _attr_entity_category = EntityCategory.DIAGNOSTIC
    _attr_entity_registry_enabled_default = False

    def __init__(self, household: Household, place: Place) -> None:
        """Tell of answers to the node."""
        super().__init__(household, place, "answers", (EventKind.FINISHED,))
