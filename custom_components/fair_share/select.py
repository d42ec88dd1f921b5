"""The policy of the household, to choose while everything goes on."""

from typing import override

from homeassistant.components.select import SelectEntity
from homeassistant.core import HomeAssistant
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .admission.policies import OFFERED
from .const import CONF_POLICY
from .entity import RuleEntity
from .household.runtime import FairShareConfigEntry

PARALLEL_UPDATES = 0


async def async_setup_entry(
    _hass: HomeAssistant,
    entry: FairShareConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Add the choice of the policy."""
    async_add_entities([PolicySelect(entry)])


class PolicySelect(RuleEntity, SelectEntity):
    """What is shared out evenly; what waits and runs is kept when it changes."""

    def __init__(self, entry: FairShareConfigEntry) -> None:
        """Show the household's policy."""
        super().__init__(entry, "policy")
        self._attr_options = list(OFFERED)

    @property
    @override
    def current_option(self) -> str:
        """The policy that the queue follows."""
        return self.rules.policy

    @override
    async def async_select_option(self, option: str) -> None:
        """Follow another policy from now on."""
        await self.async_change(CONF_POLICY, option)
