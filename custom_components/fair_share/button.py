"""A button that looks at a server again."""

from collections.abc import Iterable
from typing import override

from homeassistant.components.button import ButtonEntity
from homeassistant.const import EntityCategory
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
    """Add one for every server."""

    def buttons(place: Place) -> Iterable[ButtonEntity]:
        if place.is_server:
            yield ProbeButton(entry.runtime_data, place)

    async_add_to_places(hass, entry, async_add_entities, buttons)


class ProbeButton(FairShareEntity, ButtonEntity):
    """Looks at once whether a server is there, and what it can do."""

    _attr_entity_category = EntityCategory.DIAGNOSTIC
    _attr_translation_key = "probe"

    def __init__(self, household: Household, place: Place) -> None:
        """Look at the server that ``place`` belongs to."""
        super().__init__(household, place.device_info, ())
        self._server_id = place.owner_id
        self._attr_unique_id = f"{place.unique_prefix}_probe"

    @override
    async def async_press(self) -> None:
        """Look now, not only when it is time again."""
        self._household.servers.get(self._server_id).look_again()

    @callback
    @override
    def async_refresh(self) -> None:
        """Nothing is shown."""
