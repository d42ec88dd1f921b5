"""The steps that end in a probed server, wherever a server is added or changed.

A dialog asks for the address in a step of its own name, then come ``loading`` (only
while the server loads its model) and ``server`` (what was found).
"""

from abc import abstractmethod
import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from homeassistant.config_entries import ConfigSubentry
from homeassistant.const import CONF_API_KEY, CONF_MODEL, CONF_URL
from homeassistant.data_entry_flow import (
    AbortFlow,
    FlowContext,
    FlowHandler,
    FlowResult,
    section,
)
from homeassistant.helpers.selector import (
    SelectSelector,
    SelectSelectorConfig,
    SelectSelectorMode,
    TextSelector,
    TextSelectorConfig,
    TextSelectorType,
)
import voluptuous as vol

from ..const import (
    CONF_CONTEXT_TOKENS,
    CONF_KIND,
    CONF_MEMORY,
    CONF_PATIENT_SLOTS,
    CONF_SCHEDULING,
    CONF_SLOTS,
    MEMORY_SEPARATE,
    MEMORY_SHARED,
    SCHEDULING_CLUSTER,
    SCHEDULING_NONE,
    SCHEDULING_PRIORITY,
)
from ..engines.base import (
    EngineError,
    EngineKind,
    InvalidAddressError,
    LoadingError,
)
from ..engines.probe import FoundServer
from .connect import Connection, async_find, async_wait_until_loaded, error_key
from .found import async_describe, hides_memory, server_title
from .schemas import Fields, choice, flatten, nest, whole_number

_KEY = TextSelector(
    TextSelectorConfig(type=TextSelectorType.PASSWORD, autocomplete="off")
)
_ADDRESS_SCHEMA = vol.Schema(
    {
        vol.Required(CONF_URL): TextSelector(),
        vol.Optional(CONF_API_KEY): _KEY,
    }
)
KEY_SCHEMA = vol.Schema({vol.Required(CONF_API_KEY): _KEY})

_LIKELY_SLOTS = 4
_LIKELY_CONTEXT_TOKENS = 8192
_SECTION_MORE = "more"


class ServerSteps[ContextT: FlowContext, ResultT: FlowResult[Any, Any], HandlerT](
    FlowHandler[ContextT, ResultT, HandlerT]
):
    """Ask for the address of a server until it answers, then show what it is.

    ``_server`` is the server that is changed, ``None`` while one is added;
    ``_servers`` are all that the household has.
    """

    _servers: Sequence[ConfigSubentry] = ()
    _server: ConfigSubentry | None = None
    _typed: Mapping[str, Any] | None = None
    _address_step: str
    _connection: Connection
    _loading: asyncio.Task[FoundServer]
    _failure: EngineError | None = None
    _found: FoundServer

    @abstractmethod
    async def _async_server_ready(self, data: dict[str, Any], title: str) -> ResultT:
        """Go on with the data and the title of a server that answers."""

    async def _async_ask_address(
        self, step_id: str, user_input: dict[str, Any] | None
    ) -> ResultT:
        """Show the form for address and key as this step, or take what it says."""
        if user_input is not None:
            self._typed = user_input
            key = user_input.get(CONF_API_KEY) or self._stored.get(CONF_API_KEY)
            connection = Connection.typed(user_input[CONF_URL], key)
            return await self._async_connect(step_id, connection)
        suggested = self._typed or {CONF_URL: self._stored.get(CONF_URL)}
        return self.async_show_form(
            step_id=step_id,
            data_schema=self.add_suggested_values_to_schema(_ADDRESS_SCHEMA, suggested),
            errors=self._errors(),
        )

    async def _async_connect(self, step_id: str, connection: Connection) -> ResultT:
        """Probe; ``step_id`` is the step that is shown again if that fails."""
        self._address_step = step_id
        self._connection = connection
        self._failure = None
        try:
            self._found = await async_find(self.hass, connection)
        except LoadingError:
            self._loading = self.hass.async_create_background_task(
                async_wait_until_loaded(self.hass, connection),
                "fair_share wait for model",
            )
            return await self.async_step_loading()
        except EngineError as err:
            self._failure = err
            return await self._async_step_address()
        return await self.async_step_connected()

    def _errors(self) -> dict[str, str]:
        """Return why the form for the address is shown again."""
        if self._failure is None:
            return {}
        wrong = isinstance(self._failure, InvalidAddressError)
        return {CONF_URL if wrong else "base": error_key(self._failure)}

    async def _async_step_address(self) -> ResultT:
        result: ResultT = await getattr(self, f"async_step_{self._address_step}")()
        return result

    async def async_step_loading(
        self, _user_input: dict[str, Any] | None = None
    ) -> ResultT:
        """Wait until the server has loaded its model."""
        if not self._loading.done():
            return self.async_show_progress(
                step_id="loading",
                progress_action="loading",
                progress_task=self._loading,
                description_placeholders={"url": self._connection.address},
            )
        try:
            self._found = self._loading.result()
        except EngineError as err:
            self._failure = err
            return self.async_show_progress_done(next_step_id=self._address_step)
        return self.async_show_progress_done(next_step_id="connected")

    async def async_step_connected(
        self, _user_input: dict[str, Any] | None = None
    ) -> ResultT:
        """Go on with a server that answered; this step is never shown."""
        self._abort_if_known(self._found.address)
        return await self.async_step_server()

    async def async_step_server(
        self, user_input: dict[str, Any] | None = None
    ) -> ResultT:
        """Show what was found and ask what the server does not tell."""
        if user_input is not None:
            data = self._server_data(user_input)
            return await self._async_server_ready(
                data, server_title(data[CONF_MODEL], data[CONF_URL])
            )
        schema = self._server_schema()
        return self.async_show_form(
            step_id="server",
            data_schema=self.add_suggested_values_to_schema(
                schema, nest(schema, self._stored)
            ),
            description_placeholders=await async_describe(
                self.hass, self._found.capabilities, self._stored
            ),
        )

    def _server_schema(self) -> vol.Schema:
        found = self._found.capabilities
        fields: Fields = {}
        if len(found.models) > 1:
            fields[vol.Required(CONF_MODEL, default=found.model)] = SelectSelector(
                SelectSelectorConfig(
                    options=list(found.models),
                    mode=SelectSelectorMode.DROPDOWN,
                )
            )
        if found.slots is None:
            fields[vol.Required(CONF_SLOTS, default=_LIKELY_SLOTS)] = whole_number(1)
        if found.context_tokens is None:
            fields[
                vol.Required(CONF_CONTEXT_TOKENS, default=_LIKELY_CONTEXT_TOKENS)
            ] = whole_number(1)
        if hides_memory(found):
            fields[vol.Required(CONF_MEMORY, default=MEMORY_SHARED)] = choice(
                (MEMORY_SHARED, MEMORY_SEPARATE), CONF_MEMORY
            )
        more: Fields = {vol.Optional(CONF_PATIENT_SLOTS): whole_number(1)}
        if found.kind is not EngineKind.LLAMA_CPP:
            more[vol.Required(CONF_SCHEDULING, default=SCHEDULING_NONE)] = choice(
                (SCHEDULING_NONE, SCHEDULING_PRIORITY, SCHEDULING_CLUSTER),
                CONF_SCHEDULING,
            )
        fields[vol.Optional(_SECTION_MORE, default=dict)] = section(
            vol.Schema(more), {"collapsed": True}
        )
        return vol.Schema(fields)

    def _server_data(self, user_input: Mapping[str, Any]) -> dict[str, Any]:
        data = {
            CONF_URL: self._found.address,
            CONF_KIND: self._found.capabilities.kind.value,
            CONF_MODEL: self._found.capabilities.model,
            **flatten(user_input),
        }
        if self._connection.api_key:
            data[CONF_API_KEY] = self._connection.api_key
        return data

    @property
    def _stored(self) -> Mapping[str, Any]:
        return self._server.data if self._server else {}

    def _abort_if_known(self, url: str) -> None:
        """Abort if another server of the household has this address."""
        if any(s.unique_id == url and s is not self._server for s in self._servers):
            raise AbortFlow("already_configured")


def new_title(server: ConfigSubentry, title: str) -> str:
    """Return the title after a change: a name that people gave stays."""
    old = server_title(server.data[CONF_MODEL], server.data[CONF_URL])
    return title if server.title == old else server.title
