"""Change how urgent each kind of requests is."""

from collections.abc import Mapping
from typing import Any

from homeassistant.config_entries import ConfigFlowResult, OptionsFlow
from homeassistant.data_entry_flow import section
from homeassistant.helpers.selector import BooleanSelector
import voluptuous as vol

from ..admission.model import DEFAULT_PROFILES, Workload
from ..const import (
    CONF_AGE_STEP,
    CONF_BAND,
    CONF_COMPLETION_TARGET,
    CONF_MAX_PAUSE,
    CONF_MAX_WAIT,
    CONF_PATIENCE,
    CONF_PREEMPTIBLE,
    CONF_TTFT_TARGET,
    CONF_WORKLOADS,
)
from ..household.settings import changed_profile, profile_values, settings_from
from .schemas import Fields, choice, flatten, nest, number

_BANDS = ("at_once", "soon", "within_minutes", "when_there_is_time")
"""The bands, the most urgent first, by words."""

_CONF_USUAL = "back_to_usual"
_SECTION_EXPERT = "expert"
_MAX_S = 7 * 24 * 3600.0


class WorkloadSteps(OptionsFlow):
    """One step for each kind of requests."""

    async def async_step_workloads(
        self, _user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Ask which kind is to be changed."""
        return self.async_show_menu(
            step_id="workloads", menu_options=[workload.value for workload in Workload]
        )

    async def async_step_voice(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Change voice."""
        return self._ask(Workload.VOICE, user_input)

    async def async_step_accessibility(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Change accessibility."""
        return self._ask(Workload.ACCESSIBILITY, user_input)

    async def async_step_chat(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Change chat."""
        return self._ask(Workload.CHAT, user_input)

    async def async_step_task(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Change tasks."""
        return self._ask(Workload.TASK, user_input)

    async def async_step_background(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Change background work."""
        return self._ask(Workload.BACKGROUND, user_input)

    def _ask(
        self, workload: Workload, user_input: dict[str, Any] | None
    ) -> ConfigFlowResult:
        errors: dict[str, str] = {}
        if user_input is not None:
            data = flatten(user_input)
            usual = data.pop(_CONF_USUAL)
            errors = {} if usual else _errors(data)
            if not errors:
                return self._store(workload, {} if usual else data)
        profile = settings_from(self.config_entry.options).profiles[workload]
        schema = _schema(workload)
        stored = nest(schema, _in_words(profile_values(profile)))
        return self.async_show_form(
            step_id=workload.value,
            data_schema=self.add_suggested_values_to_schema(
                schema, user_input or stored
            ),
            errors=errors,
        )

    def _store(self, workload: Workload, data: dict[str, Any]) -> ConfigFlowResult:
        """Store what is different from usual; of that alone there can be nothing."""
        options = dict(self.config_entry.options)
        stored = options.pop(CONF_WORKLOADS, None)
        others = dict(stored) if isinstance(stored, Mapping) else {}
        others.pop(workload.value, None)
        if data:
            data[CONF_BAND] = _BANDS.index(data[CONF_BAND])
            others[workload.value] = changed_profile(workload, data)
        kept = {name: changed for name, changed in others.items() if changed}
        return self.async_create_entry(
            data=options | ({CONF_WORKLOADS: kept} if kept else {})
        )


def _schema(workload: Workload) -> vol.Schema:
    usual = _in_words(profile_values(DEFAULT_PROFILES[workload]))

    def field(key: str) -> vol.Required:
        return vol.Required(key, default=usual[key])

    seconds = number(0.0, _MAX_S, 0.1, "s")
    expert: Fields = {
        field(CONF_COMPLETION_TARGET): seconds,
        field(CONF_MAX_PAUSE): seconds,
        field(CONF_PATIENCE): seconds,
    }
    fields: Fields = {
        field(CONF_BAND): choice(_BANDS, CONF_BAND),
        field(CONF_TTFT_TARGET): seconds,
        field(CONF_AGE_STEP): seconds,
        field(CONF_MAX_WAIT): seconds,
        field(CONF_PREEMPTIBLE): BooleanSelector(),
        vol.Required(_SECTION_EXPERT): section(vol.Schema(expert), {"collapsed": True}),
        vol.Required(_CONF_USUAL, default=False): BooleanSelector(),
    }
    return vol.Schema(fields)


def _in_words(values: dict[str, Any]) -> dict[str, Any]:
    return {**values, CONF_BAND: _BANDS[values[CONF_BAND]]}


def _errors(data: Mapping[str, Any]) -> dict[str, str]:
    errors: dict[str, str] = {}
    if data[CONF_COMPLETION_TARGET] < data[CONF_TTFT_TARGET]:
        errors[_SECTION_EXPERT] = "whole_before_first_word"
    if data[CONF_MAX_WAIT] < data[CONF_TTFT_TARGET]:
        errors[CONF_MAX_WAIT] = "overdue_before_first_word"
    for key in (CONF_TTFT_TARGET, CONF_AGE_STEP):
        if data[key] <= 0:
            errors[key] = "not_above_zero"
    return errors
