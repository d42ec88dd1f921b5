"""Add or change a wrapped agent: somebody else's, behind the household's queue."""

from typing import Any

from homeassistant.components.conversation import DOMAIN as CONVERSATION_DOMAIN
from homeassistant.config_entries import (
    ConfigEntry,
    ConfigEntryState,
    ConfigSubentryFlow,
    SubentryFlowResult,
)
from homeassistant.const import CONF_NAME
from homeassistant.core import HomeAssistant
from homeassistant.helpers import entity_registry as er
from homeassistant.helpers.selector import (
    SelectOptionDict,
    SelectSelector,
    SelectSelectorConfig,
    SelectSelectorMode,
    TextSelector,
)
import voluptuous as vol

from ..admission.model import Workload
from ..const import (
    CONF_AGENT,
    CONF_SERVER,
    CONF_WORKLOAD,
    DOMAIN,
    OUTSIDE_SERVER,
    SUBENTRY_SERVER,
    SUBENTRY_WRAPPED_AGENT,
)
from .schemas import Fields, choice


class WrappedAgentFlow(ConfigSubentryFlow):
    """Add or change a wrapped agent."""

    async def async_step_user(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Choose the agent and the server that it uses."""
        household = self._get_entry()
        if household.state is not ConfigEntryState.LOADED:
            return self.async_abort(reason="entry_not_loaded")
        agents = _agents(self.hass, household)
        if user_input is None and not agents:
            return self.async_abort(reason="no_agent")
        errors: dict[str, str] = {}
        if user_input is not None:
            data = dict(user_input)
            name = data.pop(CONF_NAME, "").strip()
            chosen = data[CONF_AGENT]
            if chosen in _wrapped(household):
                return self.async_abort(reason="already_configured")
            if chosen in agents:
                return self.async_create_entry(
                    title=name or f"{agents[chosen].name} (Fair Share)",
                    data=data,
                    unique_id=agent_id_for(chosen),
                )
            errors[CONF_AGENT] = "agent_not_found"
        config = SelectSelectorConfig(
            options=agents_to_wrap(self.hass, household),
            mode=SelectSelectorMode.DROPDOWN,
        )
        fields: Fields = {
            vol.Required(CONF_AGENT): SelectSelector(config),
            vol.Optional(CONF_NAME): TextSelector(),
            **_fields(household),
        }
        schema = vol.Schema(fields)
        return self.async_show_form(
            step_id="user",
            data_schema=self.add_suggested_values_to_schema(schema, user_input),
            errors=errors,
        )

    async def async_step_reconfigure(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Change the server that it uses, and how urgent it is."""
        household, wrapped = self._get_entry(), self._get_reconfigure_subentry()
        if user_input is not None:
            return self.async_update_and_abort(
                household, wrapped, data_updates=user_input
            )
        data = dict(wrapped.data)
        if data[CONF_SERVER] not in household.subentries:
            data[CONF_SERVER] = OUTSIDE_SERVER
        return self.async_show_form(
            step_id="reconfigure",
            data_schema=self.add_suggested_values_to_schema(
                vol.Schema(_fields(household)), data
            ),
            description_placeholders={"agent": wrapped.title},
        )


def agents_to_wrap(
    hass: HomeAssistant, household: ConfigEntry
) -> list[SelectOptionDict]:
    """Return the agents of others that are not wrapped yet."""
    return [
        SelectOptionDict(value=agent_id, label=agent.label)
        for agent_id, agent in _agents(hass, household).items()
    ]


def agent_id_for(agent: str) -> str:
    """Return what tells the subentry of an agent from all others."""
    return f"wrapped:{agent}"


def _fields(household: ConfigEntry) -> Fields:
    servers = [
        SelectOptionDict(value=server.subentry_id, label=server.title)
        for server in household.get_subentries_of_type(SUBENTRY_SERVER)
    ]
    outside = SelectOptionDict(value=OUTSIDE_SERVER, label=OUTSIDE_SERVER)
    return {
        vol.Required(CONF_SERVER): SelectSelector(
            SelectSelectorConfig(
                options=[*servers, outside],
                translation_key=CONF_SERVER,
                mode=SelectSelectorMode.DROPDOWN,
            )
        ),
        vol.Required(CONF_WORKLOAD, default=Workload.CHAT.value): choice(
            Workload, CONF_WORKLOAD
        ),
    }


def _wrapped(household: ConfigEntry) -> set[str]:
    """Return the agents that are wrapped already."""
    return {
        each.data[CONF_AGENT]
        for each in household.get_subentries_of_type(SUBENTRY_WRAPPED_AGENT)
    }


class _Agent:
    """An agent that can be wrapped, as people know it."""

    def __init__(self, hass: HomeAssistant, entry: er.RegistryEntry) -> None:
        state = hass.states.get(entry.entity_id)
        self.name = state.name if state else entry.name or entry.entity_id
        self.label = f"{self.name} ({entry.entity_id})"


def _agents(hass: HomeAssistant, household: ConfigEntry) -> dict[str, _Agent]:
    """Return the agents that can be wrapped, by their id in the registry.

    Ours are in the queue already, and would ask themselves. Home Assistant's own, which
    asks no language model, is not in the registry.
    """
    known = _wrapped(household)
    agents = {
        entry.id: _Agent(hass, entry)
        for entry in er.async_get(hass).entities.values()
        if entry.domain == CONVERSATION_DOMAIN
        and entry.platform != DOMAIN
        and entry.id not in known
        and entry.disabled_by is None
    }
    return dict(sorted(agents.items(), key=lambda item: item[1].label.casefold()))
