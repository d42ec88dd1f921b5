"""Entities that stand each for one subentry: added, changed and gone with it."""

from abc import abstractmethod
from collections.abc import Callable, Mapping

from homeassistant.config_entries import ConfigSubentry
from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers.entity import Entity
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .entity import async_household_device, async_update_device, subentry_device_info
from .household.runtime import FairShareConfigEntry


class SubentryEntity(Entity):
    """The entity of one subentry, named like it, with a device of its own."""

    _attr_has_entity_name = True
    _attr_name = None

    def __init__(
        self, entry: FairShareConfigEntry, subentry: ConfigSubentry, via_device_id: str
    ) -> None:
        """Belong to a subentry; ``via_device_id`` is the household's device."""
        self._household = entry.runtime_data
        self._attr_unique_id = subentry.subentry_id
        self._attr_device_info = subentry_device_info(
            entry, subentry.subentry_id, via_device_id
        )

    @callback
    @abstractmethod
    def async_apply(self, subentry: ConfigSubentry) -> None:
        """Take over a change of the subentry; what runs is not disturbed."""


type Make = Callable[[FairShareConfigEntry, ConfigSubentry, str], SubentryEntity]
"""Makes the entity of a subentry, with the id of the household's device."""


@callback
def async_add_subentry_entities(
    hass: HomeAssistant,
    entry: FairShareConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
    makers: Mapping[str, Make],
) -> None:
    """Add an entity for each subentry of these types, now and whenever one is added."""
    known: dict[str, SubentryEntity] = {}
    household_device = async_household_device(hass, entry)

    @callback
    def async_follow() -> None:
        for subentry_id in known.keys() - entry.subentries.keys():
            # Home Assistant itself takes the entity of a removed subentry away.
            del known[subentry_id]
        for subentry_id, subentry in entry.subentries.items():
            if (make := makers.get(subentry.subentry_type)) is None:
                continue
            if entity := known.get(subentry_id):
                entity.async_apply(subentry)
                async_update_device(hass, entry, subentry_id)
                continue
            known[subentry_id] = make(entry, subentry, household_device.id)
            async_add_entities([known[subentry_id]], config_subentry_id=subentry_id)

    async def async_changed(_: HomeAssistant, __: FairShareConfigEntry) -> None:
        async_follow()

    async_follow()
    entry.async_on_unload(entry.add_update_listener(async_changed))
