"""What Home Assistant's page on system information says of the household."""

from homeassistant.components.system_health import SystemHealthRegistration
from homeassistant.core import HomeAssistant, callback
from homeassistant.loader import async_get_integration

from .const import DOMAIN
from .household.runtime import FairShareConfigEntry
from .household.servers import ServerState


@callback
def async_register(_hass: HomeAssistant, register: SystemHealthRegistration) -> None:
    """Offer the information."""
    register.async_register_info(
        async_info, f"/config/integrations/integration/{DOMAIN}"
    )


async def async_info(hass: HomeAssistant) -> dict[str, object]:
    """Return the version, and how the household is, if there is one."""
    integration = await async_get_integration(hass, DOMAIN)
    info: dict[str, object] = {"version": str(integration.version)}
    entries: list[FairShareConfigEntry] = hass.config_entries.async_loaded_entries(
        DOMAIN
    )
    for entry in entries:
        household = entry.runtime_data
        views = household.servers.statuses()
        ready = sum(view.state is ServerState.READY for view in views)
        kinds = {view.capabilities.kind.value for view in views if view.capabilities}
        status = household.status()
        info |= {
            "servers": f"{ready}/{len(views)}",
            "engines": ", ".join(sorted(kinds)),
            "waiting": status.waiting,
            "running": status.running,
            "policy": household.settings.policy,
        }
    return info
