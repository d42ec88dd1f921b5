"""Add or change a client: a program that asks through the gateway with its own key."""

from typing import Any

from homeassistant.config_entries import (
    ConfigEntryState,
    ConfigSubentryFlow,
    SubentryFlowResult,
)
from homeassistant.const import CONF_NAME
from homeassistant.core import HomeAssistant
from homeassistant.helpers.network import NoURLAvailableError, get_url
from homeassistant.helpers.selector import (
    BooleanSelector,
    TextSelector,
    TextSelectorConfig,
    TextSelectorType,
)
import voluptuous as vol

from ..admission.model import Workload
from ..const import (
    CONF_FROM_OUTSIDE,
    CONF_KEY_HASH,
    CONF_KEY_HINT,
    CONF_MEMBER,
    CONF_REQUESTS_PER_MINUTE,
    CONF_WORKLOAD,
    GATEWAY_PATH,
    SHARED_ID,
    SUBENTRY_DEVICE,
    SUBENTRY_MEMBER,
)
from ..household.client_keys import NewKey, new_key
from .quota import quota_errors
from .schemas import Fields, choice, flatten, nest, whole_number
from .share import SECTION_QUOTA, owner_choice, share_fields

_KEY = "key"
_ADDRESS = "address"
_NO_URL = "http://homeassistant.local:8123"


class ClientFlow(ConfigSubentryFlow):
    """Add or change a client; its key is shown once."""

    _new: NewKey
    _data: dict[str, Any]
    _title = ""

    async def async_step_user(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Ask what it is called and whose share it uses."""
        if self._get_entry().state is not ConfigEntryState.LOADED:
            return self.async_abort(reason="entry_not_loaded")
        errors: dict[str, str] = {}
        if user_input is not None:
            self._data = flatten(user_input)
            self._title = self._data.pop(CONF_NAME).strip()
            errors = quota_errors(self._data, SECTION_QUOTA)
            if not self._title:
                errors[CONF_NAME] = "name_missing"
            if not errors:
                self._new = new_key()
                return await self.async_step_show_key()
        schema = vol.Schema(
            {vol.Required(CONF_NAME): TextSelector()} | self._fields(),
        )
        return self.async_show_form(
            step_id="user",
            data_schema=self.add_suggested_values_to_schema(schema, user_input),
            errors=errors,
        )

    async def async_step_show_key(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Show the new key and the address, then add the client."""
        if user_input is None:
            return self._show_key("show_key")
        return self.async_create_entry(
            title=self._title, data={**self._data, **_kept_of(self._new)}
        )

    async def async_step_reconfigure(
        self, _user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Choose between changing the client and making it a new key."""
        client = self._get_reconfigure_subentry()
        return self.async_show_menu(
            step_id="reconfigure",
            menu_options=["settings", "new_key"],
            description_placeholders={
                "client": client.title,
                "hint": client.data.get(CONF_KEY_HINT, ""),
            },
        )

    async def async_step_settings(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Change whose share it uses, its limits and where it may come from."""
        household, client = self._get_entry(), self._get_reconfigure_subentry()
        errors: dict[str, str] = {}
        if user_input is not None:
            data = flatten(user_input)
            errors = quota_errors(data, SECTION_QUOTA)
            if not errors:
                kept = {key: client.data[key] for key in (CONF_KEY_HASH, CONF_KEY_HINT)}
                return self.async_update_and_abort(
                    household, client, data={**data, **kept}
                )
        data = dict(client.data)
        if data[CONF_MEMBER] not in household.subentries:
            data[CONF_MEMBER] = SHARED_ID
        schema = vol.Schema(self._fields())
        return self.async_show_form(
            step_id="settings",
            data_schema=self.add_suggested_values_to_schema(
                schema, user_input or nest(schema, data)
            ),
            errors=errors,
            description_placeholders={"client": client.title},
        )

    async def async_step_new_key(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Make a new key, show it, and let the old one be refused from then on."""
        client = self._get_reconfigure_subentry()
        if user_input is None:
            self._new = new_key()
            return self._show_key("new_key")
        return self.async_update_and_abort(
            self._get_entry(), client, data={**client.data, **_kept_of(self._new)}
        )

    def _show_key(self, step_id: str) -> SubentryFlowResult:
        # Fields with the texts in them: they can be copied on any device.
        shown = {
            _ADDRESS: _address(self.hass),
            _KEY: self._new.key,
        }
        text = TextSelector(TextSelectorConfig(type=TextSelectorType.TEXT))
        schema = vol.Schema({vol.Optional(name): text for name in shown})
        return self.async_show_form(
            step_id=step_id,
            data_schema=self.add_suggested_values_to_schema(schema, shown),
        )

    def _fields(self) -> Fields:
        return {
            vol.Required(CONF_MEMBER, default=SHARED_ID): owner_choice(
                self._get_entry(), SUBENTRY_MEMBER, SUBENTRY_DEVICE
            ),
            vol.Required(CONF_WORKLOAD, default=Workload.CHAT.value): choice(
                Workload, CONF_WORKLOAD
            ),
            vol.Optional(CONF_REQUESTS_PER_MINUTE): whole_number(1),
            vol.Required(CONF_FROM_OUTSIDE, default=False): BooleanSelector(),
            **share_fields(),
        }


def _kept_of(new: NewKey) -> dict[str, str]:
    return {CONF_KEY_HASH: new.key_hash, CONF_KEY_HINT: new.hint}


def _address(hass: HomeAssistant) -> str:
    """Return where programs find the gateway."""
    try:
        base = get_url(hass, allow_cloud=False, prefer_external=False)
    except NoURLAvailableError:
        base = _NO_URL
    return f"{base}{GATEWAY_PATH}"
