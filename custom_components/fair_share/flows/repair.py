"""Repair the way to a server: a new key (reauth) or a new address (reconfigure)."""

from collections.abc import Mapping
from typing import Any, override

from homeassistant.config_entries import (
    SOURCE_REAUTH,
    ConfigEntry,
    ConfigFlow,
    ConfigFlowContext,
    ConfigFlowResult,
    ConfigSubentry,
)
from homeassistant.const import CONF_API_KEY, CONF_URL
from homeassistant.helpers.selector import (
    SelectOptionDict,
    SelectSelector,
    SelectSelectorConfig,
    SelectSelectorMode,
)
from homeassistant.helpers.typing import UNDEFINED, UndefinedType
import voluptuous as vol

from ..const import SUBENTRY_SERVER
from .connect import Connection
from .server_steps import KEY_SCHEMA, ServerSteps

_CONF_SERVER = "server"


class RepairSteps(ServerSteps[ConfigFlowContext, ConfigFlowResult, str], ConfigFlow):
    """The steps of the household's dialog that change a server it already has."""

    _household: ConfigEntry
    _refused: ConfigSubentry

    async def async_step_reauth(
        self, entry_data: Mapping[str, Any]
    ) -> ConfigFlowResult:
        """Start because the server named by ``server_id`` refused its key."""
        self._household = self._get_reauth_entry()
        server = self._household.subentries.get(entry_data.get("server_id", ""))
        if server is None:
            return self.async_abort(reason="server_removed")
        self._refused = server
        return await self.async_step_reauth_confirm()

    async def async_step_reauth_confirm(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Ask for the new key."""
        if user_input is not None:
            connection = Connection.typed(
                self._refused.data[CONF_URL], user_input[CONF_API_KEY]
            )
            return await self._async_connect("reauth_confirm", connection)
        return self.async_show_form(
            step_id="reauth_confirm",
            data_schema=KEY_SCHEMA,
            errors=self._errors(),
            description_placeholders={"server": self._refused.title},
        )

    async def async_step_reconfigure(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Choose the server to change; the only one is chosen at once."""
        self._household = self._get_reconfigure_entry()
        self._servers = list(self._household.get_subentries_of_type(SUBENTRY_SERVER))
        if not self._servers:
            return self.async_abort(reason="no_server")
        if user_input is not None:
            self._server = self._household.subentries.get(user_input[_CONF_SERVER])
            if self._server is None:
                return self.async_abort(reason="server_removed")
            return await self.async_step_address()
        if len(self._servers) == 1:
            self._server = self._servers[0]
            return await self.async_step_address()
        choice = SelectSelector(
            SelectSelectorConfig(
                options=[
                    SelectOptionDict(value=server.subentry_id, label=server.title)
                    for server in self._servers
                ],
                mode=SelectSelectorMode.DROPDOWN,
            )
        )
        return self.async_show_form(
            step_id="reconfigure",
            data_schema=vol.Schema({vol.Required(_CONF_SERVER): choice}),
        )

    async def async_step_address(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Ask for the new address or key of the chosen server."""
        return await self._async_ask_address("address", user_input)

    @override
    async def async_step_connected(
        self, _user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Store a new key that was accepted; show the server in all other dialogs."""
        if self.source != SOURCE_REAUTH:
            return await super().async_step_connected()
        key = self._connection.api_key
        data = {**self._refused.data, CONF_API_KEY: key}
        return self._finish_repair(self._refused, data=data)

    def _finish_repair(
        self,
        server: ConfigSubentry,
        *,
        data: Mapping[str, Any],
        title: str | UndefinedType = UNDEFINED,
        unique_id: str | UndefinedType = UNDEFINED,
    ) -> ConfigFlowResult:
        self.hass.config_entries.async_update_subentry(
            self._household, server, data=data, title=title, unique_id=unique_id
        )
        return self.async_update_and_abort(self._household)
