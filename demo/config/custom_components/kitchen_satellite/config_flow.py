"""Adding the satellite asks nothing."""

from typing import Any

from homeassistant.config_entries import ConfigFlow, ConfigFlowResult


class KitchenSatelliteConfigFlow(ConfigFlow, domain="kitchen_satellite"):
    """The flow that adds it."""

    VERSION = 1

    async def async_step_user(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Add it at once."""
        del user_input
        return self.async_create_entry(title="Kitchen satellite", data={})
