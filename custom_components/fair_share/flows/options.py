"""Change the rules of the whole household."""

from typing import Any

from homeassistant.config_entries import ConfigFlowResult, OptionsFlow
from homeassistant.data_entry_flow import section
import voluptuous as vol

from ..admission.model import CostWeights
from ..admission.policies import OFFERED
from ..const import (
    CONF_COST_CACHED,
    CONF_COST_OUTPUT,
    CONF_COST_UNCACHED,
    CONF_GUEST_QUOTA_TOKENS,
    CONF_GUEST_WEIGHT,
    CONF_POLICY,
    CONF_QUEUE_LIMIT,
    CONF_QUEUE_LIMIT_CLASS,
    DEFAULT_POLICY,
    DEFAULT_QUEUE_LIMIT,
    DEFAULT_QUEUE_LIMIT_CLASS,
)
from .schemas import Fields, choice, flatten, nest, number, weight, whole_number

_SECTION_GUESTS = "guests"
_SECTION_QUEUE = "queue"
_SECTION_COSTS = "costs"
_MAX_COST = 100.0


class HouseholdOptionsFlow(OptionsFlow):
    """Change policy, guests, queue and costs."""

    async def async_step_init(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Show all options, or store them."""
        if user_input is not None:
            return self.async_create_entry(data=flatten(user_input))
        schema = _schema()
        return self.async_show_form(
            step_id="init",
            data_schema=self.add_suggested_values_to_schema(
                schema, nest(schema, self.config_entry.options)
            ),
        )


def _schema() -> vol.Schema:
    cost = number(0.0, _MAX_COST, 0.05)
    usual = CostWeights()
    guests: Fields = {
        vol.Required(CONF_GUEST_WEIGHT, default=1.0): weight(),
        vol.Optional(CONF_GUEST_QUOTA_TOKENS): whole_number(1),
    }
    queue: Fields = {
        vol.Required(CONF_QUEUE_LIMIT, default=DEFAULT_QUEUE_LIMIT): whole_number(1),
        vol.Required(
            CONF_QUEUE_LIMIT_CLASS, default=DEFAULT_QUEUE_LIMIT_CLASS
        ): whole_number(1),
    }
    costs: Fields = {
        vol.Required(CONF_COST_UNCACHED, default=usual.uncached_prompt): cost,
        vol.Required(CONF_COST_CACHED, default=usual.cached_prompt): cost,
        vol.Required(CONF_COST_OUTPUT, default=usual.output): cost,
    }
    fields: Fields = {
        vol.Required(CONF_POLICY, default=DEFAULT_POLICY): choice(OFFERED, CONF_POLICY),
        vol.Required(_SECTION_GUESTS): section(
            vol.Schema(guests), {"collapsed": False}
        ),
        vol.Required(_SECTION_QUEUE): section(vol.Schema(queue), {"collapsed": True}),
        vol.Required(_SECTION_COSTS): section(vol.Schema(costs), {"collapsed": True}),
    }
    return vol.Schema(fields)
