"""The action that cancels a request."""

from homeassistant.core import ServiceCall
import voluptuous as vol

from ..const import GUEST_ID
from ..household.permission import NotAllowed, async_is_free
from ..household.runtime import Household
from .mistakes import mistake
from .schemas import HOUSEHOLD

_REQUEST_ID = "request_id"

CANCEL_REQUEST = {**HOUSEHOLD, vol.Required(_REQUEST_ID): str}


async def async_cancel_request(household: Household, call: ServiceCall) -> None:
    """Cancel a request that waits or runs. Members may cancel their own.

    Raises ``ServiceValidationError`` when there is none of that id (any more), and
    ``NotAllowed``.
    """
    request_id = call.data[_REQUEST_ID]
    is_free = await async_is_free(household.hass, call.context)
    # Nothing is awaited from here on: the request can't end in between.
    found = next(
        (r for r in household.status().requests if r.request_id == request_id), None
    )
    if not is_free:
        asker = household.identity.resolve(call.context, None, None)
        owners = household.owners(found.class_id) if found else ()
        if asker.member_id == GUEST_ID or asker.member_id not in owners:
            raise NotAllowed(call.context, "not_your_request")
    if found is None:
        raise mistake("request_not_found", {"request_id": request_id})
    household.queue.cancel(request_id)
