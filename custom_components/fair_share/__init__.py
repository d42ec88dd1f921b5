"""Fair Share: one fair queue in front of a household's own language model."""

from homeassistant.config_entries import ConfigEntry
from homeassistant.const import Platform
from homeassistant.core import HomeAssistant
from homeassistant.helpers import config_validation as cv
from homeassistant.helpers.typing import ConfigType

from .const import DOMAIN
from .frontend import async_setup_frontend
from .gateway.views import async_setup_gateway
from .household.activity_log import async_remove_log
from .household.client_use import ClientUse
from .household.issues import IssueWatch, async_forget_issues
from .household.ledger import Ledger
from .household.runtime import FairShareConfigEntry, Household
from .services import async_setup_services

PLATFORMS = [
    Platform.AI_TASK,
    Platform.BINARY_SENSOR,
    Platform.BUTTON,
    Platform.CONVERSATION,
    Platform.EVENT,
    Platform.NUMBER,
    Platform.SELECT,
    Platform.SENSOR,
    Platform.SWITCH,
]
CONFIG_SCHEMA = cv.config_entry_only_config_schema(DOMAIN)


async def async_setup(hass: HomeAssistant, _config: ConfigType) -> bool:
    """Set up what is there without a household: actions, gateway and dashboard."""
    async_setup_services(hass)
    await async_setup_gateway(hass)
    await async_setup_frontend(hass)
    return True


async def async_setup_entry(hass: HomeAssistant, entry: FairShareConfigEntry) -> bool:
    """Set up the household; it exists also while its servers are away."""
    household = Household(hass, entry)
    # Undone in reverse, also when something here fails: the platforms are gone and
    # changes no longer arrive by then.
    entry.async_on_unload(household.async_unload)
    await household.async_setup()
    entry.runtime_data = household
    entry.async_on_unload(entry.add_update_listener(_async_apply_changes))
    await hass.config_entries.async_forward_entry_setups(entry, PLATFORMS)
    entry.async_on_unload(IssueWatch(hass, household).async_start())
    return True


async def async_unload_entry(hass: HomeAssistant, entry: FairShareConfigEntry) -> bool:
    """Take the entities away; what was registered on unload follows by itself."""
    return await hass.config_entries.async_unload_platforms(entry, PLATFORMS)


async def async_remove_entry(hass: HomeAssistant, entry: ConfigEntry) -> None:
    """Forget the accounts of a household that was deleted, and what it did."""
    async_forget_issues(hass)
    await Ledger(hass, entry.entry_id).async_remove()
    await ClientUse(hass, entry.entry_id).async_remove()
    await async_remove_log(hass)


async def _async_apply_changes(
    _hass: HomeAssistant, entry: FairShareConfigEntry
) -> None:
    """Apply changed options and subentries to the running household."""
    await entry.runtime_data.async_apply()
