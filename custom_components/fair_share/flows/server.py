"""Add or change a server of the household."""

from typing import Any, override

from homeassistant.config_entries import (
    ConfigEntryState,
    ConfigSubentryFlow,
    SubentryFlowContext,
    SubentryFlowResult,
)
from homeassistant.const import CONF_URL

from ..const import SUBENTRY_SERVER
from .server_steps import ServerSteps, new_title


class ServerFlow(
    ServerSteps[SubentryFlowContext, SubentryFlowResult, tuple[str, str]],
    ConfigSubentryFlow,
):
    """Add or change a server."""

    async def async_step_user(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Add a server."""
        household = self._get_entry()
        if household.state is not ConfigEntryState.LOADED:
            return self.async_abort(reason="entry_not_loaded")
        self._servers = list(household.get_subentries_of_type(SUBENTRY_SERVER))
        return await self._async_ask_address("user", user_input)

    async def async_step_reconfigure(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Change the address, the key or what was declared of a server."""
        household = self._get_entry()
        self._servers = list(household.get_subentries_of_type(SUBENTRY_SERVER))
        self._server = self._get_reconfigure_subentry()
        return await self._async_ask_address("reconfigure", user_input)

    @override
    async def _async_server_ready(
        self, data: dict[str, Any], title: str
    ) -> SubentryFlowResult:
        if self._server is None:
            return self.async_create_entry(
                title=title, data=data, unique_id=data[CONF_URL]
            )
        return self.async_update_and_abort(
            self._get_entry(),
            self._server,
            data=data,
            title=new_title(self._server, title),
            unique_id=data[CONF_URL],
        )
