"""Rules of the household, and of a member's or device's share, that are a number."""

from collections.abc import Iterable
from typing import override

from homeassistant.components.number import NumberEntity, NumberMode
from homeassistant.const import EntityCategory, UnitOfRatio
from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .admission.model import ROOT_ID, NodeSpec
from .const import (
    CONF_BACKGROUND_SHARE,
    CONF_QUOTA_TOKENS,
    CONF_WEIGHT,
    MAX_BACKGROUND_SHARE,
)
from .entity import FairShareEntity, Place, RuleEntity, async_add_to_places
from .flows.schemas import MAX_WEIGHT, MIN_WEIGHT
from .household.changes import async_change_share, has_rules
from .household.permission import async_need_admin
from .household.runtime import FairShareConfigEntry, Household
from .household.settings import percent

PARALLEL_UPDATES = 0

_MAX_QUOTA_TOKENS = 1_000_000_000


async def async_setup_entry(
    hass: HomeAssistant,
    entry: FairShareConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Add the part of all service that is kept for background work, and the shares."""
    household = entry.runtime_data

    def numbers(place: Place) -> Iterable[NumberEntity]:
        if not place.is_server and has_rules(household, place.owner_id):
            yield WeightNumber(household, place, CONF_WEIGHT)
            yield QuotaNumber(household, place, CONF_QUOTA_TOKENS)

    async_add_entities([BackgroundShareNumber(entry)])
    async_add_to_places(hass, entry, async_add_entities, numbers)


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
        await self.async_change(CONF_BACKGROUND_SHARE, value)


class ShareNumber(FairShareEntity, NumberEntity):
    """A number of a member's or device's share, the same as in its dialog.

    What the queue follows is shown, and a change holds at once and after a restart.
    """

    _attr_entity_category = EntityCategory.CONFIG
    _attr_mode = NumberMode.BOX

    def __init__(self, household: Household, place: Place, key: str) -> None:
        """Show what is stored under ``key``."""
        topics = (place.owner_id, ROOT_ID)
        super().__init__(household, place.device_info, topics)
        self._node_id = place.owner_id
        self._key = key
        self._attr_translation_key = key
        self._attr_unique_id = f"{place.unique_prefix}_{key}"

    def read(self, spec: NodeSpec) -> float:
        """Return the number."""
        raise NotImplementedError

    @override
    async def async_added_to_hass(self) -> None:
        """Begin to listen, with something to show already."""
        await super().async_added_to_hass()
        spec = self._household.registry.spec(self._node_id)
        self._attr_native_value = self.read(spec)

    @override
    async def async_set_native_value(self, value: float) -> None:
        """Change it from now on.

        Raises ``Unauthorized`` for users that are no administrators.
        """
        await async_need_admin(self.hass, self._context)
        async_change_share(
            self._household, self._node_id, {self._key: self.stored(value)}
        )
        self.async_refresh()

    def stored(self, value: float) -> float | None:
        """Return what is stored for a number, ``None`` for nothing."""
        return value

    @callback
    @override
    def async_refresh(self) -> None:
        """Look again, and write it if it is different."""
        try:
            value = self.read(self._household.registry.spec(self._node_id))
        except LookupError:
            return  # just removed from the household; this entity follows
        if value != self._attr_native_value:
            self._attr_native_value = value
            self.async_write_ha_state()


class WeightNumber(ShareNumber):
    """How large a share is beside the others."""

    _attr_native_min_value = MIN_WEIGHT
    _attr_native_max_value = MAX_WEIGHT
    _attr_native_step = 0.1

    @override
    def read(self, spec: NodeSpec) -> float:
        """Return the weight."""
        return spec.weight


class QuotaNumber(ShareNumber):
    """How many tokens there are in a period; 0 for no quota."""

    _attr_native_min_value = 0.0
    _attr_native_max_value = _MAX_QUOTA_TOKENS
    _attr_native_step = 1.0

    @override
    def read(self, spec: NodeSpec) -> float:
        """Return the quota."""
        return 0.0 if spec.quota is None else float(spec.quota.tokens)

    @override
    def stored(self, value: float) -> float | None:
        """Return the quota; its period and what happens at its end stay."""
        return int(value) or None
