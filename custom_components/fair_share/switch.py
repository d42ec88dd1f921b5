"""A switch that lets background work wait."""

from typing import Any, override

from homeassistant.components.switch import SwitchEntity
from homeassistant.core import HomeAssistant
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .admission.model import Workload
from .entity import RuleEntity
from .household.changes import async_pause, async_resume
from .household.permission import async_need_admin
from .household.runtime import FairShareConfigEntry

PARALLEL_UPDATES = 0


async def async_setup_entry(
    _hass: HomeAssistant,
    entry: FairShareConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Add the switch."""
    async_add_entities([PauseBackgroundSwitch(entry)])


class PauseBackgroundSwitch(RuleEntity, SwitchEntity):
    """While it is on no background work starts; what runs may end."""

    def __init__(self, entry: FairShareConfigEntry) -> None:
        """Show whether background work is paused."""
        super().__init__(entry, "pause_background")

    @property
    @override
    def is_on(self) -> bool:
        """Whether it is paused."""
        return Workload.BACKGROUND in self.rules.paused_workloads

    @override
    async def async_turn_on(self, **_kwargs: Any) -> None:
        """Start no background work from now on."""
        await async_need_admin(self.hass, self._context)
        async_pause(self._household, (), (Workload.BACKGROUND,))
        self.async_refresh()

    @override
    async def async_turn_off(self, **_kwargs: Any) -> None:
        """Let it go on."""
        await async_need_admin(self.hass, self._context)
        async_resume(self._household, (), (Workload.BACKGROUND,))
        self.async_refresh()
