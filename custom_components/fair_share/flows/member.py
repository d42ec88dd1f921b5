"""Add or change a member: a person with a share of their own."""

from collections.abc import Mapping
from typing import Any

from homeassistant.config_entries import (
    ConfigEntryState,
    ConfigSubentryFlow,
    SubentryFlowResult,
)
from homeassistant.helpers.selector import (
    EntitySelector,
    EntitySelectorConfig,
    SelectOptionDict,
    SelectSelector,
    SelectSelectorConfig,
    SelectSelectorMode,
)
import voluptuous as vol

from ..const import CONF_PERSON_ID, CONF_USER_IDS
from .people import PERSON_DOMAIN, async_free_users, persons_without_share
from .quota import quota_errors
from .schemas import Fields, flatten, nest
from .share import SECTION_QUOTA, share_fields

_CONF_PERSON = "person"


class MemberFlow(ConfigSubentryFlow):
    """Add or change a member."""

    async def async_step_user(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Make a person a member."""
        household = self._get_entry()
        if household.state is not ConfigEntryState.LOADED:
            return self.async_abort(reason="entry_not_loaded")
        people = persons_without_share(self.hass, household)
        errors: dict[str, str] = {}
        if user_input is not None:
            data = flatten(user_input)
            person = people.get(data.pop(_CONF_PERSON))
            if person is None:
                return self.async_abort(reason="already_configured")
            errors = quota_errors(data, SECTION_QUOTA)
            if not errors:
                return self.async_create_entry(
                    title=person.name,
                    data=_member_data(person.person_id, data),
                    unique_id=person.person_id,
                )
        if not people:
            return self.async_abort(reason="no_more_persons")
        fields: Fields = {
            vol.Required(_CONF_PERSON): EntitySelector(
                EntitySelectorConfig(
                    domain=PERSON_DOMAIN, include_entities=list(people)
                )
            )
        }
        users = await async_free_users(self.hass, household, None)
        return self.async_show_form(
            step_id="user",
            data_schema=self.add_suggested_values_to_schema(
                vol.Schema(fields | _fields(users)), user_input
            ),
            errors=errors,
        )

    async def async_step_reconfigure(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Change the share of a member."""
        household, member = self._get_entry(), self._get_reconfigure_subentry()
        person_id = member.data[CONF_PERSON_ID]
        errors: dict[str, str] = {}
        if user_input is not None:
            data = _member_data(person_id, flatten(user_input))
            errors = quota_errors(data, SECTION_QUOTA)
            if not errors:
                return self.async_update_and_abort(household, member, data=data)
        users = await async_free_users(self.hass, household, person_id)
        known = {user["value"] for user in users}
        extra = [user_id for user_id in member.data[CONF_USER_IDS] if user_id in known]
        schema = vol.Schema(_fields(users))
        stored = nest(schema, {**member.data, CONF_USER_IDS: extra})
        return self.async_show_form(
            step_id="reconfigure",
            data_schema=self.add_suggested_values_to_schema(
                schema, user_input or stored
            ),
            errors=errors,
            description_placeholders={"member": member.title},
        )


def _fields(users: list[SelectOptionDict]) -> Fields:
    return {
        vol.Optional(CONF_USER_IDS): SelectSelector(
            SelectSelectorConfig(
                options=users, multiple=True, mode=SelectSelectorMode.DROPDOWN
            )
        ),
        **share_fields(),
    }


def _member_data(person_id: str, data: Mapping[str, Any]) -> dict[str, Any]:
    return {CONF_USER_IDS: [], **data, CONF_PERSON_ID: person_id}
