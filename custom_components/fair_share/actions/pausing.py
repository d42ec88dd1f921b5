"""Actions that hold back a member, a device or a kind of requests."""

from homeassistant.const import ATTR_DEVICE_ID
from homeassistant.core import ServiceCall
from homeassistant.helpers import config_validation as cv
from homeassistant.util.json import JsonObjectType
import voluptuous as vol

from ..admission.model import Workload
from ..const import CONF_WORKLOAD
from ..household.changes import async_pause, async_resume
from ..household.report import paused_report
from ..household.runtime import Household
from .mistakes import mistake
from .schemas import HOUSEHOLD
from .targets import node_ids

_INTERRUPT = "interrupt"

RESUME = {
    **HOUSEHOLD,
    vol.Optional(ATTR_DEVICE_ID, default=[]): vol.All(cv.ensure_list, [str]),
    vol.Optional(CONF_WORKLOAD, default=[]): vol.All(
        cv.ensure_list, [vol.Coerce(Workload)]
    ),
}
PAUSE = {**RESUME, vol.Optional(_INTERRUPT, default=False): cv.boolean}


async def async_pause_some(household: Household, call: ServiceCall) -> JsonObjectType:
    """Let nothing of these start; what runs ends, or is left to go on later.

    Raises ``ServiceValidationError`` when nothing is named.
    """
    targets = node_ids(household, call.data[ATTR_DEVICE_ID])
    workloads = call.data[CONF_WORKLOAD]
    if not targets and not workloads:
        raise mistake("nothing_to_pause")
    async_pause(household, targets, workloads)
    if call.data[_INTERRUPT]:
        household.queue.interrupt_paused()
    return paused_report(household)


async def async_resume_some(household: Household, call: ServiceCall) -> JsonObjectType:
    """Let these go on, or all that is paused if nothing is named."""
    targets = node_ids(household, call.data[ATTR_DEVICE_ID])
    workloads = call.data[CONF_WORKLOAD]
    if not targets and not workloads:
        rules = household.settings
        async_resume(household, rules.paused_nodes, rules.paused_workloads)
    else:
        async_resume(household, targets, workloads)
    return paused_report(household)
