"""Add or change an agent: the assistant that people talk to."""

from collections.abc import Mapping
from typing import Any

from homeassistant.config_entries import (
    ConfigEntry,
    ConfigEntryState,
    ConfigSubentryFlow,
    SubentryFlowResult,
)
from homeassistant.const import CONF_LLM_HASS_API, CONF_MODEL, CONF_NAME, CONF_PROMPT
from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import section
from homeassistant.helpers import llm
from homeassistant.helpers.selector import (
    SelectOptionDict,
    SelectSelector,
    SelectSelectorConfig,
    SelectSelectorMode,
    TemplateSelector,
    TextSelector,
)
import voluptuous as vol

from ..admission.model import Workload
from ..const import (
    CONF_OUTPUT_TOKENS,
    CONF_TEMPERATURE,
    CONF_WORKLOAD,
    DEFAULT_OUTPUT_TOKENS,
    SUBENTRY_AGENT,
    SUBENTRY_SERVER,
)
from .schemas import Fields, choice, flatten, nest, number, whole_number

AGENT_TITLE = "Fair Share"
_SECTION_ANSWERS = "answers"

NEW_AGENT: Mapping[str, Any] = {
    CONF_PROMPT: llm.DEFAULT_INSTRUCTIONS_PROMPT,
    CONF_LLM_HASS_API: [llm.LLM_API_ASSIST],
    CONF_WORKLOAD: Workload.CHAT.value,
    CONF_OUTPUT_TOKENS: DEFAULT_OUTPUT_TOKENS,
}


def talk_fields(hass: HomeAssistant) -> Fields:
    """Return what an agent is told and what it may control."""
    apis = [
        SelectOptionDict(value=api.id, label=api.name)
        for api in llm.async_get_apis(hass)
    ]
    return {
        vol.Optional(CONF_PROMPT): TemplateSelector(),
        vol.Optional(CONF_LLM_HASS_API): SelectSelector(
            SelectSelectorConfig(options=apis, multiple=True)
        ),
    }


def agent_data(user_input: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of an agent from the input of a form."""
    data = {CONF_PROMPT: "", **flatten(user_input)}
    if not data.get(CONF_LLM_HASS_API):
        data.pop(CONF_LLM_HASS_API, None)
    return data


class AgentFlow(ConfigSubentryFlow):
    """Add or change an agent."""

    async def async_step_user(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Add an agent."""
        household = self._get_entry()
        if household.state is not ConfigEntryState.LOADED:
            return self.async_abort(reason="entry_not_loaded")
        title = free_title(household, SUBENTRY_AGENT, AGENT_TITLE)
        if user_input is not None:
            name = user_input.pop(CONF_NAME).strip()
            return self.async_create_entry(
                title=name or title, data=agent_data(user_input)
            )
        name_field: Fields = {vol.Required(CONF_NAME, default=title): TextSelector()}
        return self._show("user", NEW_AGENT, name_field)

    async def async_step_reconfigure(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Change an agent."""
        agent = self._get_reconfigure_subentry()
        if user_input is not None:
            return self.async_update_and_abort(
                self._get_entry(), agent, data=agent_data(user_input)
            )
        return self._show("reconfigure", agent.data)

    def _show(
        self, step_id: str, data: Mapping[str, Any], first: Fields | None = None
    ) -> SubentryFlowResult:
        known = {api.id for api in llm.async_get_apis(self.hass)}
        apis = [api for api in data.get(CONF_LLM_HASS_API, ()) if api in known]
        schema = self._schema(first or {})
        return self.async_show_form(
            step_id=step_id,
            data_schema=self.add_suggested_values_to_schema(
                schema, nest(schema, {**data, CONF_LLM_HASS_API: apis})
            ),
        )

    def _schema(self, first: Fields) -> vol.Schema:
        fields: Fields = {
            **first,
            **talk_fields(self.hass),
            vol.Required(CONF_WORKLOAD, default=Workload.CHAT.value): choice(
                Workload, CONF_WORKLOAD
            ),
            **answer_fields(self._get_entry()),
        }
        return vol.Schema(fields)


def answer_fields(household: ConfigEntry) -> Fields:
    """Return the section that says how answers are written."""
    models = {
        server.data[CONF_MODEL]: None
        for server in household.get_subentries_of_type(SUBENTRY_SERVER)
    }
    answers: Fields = {
        vol.Required(CONF_OUTPUT_TOKENS, default=DEFAULT_OUTPUT_TOKENS): whole_number(
            1
        ),
        vol.Optional(CONF_TEMPERATURE): number(0.0, 2.0, 0.05),
        vol.Optional(CONF_MODEL): SelectSelector(
            SelectSelectorConfig(
                options=list(models),
                custom_value=True,
                mode=SelectSelectorMode.DROPDOWN,
            )
        ),
    }
    return {
        vol.Required(_SECTION_ANSWERS): section(
            vol.Schema(answers), {"collapsed": True}
        )
    }


def free_title(household: ConfigEntry, subentry_type: str, usual: str) -> str:
    """Return a title that tells one of this type from the others."""
    titles = {each.title for each in household.get_subentries_of_type(subentry_type)}
    title, count = usual, 1
    while title in titles:
        count += 1
        title = f"{usual} {count}"
    return title
