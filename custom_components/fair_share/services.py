"""The actions of the integration."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import cast

from homeassistant.const import ATTR_CONFIG_ENTRY_ID
from homeassistant.core import (
    HomeAssistant,
    ServiceCall,
    ServiceResponse,
    SupportsResponse,
    callback,
)
from homeassistant.helpers.service import async_get_config_entry
import voluptuous as vol

from .actions.cancel import CANCEL_REQUEST, async_cancel_request
from .actions.generate import GENERATE, async_generate
from .actions.pausing import PAUSE, RESUME, async_pause_some, async_resume_some
from .actions.quotas import (
    GRANT_TOKENS,
    RESET_USAGE,
    SET_QUOTA,
    async_grant_tokens,
    async_reset_usage,
    async_set_quota,
)
from .actions.schemas import HOUSEHOLD, Fields
from .const import DOMAIN
from .household.permission import async_need_admin
from .household.report import queue_report, usage_report
from .household.runtime import FairShareConfigEntry, Household


@dataclass(frozen=True, slots=True)
class _Action:
    """An action: what it does, with which fields, and whether everybody may call it.

    Of those that not everybody may call, users have to be administrators. Automations
    may call all.
    """

    run: Callable[[Household, ServiceCall], Awaitable[ServiceResponse]]
    fields: Fields
    response: SupportsResponse
    everybody: bool = False


async def _get_queue(household: Household, _call: ServiceCall) -> ServiceResponse:
    return queue_report(household)


async def _get_usage(household: Household, _call: ServiceCall) -> ServiceResponse:
    return usage_report(household)


async def _cancel(household: Household, call: ServiceCall) -> ServiceResponse:
    await async_cancel_request(household, call)
    return None


_ONLY, _OPTIONAL = SupportsResponse.ONLY, SupportsResponse.OPTIONAL

_ACTIONS: Mapping[str, _Action] = {
    "cancel_request": _Action(
        _cancel, CANCEL_REQUEST, SupportsResponse.NONE, everybody=True
    ),
    "generate": _Action(async_generate, GENERATE, _ONLY, everybody=True),
    "get_queue": _Action(_get_queue, HOUSEHOLD, _ONLY),
    "get_usage": _Action(_get_usage, HOUSEHOLD, _ONLY),
    "grant_tokens": _Action(async_grant_tokens, GRANT_TOKENS, _OPTIONAL),
    "pause": _Action(async_pause_some, PAUSE, _OPTIONAL),
    "reset_usage": _Action(async_reset_usage, RESET_USAGE, _OPTIONAL),
    "resume": _Action(async_resume_some, RESUME, _OPTIONAL),
    "set_quota": _Action(async_set_quota, SET_QUOTA, _OPTIONAL),
}


@callback
def async_setup_services(hass: HomeAssistant) -> None:
    """Register the actions; they need no household until they are called."""

    async def run(call: ServiceCall) -> ServiceResponse:
        """Do what is called. Raises ``ServiceValidationError``: no household."""
        action = _ACTIONS[call.service]
        if not action.everybody:
            await async_need_admin(hass, call.context)
        entry = async_get_config_entry(
            hass, DOMAIN, call.data.get(ATTR_CONFIG_ENTRY_ID)
        )
        household = cast("FairShareConfigEntry", entry).runtime_data
        response = await action.run(household, call)
        return response if call.return_response else None

    for name, action in _ACTIONS.items():
        hass.services.async_register(
            DOMAIN, name, run, vol.Schema(action.fields), action.response
        )
