"""What all entities share: their devices, and how they hear of changes."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import override

from homeassistant.const import CONF_MODEL, CONF_URL, EntityCategory
from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers import device_registry as dr
from homeassistant.helpers.device_registry import DeviceEntryType, DeviceInfo
from homeassistant.helpers.entity import Entity
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .admission.model import ROOT_ID, Workload
from .const import DOMAIN, SUBENTRY_SERVER
from .household.permission import async_need_admin
from .household.registry import BUILT_IN_IDS, device_identifier
from .household.runtime import FairShareConfigEntry, Household


@callback
def async_household_device(
    hass: HomeAssistant, entry: FairShareConfigEntry
) -> dr.DeviceEntry:
    """Return the device of the household, which all others are reached through."""
    return dr.async_get(hass).async_get_or_create(
        config_entry_id=entry.entry_id,
        identifiers={(DOMAIN, entry.entry_id)},
        entry_type=DeviceEntryType.SERVICE,
        translation_key="household",
        manufacturer="Fair Share",
    )


def household_device_info(entry: FairShareConfigEntry) -> DeviceInfo:
    """Name the device of the household."""
    return DeviceInfo(identifiers={(DOMAIN, entry.entry_id)})


def built_in_device_info(
    entry: FairShareConfigEntry, member_id: str, via_device_id: str
) -> DeviceInfo:
    """Describe the device of a built-in member, which the household cannot rename."""
    return DeviceInfo(
        identifiers={(DOMAIN, device_identifier(entry.entry_id, member_id))},
        entry_type=DeviceEntryType.SERVICE,
        translation_key=member_id,
        via_device_id=via_device_id,
    )


def subentry_device_info(
    entry: FairShareConfigEntry, subentry_id: str, via_device_id: str
) -> DeviceInfo:
    """Describe the device of a subentry; a server's leads to the server itself."""
    subentry = entry.subentries[subentry_id]
    return DeviceInfo(
        identifiers={(DOMAIN, subentry_id)},
        entry_type=DeviceEntryType.SERVICE,
        name=subentry.title,
        model=subentry.data.get(CONF_MODEL),
        configuration_url=subentry.data.get(CONF_URL),
        via_device_id=via_device_id,
    )


def workload_device_info(
    entry: FairShareConfigEntry, workload: Workload, via_device_id: str
) -> DeviceInfo:
    """Describe the device of a kind of requests."""
    return DeviceInfo(
        identifiers={(DOMAIN, f"{entry.entry_id}_workload_{workload}")},
        entry_type=DeviceEntryType.SERVICE,
        translation_key=f"workload_{workload}",
        via_device_id=via_device_id,
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where entities go: the device of a member, a device of theirs, or a server.

    ``owner_id`` is the node of the share tree or the server, ``unique_prefix`` stands
    before the unique ids of all its entities.
    """

    owner_id: str
    unique_prefix: str
    device_info: DeviceInfo
    is_server: bool = False


@callback
def async_add_to_places(
    hass: HomeAssistant,
    entry: FairShareConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
    make: Callable[[Place], Iterable[Entity]],
) -> None:
    """Add what ``make`` returns to every place, now and as places come."""
    via_device_id = async_household_device(hass, entry).id
    for member_id in BUILT_IN_IDS:
        prefix = device_identifier(entry.entry_id, member_id)
        info = built_in_device_info(entry, member_id, via_device_id)
        async_add_entities(make(Place(member_id, prefix, info)))
    follower = _Follower(hass, entry, async_add_entities, make, via_device_id)
    follower.async_follow()
    updates = entry.runtime_data.updates
    entry.async_on_unload(updates.async_listen((ROOT_ID,), follower.async_follow))


class _Follower:
    """Keeps the entities of a platform in step with the subentries of a household."""

    def __init__(
        self,
        hass: HomeAssistant,
        entry: FairShareConfigEntry,
        async_add_entities: AddConfigEntryEntitiesCallback,
        make: Callable[[Place], Iterable[Entity]],
        via_device_id: str,
    ) -> None:
        self._hass = hass
        self._entry = entry
        self._household = entry.runtime_data
        self._async_add_entities = async_add_entities
        self._make = make
        self._via_device_id = via_device_id
        self._titles: dict[str, str] = {}

    @callback
    def async_follow(self) -> None:
        """Add entities of new subentries and update the devices of renamed ones.

        Home Assistant itself takes away those of removed ones.
        """
        titles = dict(self._subentry_titles())
        for subentry_id, title in titles.items():
            if subentry_id not in self._titles:
                entities = self._make(self._place(subentry_id))
                self._async_add_entities(entities, config_subentry_id=subentry_id)
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
        for client in registry.clients.values():
            yield client.client_id, client.name
        for view in self._household.servers.statuses():
            yield view.server_id, view.title

    def _place(self, subentry_id: str) -> Place:
        info = subentry_device_info(self._entry, subentry_id, self._via_device_id)
        subentry_type = self._entry.subentries[subentry_id].subentry_type
        is_server = subentry_type == SUBENTRY_SERVER
        return Place(subentry_id, subentry_id, info, is_server)


@callback
def async_update_device(
    hass: HomeAssistant, entry: FairShareConfigEntry, subentry_id: str
) -> None:
    """Let the device of a subentry show what the subentry says now."""
    registry = dr.async_get(hass)
    device = registry.async_get_device_by_identifier(
        (DOMAIN, subentry_id), entry.entry_id
    )
    if device is not None:
        subentry = entry.subentries[subentry_id]
        registry.async_update_device(
            device.id,
            name=subentry.title,
            model=subentry.data.get(CONF_MODEL),
            configuration_url=subentry.data.get(CONF_URL),
        )


class FairShareEntity(Entity):
    """An entity that is told when what it shows may have changed.

    ``topics`` are those of the household's update hub.
    """

    _attr_has_entity_name = True
    _attr_should_poll = False

    def __init__(
        self, household: Household, device_info: DeviceInfo, topics: tuple[str, ...]
    ) -> None:
        """Belong to a device of a household."""
        self._household = household
        self._topics = topics
        self._attr_device_info = device_info

    async def async_added_to_hass(self) -> None:
        """Begin to listen."""
        await super().async_added_to_hass()
        updates = self._household.updates
        self.async_on_remove(updates.async_listen(self._topics, self.async_refresh))

    @abstractmethod
    @callback
    def async_refresh(self) -> None:
        """Read what is shown again, and write it if it is different."""


class RuleEntity(FairShareEntity):
    """One of the household's rules, which can be changed here and in the dialog.

    It is kept in the options: it holds from now on, and after a restart. ``rules`` are
    those the queue followed when this was last shown.
    """

    _attr_entity_category = EntityCategory.CONFIG

    def __init__(self, entry: FairShareConfigEntry, key: str) -> None:
        """Show the rule that the translations know as ``key``."""
        super().__init__(entry.runtime_data, household_device_info(entry), (ROOT_ID,))
        self._attr_translation_key = key
        self._attr_unique_id = f"{entry.entry_id}_{key}"
        self.rules = self._household.settings

    async def async_change(self, option: str, value: str | float) -> None:
        """Change an option of the household; its queue follows at once.

        Raises ``Unauthorized`` for users that are no administrators.
        """
        await async_need_admin(self.hass, self._context)
        entry = self._household.entry
        self.hass.config_entries.async_update_entry(
            entry, options={**entry.options, option: value}
        )
        self.async_refresh()

    @callback
    @override
    def async_refresh(self) -> None:
        """Show the rule again if the household has other rules now."""
        if self._household.settings != self.rules:
            self.rules = self._household.settings
            self.async_write_ha_state()
