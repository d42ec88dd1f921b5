"""Where Home Assistant finds the dialogs; they are in ``flows``."""

from typing import override

from homeassistant.config_entries import ConfigEntry, ConfigSubentryFlow, OptionsFlow
from homeassistant.core import callback

from .const import (
    DOMAIN,
    SUBENTRY_AGENT,
    SUBENTRY_AI_TASK,
    SUBENTRY_CLIENT,
    SUBENTRY_DEVICE,
    SUBENTRY_MEMBER,
    SUBENTRY_SERVER,
    SUBENTRY_WRAPPED_AGENT,
)
from .flows.agent import AgentFlow
from .flows.ai_task import TaskFlow
from .flows.client import ClientFlow
from .flows.device import DeviceFlow
from .flows.household import HouseholdFlow
from .flows.member import MemberFlow
from .flows.options import HouseholdOptionsFlow
from .flows.server import ServerFlow
from .flows.wrapped_agent import WrappedAgentFlow


class FairShareConfigFlow(HouseholdFlow, domain=DOMAIN):
    """The household's dialog and the way to all others."""

    VERSION = 1

    @classmethod
    @callback
    @override
    def async_get_supported_subentry_types(
        cls, config_entry: ConfigEntry
    ) -> dict[str, type[ConfigSubentryFlow]]:
        """Return what can be added to a household."""
        return {
            SUBENTRY_SERVER: ServerFlow,
            SUBENTRY_MEMBER: MemberFlow,
            SUBENTRY_DEVICE: DeviceFlow,
            SUBENTRY_AGENT: AgentFlow,
            SUBENTRY_AI_TASK: TaskFlow,
            SUBENTRY_WRAPPED_AGENT: WrappedAgentFlow,
            SUBENTRY_CLIENT: ClientFlow,
        }

    @staticmethod
    @callback
    @override
    def async_get_options_flow(config_entry: ConfigEntry) -> OptionsFlow:
        """Return the dialog for the household's rules."""
        return HouseholdOptionsFlow()
