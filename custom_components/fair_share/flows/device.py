"""Add or change a device: a satellite, tablet or phone and whose share it uses."""

from typing import Any

from homeassistant.config_entries import (
    ConfigEntryState,
    ConfigSubentryFlow,
    SubentryFlowResult,
)
from homeassistant.const import CONF_DEVICE_ID
from homeassistant.helpers import device_registry as dr
from homeassistant.helpers.selector import (
    DeviceSelector,
    DeviceSelectorConfig,
    EntityFilterSelectorConfig,
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
from .schemas import Fields, choice, flatten, nest, share_fields

_SATELLITE = EntityFilterSelectorConfig(domain="assist_satellite")


class DeviceFlow(ConfigSubentryFlow):
    """Add or change a device."""

    async def async_step_user(
        self, _user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Choose between voice satellites and all devices."""
        if self._get_entry().state is not ConfigEntryState.LOADED:
            return self.async_abort(reason="entry_not_loaded")
        return self.async_show_menu(
            step_id="user", menu_options=["satellite", "other_device"]
        )

    async def async_step_satellite(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Add a voice satellite."""
        selector = DeviceSelector(DeviceSelectorConfig(entity=[_SATELLITE]))
        return self._add("satellite", selector, user_input)

    async def async_step_other_device(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Add any device."""
        return self._add("other_device", DeviceSelector(), user_input)

    async def async_step_reconfigure(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Change the share of a device."""
        household, device = self._get_entry(), self._get_reconfigure_subentry()
        if user_input is not None:
            return self.async_update_and_abort(
                household,
                device,
                data={
                    CONF_DEVICE_ID: device.data[CONF_DEVICE_ID],
                    **flatten(user_input),
                },
            )
        data = dict(device.data)
        if data[CONF_MEMBER] not in household.subentries:
            data[CONF_MEMBER] = SHARED_ID
        schema = vol.Schema(self._fields())
        return self.async_show_form(
            step_id="reconfigure",
            data_schema=self.add_suggested_values_to_schema(schema, nest(schema, data)),
            description_placeholders={"device": device.title},
        )

    def _add(
        self, step_id: str, selector: DeviceSelector, user_input: dict[str, Any] | None
    ) -> SubentryFlowResult:
        errors: dict[str, str] = {}
        if user_input is not None:
            unique_id = f"device:{user_input[CONF_DEVICE_ID]}"
            known = {
                d.unique_id
                for d in self._get_entry().get_subentries_of_type(SUBENTRY_DEVICE)
            }
            if unique_id in known:
                return self.async_abort(reason="already_configured")
            device = dr.async_get(self.hass).async_get(user_input[CONF_DEVICE_ID])
            if device is not None:
                return self.async_create_entry(
                    title=device.name_by_user or device.name or device.id,
                    data=flatten(user_input),
                    unique_id=unique_id,
                )
            errors[CONF_DEVICE_ID] = "device_not_found"
        schema = vol.Schema({vol.Required(CONF_DEVICE_ID): selector} | self._fields())
        return self.async_show_form(
            step_id=step_id,
            data_schema=self.add_suggested_values_to_schema(schema, user_input),
            errors=errors,
        )

    def _fields(self) -> Fields:
        members = [
            SelectOptionDict(value=member.subentry_id, label=member.title)
            for member in self._get_entry().get_subentries_of_type(SUBENTRY_MEMBER)
        ]
        shared = SelectOptionDict(value=SHARED_ID, label=SHARED_ID)
        return {
            vol.Required(CONF_MEMBER, default=SHARED_ID): SelectSelector(
                SelectSelectorConfig(
                    options=[*members, shared],
                    translation_key=CONF_MEMBER,
                    mode=SelectSelectorMode.DROPDOWN,
                )
            ),
            vol.Required(CONF_WORKLOAD, default=Workload.VOICE.value): choice(
                Workload, CONF_WORKLOAD
            ),
            **share_fields(),
        }
