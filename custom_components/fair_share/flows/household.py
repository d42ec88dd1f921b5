"""Found the household: its server, its members, its first agent."""

from collections.abc import Mapping
from typing import Any, override

from homeassistant.config_entries import ConfigFlowResult, ConfigSubentryData
from homeassistant.const import CONF_URL
from homeassistant.helpers.selector import EntitySelector, EntitySelectorConfig
import voluptuous as vol

from ..admission.model import Workload
from ..const import (
    CONF_OUTPUT_TOKENS,
    CONF_PERSONS,
    CONF_WORKLOAD,
    DEFAULT_OUTPUT_TOKENS,
    SUBENTRY_AGENT,
    SUBENTRY_MEMBER,
    SUBENTRY_SERVER,
)
from .agent import AGENT_TITLE, NEW_AGENT, agent_data, talk_fields
from .people import PERSON_DOMAIN, default_member, persons
from .repair import RepairSteps
from .server_steps import new_title

HOUSEHOLD_TITLE = "Fair Share"


class HouseholdFlow(RepairSteps):
    """Found the household, or repair the way to one of its servers."""

    _subentries: list[ConfigSubentryData]

    async def async_step_user(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Ask where the household's server is."""
        return await self._async_ask_address("user", user_input)

    @override
    async def _async_server_ready(
        self, data: dict[str, Any], title: str
    ) -> ConfigFlowResult:
        if self._server is not None:
            return self._finish_repair(
                self._server,
                data=data,
                title=new_title(self._server, title),
                unique_id=data[CONF_URL],
            )
        self._subentries = [_subentry(SUBENTRY_SERVER, title, data, data[CONF_URL])]
        return await self.async_step_members()

    async def async_step_members(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Ask which persons get a share of their own."""
        people = persons(self.hass)
        if user_input is not None:
            chosen = set(user_input.get(CONF_PERSONS, ()))
            for person in (p for p in people.values() if p.entity_id in chosen):
                data = default_member(person)
                self._subentries.append(
                    _subentry(SUBENTRY_MEMBER, person.name, data, person.person_id)
                )
            return await self.async_step_agent()
        if not people:
            return await self.async_step_agent()
        everybody = EntitySelectorConfig(
            domain=PERSON_DOMAIN, multiple=True, include_entities=list(people)
        )
        schema = vol.Schema({vol.Optional(CONF_PERSONS): EntitySelector(everybody)})
        return self.async_show_form(
            step_id="members",
            data_schema=self.add_suggested_values_to_schema(
                schema, {CONF_PERSONS: list(people)}
            ),
        )

    async def async_step_agent(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Ask what the first agent is told and may control."""
        if user_input is not None:
            data = {
                CONF_WORKLOAD: Workload.CHAT.value,
                CONF_OUTPUT_TOKENS: DEFAULT_OUTPUT_TOKENS,
                **agent_data(user_input),
            }
            self._subentries.append(_subentry(SUBENTRY_AGENT, AGENT_TITLE, data, None))
            return self.async_create_entry(
                title=HOUSEHOLD_TITLE, data={}, subentries=self._subentries
            )
        schema = vol.Schema(talk_fields(self.hass))
        return self.async_show_form(
            step_id="agent",
            data_schema=self.add_suggested_values_to_schema(schema, NEW_AGENT),
            last_step=True,
        )


def _subentry(
    subentry_type: str, title: str, data: Mapping[str, Any], unique_id: str | None
) -> ConfigSubentryData:
    return ConfigSubentryData(
        subentry_type=subentry_type, title=title, data=data, unique_id=unique_id
    )
