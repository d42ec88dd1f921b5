"""Add or change a device: a satellite, tablet or phone and whose share it uses."""

from typing import Any

from homeassistant.config_entries import (
    ConfigEntry,
    ConfigEntryState,
    ConfigSubentryFlow,
    SubentryFlowResult,
)
from homeassistant.const import CONF_DEVICE_ID
from homeassistant.core import HomeAssistant
from homeassistant.helpers import (
    area_registry as ar,
    device_registry as dr,
    entity_registry as er,
)
from homeassistant.helpers.selector import (
    SelectOptionDict,
    SelectSelector,
    SelectSelectorConfig,
    SelectSelectorMode,
)
import voluptuous as vol

from ..admission.model import Workload
from ..const import (
    CONF_MEMBER,
    CONF_WORKLOAD,
    SHARED_ID,
    SUBENTRY_DEVICE,
    SUBENTRY_MEMBER,
)
from .quota import quota_errors
from .schemas import Fields, choice, flatten, nest
from .share import SECTION_QUOTA, owner_choice, share_fields

_SATELLITE_DOMAIN = "assist_satellite"


class DeviceFlow(ConfigSubentryFlow):
    """Add or change a device."""

    async def async_step_user(
        self, _user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Choose between voice satellites and other devices."""
        if self._get_entry().state is not ConfigEntryState.LOADED:
            return self.async_abort(reason="entry_not_loaded")
        return self.async_show_menu(
            step_id="user", menu_options=["satellite", "other_device"]
        )

    async def async_step_satellite(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Add a voice satellite."""
        devices = _devices(self.hass, self._get_entry(), satellites=True)
        if user_input is None and not devices:
            return self.async_abort(reason="no_satellite")
        return self._add("satellite", devices, Workload.VOICE, user_input)

    async def async_step_other_device(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Add a device that is no voice satellite."""
        devices = _devices(self.hass, self._get_entry(), satellites=False)
        if user_input is None and not devices:
            return self.async_abort(reason="no_other_device")
        return self._add("other_device", devices, Workload.CHAT, user_input)

    async def async_step_reconfigure(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Change the share of a device."""
        household, device = self._get_entry(), self._get_reconfigure_subentry()
        errors: dict[str, str] = {}
        if user_input is not None:
            share = flatten(user_input)
            errors = quota_errors(share, SECTION_QUOTA)
            if not errors:
                return self.async_update_and_abort(
                    household,
                    device,
                    data={CONF_DEVICE_ID: device.data[CONF_DEVICE_ID], **share},
                )
        data = dict(device.data)
        if data[CONF_MEMBER] not in household.subentries:
            data[CONF_MEMBER] = SHARED_ID
        schema = vol.Schema(self._fields(Workload.VOICE))
        return self.async_show_form(
            step_id="reconfigure",
            data_schema=self.add_suggested_values_to_schema(
                schema, user_input or nest(schema, data)
            ),
            errors=errors,
            description_placeholders={"device": device.title},
        )

    def _add(
        self,
        step_id: str,
        devices: list[SelectOptionDict],
        workload: Workload,
        user_input: dict[str, Any] | None,
    ) -> SubentryFlowResult:
        errors: dict[str, str] = {}
        if user_input is not None:
            data = flatten(user_input)
            device_id = data[CONF_DEVICE_ID]
            if device_id in _known(self._get_entry()):
                return self.async_abort(reason="already_configured")
            device = dr.async_get(self.hass).async_get(device_id)
            errors = quota_errors(data, SECTION_QUOTA)
            if device is None:
                errors[CONF_DEVICE_ID] = "device_not_found"
            elif not errors:
                return self.async_create_entry(
                    title=device_name(device),
                    data=data,
                    unique_id=device_id_for(device_id),
                )
        selector = SelectSelector(
            SelectSelectorConfig(options=devices, mode=SelectSelectorMode.DROPDOWN)
        )
        schema = vol.Schema(
            {vol.Required(CONF_DEVICE_ID): selector} | self._fields(workload)
        )
        return self.async_show_form(
            step_id=step_id,
            data_schema=self.add_suggested_values_to_schema(schema, user_input),
            errors=errors,
        )

    def _fields(self, workload: Workload) -> Fields:
        return {
            vol.Required(CONF_MEMBER, default=SHARED_ID): owner_choice(
                self._get_entry(), SUBENTRY_MEMBER
            ),
            vol.Required(CONF_WORKLOAD, default=workload.value): choice(
                Workload, CONF_WORKLOAD
            ),
            **share_fields(),
        }


def _known(household: ConfigEntry) -> set[str]:
    """Return the ids of the devices that were added already."""
    return {
        device.data[CONF_DEVICE_ID]
        for device in household.get_subentries_of_type(SUBENTRY_DEVICE)
    }


def device_id_for(device_id: str) -> str:
    """Return the unique id of what a household says about a device."""
    return f"device:{device_id}"


def devices_to_add(
    hass: HomeAssistant, household: ConfigEntry
) -> list[SelectOptionDict]:
    """Return all devices that can be added, satellites first."""
    return [
        option
        for satellites in (True, False)
        for option in _devices(hass, household, satellites=satellites)
    ]


def _devices(
    hass: HomeAssistant, household: ConfigEntry, *, satellites: bool
) -> list[SelectOptionDict]:
    """Return the devices that can be added: satellites, or all that are none.

    Services, and so all that the household has itself, are none that ask.
    """
    speaking = {
        entity.device_id
        for entity in er.async_get(hass).entities.values()
        if entity.domain == _SATELLITE_DOMAIN
    }
    known = _known(household)
    options = [
        SelectOptionDict(value=device.id, label=_label(hass, device))
        for device in dr.async_get(hass).devices
        if (device.id in speaking) is satellites
        and device.id not in known
        and device.entry_type is None
        and device.disabled_by is None
    ]
    return sorted(options, key=lambda option: option["label"].casefold())


def _label(hass: HomeAssistant, device: dr.DeviceEntry) -> str:
    """Return what tells a device from others of the same name."""
    area = device.area_id and ar.async_get(hass).async_get_area(device.area_id)
    entry = hass.config_entries.async_get_entry(device.config_entry_id)
    details = [area.name if area else None, entry.domain if entry else None]
    return f"{device_name(device)} ({', '.join(filter(None, details))})"


def device_name(device: dr.BaseDeviceEntry) -> str:
    """Return what people call a device."""
    return device.name_by_user or device.name or device.id
