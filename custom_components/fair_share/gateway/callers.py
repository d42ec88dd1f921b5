"""Who asks through the gateway: by a key of a client, or a token of Home Assistant."""

from dataclasses import dataclass
from ipaddress import ip_address

from aiohttp import web
from homeassistant.core import Context, HomeAssistant
from homeassistant.helpers.network import is_cloud_connection
from homeassistant.util.network import is_local

from ..admission.model import Workload
from ..household.asker import Asker
from ..household.client_keys import client_of_key
from ..household.clients import ClientConfig
from ..household.runtime import Household
from . import errors
from .lockout import Lockout
from .pace import Paces

_BEARER = "bearer "
_KEY_HEADERS = ("x-api-key", "api-key")
_MINUTE_S = 60.0
_MOST_CLIENTS = 1024
_USER = "hass_user"
"""Where Home Assistant puts the user of a token that it knows."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and for what at most: ``workload`` is the most urgent that they may.

    ``client`` is the program, ``None`` for a user of Home Assistant.
    """

    asker: Asker
    workload: Workload
    client: ClientConfig | None = None


class Callers:
    """Tells callers by what they send. ``Lockout`` and pace are kept here."""

    def __init__(self, hass: HomeAssistant) -> None:
        """Have seen nobody."""
        self._hass = hass
        self._lockout = Lockout()
        self._paces = Paces(_MOST_CLIENTS)

    def identify(
        self, request: web.Request, household: Household, now: float
    ) -> Caller:
        """Return who sends a request.

        Raises ``ApiError`` for a wrong key, and for one that may not come from where
        it does. Never answers in a way that Home Assistant takes for a failed login.
        """
        key = _key_of(request)
        client = client_of_key(key, household.registry.clients.values())
        if client is not None:
            if not client.from_outside and self._is_outside(request):
                raise errors.outside()
            household.client_use.note(client.client_id, request.remote or "")
            return Caller(client.asker, client.workload, client)
        if (user := request.get(_USER)) is not None:
            if self._is_outside(request):
                raise errors.outside()
            asker = household.identity.resolve(Context(user_id=user.id), None, None)
            return Caller(asker, Workload.CHAT)
        raise errors.wrong_key(self._lockout.note_wrong(request.remote or "", now))

    def keep_pace(self, caller: Caller, now: float) -> int | None:
        """Count a request; return how many more may follow at once, if limited.

        Raises ``ApiError`` if there were too many.
        """
        client = caller.client
        if client is None or client.requests_per_minute is None:
            return None
        most = client.requests_per_minute
        bucket = self._paces.bucket(client.client_id, most, most / _MINUTE_S, now)
        if (wait_s := bucket.wait_s(now)) > 0:
            raise errors.too_fast(wait_s)
        bucket.take()
        return int(bucket.held)

    def _is_outside(self, request: web.Request) -> bool:
        try:
            at_home = is_local(ip_address(request.remote or ""))
        except ValueError:
            return True
        return not at_home or is_cloud_connection(self._hass)


def _key_of(request: web.Request) -> str:
    told = request.headers.get("Authorization", "")
    if told.lower().startswith(_BEARER):
        return told[len(_BEARER) :].strip()
    return next((request.headers[h] for h in _KEY_HEADERS if h in request.headers), "")
