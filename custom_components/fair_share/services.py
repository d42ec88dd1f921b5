"""The actions of the integration."""

from collections.abc import Callable
from typing import cast

from homeassistant.const import ATTR_CONFIG_ENTRY_ID
from homeassistant.core import (
    HomeAssistant,
    ServiceCall,
    ServiceResponse,
    SupportsResponse,
    callback,
)
from homeassistant.helpers.service import (
    async_get_config_entry,
    async_register_admin_service,
)
from homeassistant.util.json import JsonObjectType
import voluptuous as vol

from .const import DOMAIN
from .household.report import queue_report, usage_report
from .household.runtime import FairShareConfigEntry, Household

_REPORTS: dict[str, Callable[[Household], JsonObjectType]] = {
    "get_queue": queue_report,
    "get_usage": usage_report,
}
_SCHEMA = vol.Schema({vol.Optional(ATTR_CONFIG_ENTRY_ID): str})


@callback
def async_setup_services(hass: HomeAssistant) -> None:
    """Register the actions; they need no household until they are called.

    They tell about everybody: of the users only administrators may call them.
    """

    async def report(call: ServiceCall) -> ServiceResponse:
        """Answer with a report. Raises ``ServiceValidationError``: no household."""
        entry = async_get_config_entry(
            hass, DOMAIN, call.data.get(ATTR_CONFIG_ENTRY_ID)
        )
        household = cast("FairShareConfigEntry", entry).runtime_data
        return _REPORTS[call.service](household)

    for name in _REPORTS:
        async_register_admin_service(
            hass, DOMAIN, name, report, _SCHEMA, SupportsResponse.ONLY
        )
