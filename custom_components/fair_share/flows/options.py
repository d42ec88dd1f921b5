"""Change the rules of the whole household."""

from collections.abc import Callable, Mapping
from typing import Any

from homeassistant.config_entries import ConfigFlowResult
from homeassistant.const import PERCENTAGE
from homeassistant.data_entry_flow import section
from homeassistant.helpers.selector import (
    BooleanSelector,
    TextSelector,
    TextSelectorConfig,
)
import voluptuous as vol

from ..admission.model import PreemptionRules
from ..admission.policies import OFFERED
from ..const import (
    CONF_ACTIVITY_LOG,
    CONF_BACKGROUND_SHARE,
    CONF_BYPASS,
    CONF_COST_CACHED,
    CONF_COST_OUTPUT,
    CONF_COST_UNCACHED,
    CONF_POLICY,
    CONF_PREEMPTION,
    CONF_PREEMPTION_THRESHOLD,
    CONF_QUEUE_LIMIT,
    CONF_QUEUE_LIMIT_CLASS,
    CONF_QUOTA_REFILL,
    CONF_WEB_PAGES,
    CONF_WEIGHT,
    GUEST_PREFIX,
    MAX_BACKGROUND_SHARE,
)
from ..household.settings import USUAL, percent
from ..household.web_pages import AnyPageError, PageError, PageWithPathError, origin_of
from .quota import quota_errors, quota_fields
from .schemas import Fields, choice, flatten, nest, number, weight, whole_number
from .workloads import WorkloadSteps

_SECTION_EXPERT = "expert"
_MAX_COST = 100.0
_MAX_CHARGE = 1_000_000.0
_EXAMPLE_PAGE = "http://192.168.1.20:3000"

type Check = Callable[[Mapping[str, Any]], dict[str, str]]


class HouseholdOptionsFlow(WorkloadSteps):
    """A menu of rules; each form of it changes its own and leaves the others."""

    async def async_step_init(
        self, _user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Ask what is to be changed."""
        return self.async_show_menu(
            step_id="init",
            menu_options=[
                "fairness",
                "workloads",
                "interrupting",
                "queue",
                "guests",
                "costs",
                "recording",
                "web_pages",
            ],
        )

    async def async_step_fairness(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Change policy and reserved share."""
        fields: Fields = {
            vol.Required(CONF_POLICY, default=USUAL.policy): choice(
                OFFERED, CONF_POLICY
            ),
            vol.Required(
                CONF_BACKGROUND_SHARE, default=percent(USUAL.background_share)
            ): number(0.0, 100.0, 1.0, PERCENTAGE),
        }
        return self._ask_rules("fairness", fields, user_input, _fairness_errors)

    async def async_step_interrupting(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Change whether and when answers are interrupted."""
        expert: Fields = {
            vol.Required(
                CONF_PREEMPTION_THRESHOLD, default=PreemptionRules().threshold
            ): number(0.0, _MAX_CHARGE, 1.0)
        }
        fields: Fields = {
            vol.Required(CONF_PREEMPTION, default=True): BooleanSelector(),
            vol.Required(_SECTION_EXPERT): section(
                vol.Schema(expert), {"collapsed": True}
            ),
        }
        return self._ask_rules("interrupting", fields, user_input)

    async def async_step_queue(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Change how much may wait, and who may overtake."""
        limits = USUAL.limits
        fields: Fields = {
            vol.Required(CONF_QUEUE_LIMIT, default=limits.queued): whole_number(1),
            vol.Required(
                CONF_QUEUE_LIMIT_CLASS, default=limits.queued_per_class
            ): whole_number(1),
            vol.Required(CONF_BYPASS, default=USUAL.bypass): number(
                0.0, _MAX_CHARGE, 1.0
            ),
        }
        return self._ask_rules("queue", fields, user_input)

    async def async_step_guests(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Change the share of guests."""
        fields: Fields = {
            vol.Required(f"{GUEST_PREFIX}{CONF_WEIGHT}", default=1.0): weight(),
            **quota_fields(GUEST_PREFIX),
        }
        return self._ask_rules("guests", fields, user_input, _guest_errors)

    async def async_step_costs(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Change what tokens count for."""
        cost, costs = number(0.0, _MAX_COST, 0.05), USUAL.costs
        fields: Fields = {
            vol.Required(CONF_COST_UNCACHED, default=costs.uncached_prompt): cost,
            vol.Required(CONF_COST_CACHED, default=costs.cached_prompt): cost,
            vol.Required(CONF_COST_OUTPUT, default=costs.output): cost,
        }
        return self._ask_rules("costs", fields, user_input)

    async def async_step_recording(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Change whether the queue's activity is written down."""
        fields: Fields = {
            vol.Required(CONF_ACTIVITY_LOG, default=False): BooleanSelector()
        }
        return self._ask_rules("recording", fields, user_input)

    async def async_step_web_pages(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Change which web pages may ask the gateway from a browser."""
        fields: Fields = {
            vol.Optional(CONF_WEB_PAGES): TextSelector(
                TextSelectorConfig(multiple=True)
            )
        }
        errors: dict[str, str] = {}
        if user_input is not None:
            pages = user_input.get(CONF_WEB_PAGES, [])
            try:
                origins = dict.fromkeys(origin_of(page) for page in pages)
            except AnyPageError:
                errors[CONF_WEB_PAGES] = "page_any"
            except PageWithPathError:
                errors[CONF_WEB_PAGES] = "page_with_path"
            except PageError:
                errors[CONF_WEB_PAGES] = "page_not_valid"
            else:
                user_input = {CONF_WEB_PAGES: [*origins]} if origins else {}
        return self._ask_rules(
            "web_pages",
            fields,
            user_input,
            lambda _: errors,
            example=_EXAMPLE_PAGE,
        )

    def _ask_rules(
        self,
        step_id: str,
        fields: Fields,
        user_input: dict[str, Any] | None,
        check: Check = lambda _: {},
        **placeholders: str,
    ) -> ConfigFlowResult:
        """Show some of the options, or store them beside the others."""
        schema = vol.Schema(fields)
        options = self.config_entry.options
        errors: dict[str, str] = {}
        if user_input is not None:
            data = flatten(user_input)
            errors = check(data)
            if not errors:
                # What was left empty is no longer there.
                others = options.keys() - flatten(_keys(schema))
                return self.async_create_entry(
                    data={key: options[key] for key in others} | data
                )
        return self.async_show_form(
            step_id=step_id,
            data_schema=self.add_suggested_values_to_schema(
                schema, user_input or nest(schema, options)
            ),
            errors=errors,
            description_placeholders=placeholders or None,
        )


def _keys(schema: vol.Schema) -> dict[str, Any]:
    return {
        marker.schema: _keys(field.schema) if isinstance(field, section) else None
        for marker, field in schema.schema.items()
    }


def _fairness_errors(data: Mapping[str, Any]) -> dict[str, str]:
    errors: dict[str, str] = {}
    if data[CONF_BACKGROUND_SHARE] > MAX_BACKGROUND_SHARE:
        errors[CONF_BACKGROUND_SHARE] = "share_too_large"
    return errors


def _guest_errors(data: Mapping[str, Any]) -> dict[str, str]:
    return quota_errors(data, f"{GUEST_PREFIX}{CONF_QUOTA_REFILL}", GUEST_PREFIX)
