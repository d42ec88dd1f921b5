"""The dashboard that comes with the integration, for Home Assistant's frontend.

``dashboard/fair-share.js`` makes it in the browser; here it is served, and told which
device is what.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from homeassistant.components import websocket_api
from homeassistant.components.frontend import add_extra_js_url
from homeassistant.components.http.server import StaticPathConfig
from homeassistant.components.websocket_api.connection import ActiveConnection
from homeassistant.components.websocket_api.decorators import websocket_command
from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers import device_registry as dr
from homeassistant.helpers.device_registry import DeviceInfo
from homeassistant.loader import async_get_integration
import voluptuous as vol

from .admission.model import Workload
from .const import DOMAIN, SUBENTRY_MEMBER
from .entity import (
    built_in_device_info,
    household_device_info,
    workload_device_info,
)
from .household.registry import BUILT_IN_IDS

_SCRIPT = Path(__file__).parent / "dashboard" / "fair-share.js"


async def async_setup_frontend(hass: HomeAssistant) -> None:
    """Let every browser load the script, where there is a frontend."""
    if "frontend" not in hass.config.components:
        return
    websocket_api.async_register_command(hass, _async_tell_devices)
    integration = await async_get_integration(hass, DOMAIN)
    # Browsers keep the file of one address for a month: a new version has a new one.
    url = f"/{DOMAIN}/{integration.version}/{_SCRIPT.name}"
    await hass.http.async_register_static_paths([StaticPathConfig(url, str(_SCRIPT))])
    add_extra_js_url(hass, url)


@websocket_command({vol.Required("type"): f"{DOMAIN}/devices"})
@callback
def _async_tell_devices(
    hass: HomeAssistant,
    connection: ActiveConnection,
    message: dict[str, Any],
) -> None:
    """Answer with the ids of the household's devices, by kind, in the order to show.

    The script can't tell a member from a satellite by anything in the registries.
    """
    registry = dr.async_get(hass)
    found: dict[str, list[str]] = {}
    for entry in hass.config_entries.async_entries(DOMAIN):
        for kind, info in _devices(entry):
            (identifier,) = info["identifiers"]
            device = registry.async_get_device_by_identifier(identifier, entry.entry_id)
            if device is not None:
                found.setdefault(kind, []).append(device.id)
    connection.send_result(message["id"], found)


def _devices(entry: ConfigEntry) -> Iterator[tuple[str, DeviceInfo]]:
    yield "household", household_device_info(entry)
    for subentry in entry.subentries.values():
        identifiers = {(DOMAIN, subentry.subentry_id)}
        yield subentry.subentry_type, DeviceInfo(identifiers=identifiers)
    for member_id in BUILT_IN_IDS:
        yield SUBENTRY_MEMBER, built_in_device_info(entry, member_id, "")
    for workload in Workload:
        yield "workload", workload_device_info(entry, workload, "")
