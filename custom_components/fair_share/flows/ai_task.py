"""Add or change an AI task entity: what automations have things done by."""

from collections.abc import Mapping
from typing import Any

from homeassistant.config_entries import (
    ConfigEntryState,
    ConfigSubentryFlow,
    SubentryFlowResult,
)
from homeassistant.const import CONF_NAME, CONF_PROMPT
from homeassistant.helpers.selector import TextSelector, TextSelectorConfig
import voluptuous as vol

from ..admission.model import Workload
from ..const import (
    CONF_OUTPUT_TOKENS,
    CONF_WORKLOAD,
    DEFAULT_OUTPUT_TOKENS,
    SUBENTRY_AI_TASK,
)
from .agent import answer_fields, free_title
from .schemas import Fields, choice, flatten, nest

_TITLE = "Fair Share tasks"
_WORKLOADS = (Workload.BACKGROUND, Workload.TASK, Workload.CHAT)
"""Nobody speaks to it."""

_NEW: Mapping[str, Any] = {CONF_OUTPUT_TOKENS: DEFAULT_OUTPUT_TOKENS}


class TaskFlow(ConfigSubentryFlow):
    """Add or change an AI task entity."""

    async def async_step_user(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Add one."""
        household = self._get_entry()
        if household.state is not ConfigEntryState.LOADED:
            return self.async_abort(reason="entry_not_loaded")
        title = free_title(household, SUBENTRY_AI_TASK, _TITLE)
        if user_input is not None:
            name = user_input.pop(CONF_NAME).strip()
            return self.async_create_entry(
                title=name or title, data=flatten(user_input)
            )
        name_field: Fields = {vol.Required(CONF_NAME, default=title): TextSelector()}
        return self._show("user", _NEW, name_field)

    async def async_step_reconfigure(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Change one."""
        task = self._get_reconfigure_subentry()
        if user_input is not None:
            return self.async_update_and_abort(
                self._get_entry(), task, data=flatten(user_input)
            )
        return self._show("reconfigure", task.data)

    def _show(
        self, step_id: str, data: Mapping[str, Any], first: Fields | None = None
    ) -> SubentryFlowResult:
        fields: Fields = {
            **(first or {}),
            vol.Optional(CONF_PROMPT): TextSelector(TextSelectorConfig(multiline=True)),
            vol.Required(CONF_WORKLOAD, default=Workload.BACKGROUND.value): choice(
                _WORKLOADS, CONF_WORKLOAD
            ),
            **answer_fields(self._get_entry()),
        }
        schema = vol.Schema(fields)
        return self.async_show_form(
            step_id=step_id,
            data_schema=self.add_suggested_values_to_schema(schema, nest(schema, data)),
        )
