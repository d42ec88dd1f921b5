"""When each client of the gateway was used, and from how many places lately."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from homeassistant.core import HomeAssistant
from homeassistant.helpers.storage import Store
from homeassistant.util import dt as dt_util

from ..const import DOMAIN

_VERSION = 1
_SAVE_WITHIN_S = 60.0
_LATELY = timedelta(hours=1)
_MOST_PLACES = 16

UNUSED_AFTER = timedelta(days=30)
"""A key that nobody used for so long is probably forgotten."""

SHARED_FROM = 3
"""From so many addresses within an hour comes more than one program."""


@dataclass(slots=True)
class _Use:
    """``since`` is when the client was first seen here, ``last`` when it was used."""

    since: datetime
    last: datetime | None = None
    places: dict[str, datetime] = field(default_factory=dict)


class ClientUse:
    """Remembers the last use of each client over restarts, where from for an hour.

    Addresses are never written to a file.
    """

    def __init__(self, hass: HomeAssistant, entry_id: str) -> None:
        """Name the file; nothing is read or written yet."""
        self._store: Store[dict[str, Any]] = Store(
            hass, _VERSION, f"{DOMAIN}.{entry_id}.clients", atomic_writes=True
        )
        self._uses: dict[str, _Use] = {}

    async def async_load(self) -> None:
        """Read what was known before."""
        for client_id, stored in ((await self._store.async_load()) or {}).items():
            since, last = (_moment(stored.get(key)) for key in ("since", "last"))
            if since is not None:
                self._uses[client_id] = _Use(since, last)

    async def async_stop(self) -> None:
        """Write what is known."""
        await self._store.async_save(self._export())

    async def async_remove(self) -> None:
        """Forget it all, on disk too."""
        await self._store.async_remove()

    def follow(self, client_ids: Iterable[str]) -> None:
        """Know these clients, and no others."""
        now = dt_util.utcnow()
        self._uses = {
            client_id: self._uses.get(client_id) or _Use(now)
            for client_id in client_ids
        }

    def note(self, client_id: str, address: str) -> None:
        """Note that a client has sent a request from an address."""
        use, now = self._uses[client_id], dt_util.utcnow()
        use.last = now
        use.places.pop(address, None)
        use.places[address] = now
        if len(use.places) > _MOST_PLACES:
            del use.places[next(iter(use.places))]
        self._store.async_delay_save(self._export, _SAVE_WITHIN_S)

    def last(self, client_id: str) -> datetime | None:
        """Return when a client was used, ``None``: never. Raises ``KeyError``."""
        return self._uses[client_id].last

    def is_unused(self, client_id: str) -> bool:
        """Whether a client was not used for long. Raises ``KeyError``."""
        use = self._uses[client_id]
        return dt_util.utcnow() - (use.last or use.since) >= UNUSED_AFTER

    def is_shared(self, client_id: str) -> bool:
        """Whether one key came from several places lately. Raises ``KeyError``."""
        since = dt_util.utcnow() - _LATELY
        places = self._uses[client_id].places.values()
        return sum(seen >= since for seen in places) >= SHARED_FROM

    def _export(self) -> dict[str, Any]:
        return {
            client_id: {
                "since": use.since.isoformat(),
                "last": None if use.last is None else use.last.isoformat(),
            }
            for client_id, use in self._uses.items()
        }


def _moment(stored: object) -> datetime | None:
    """Return a moment that was written, ``None`` if this is none."""
    moment = dt_util.parse_datetime(stored) if isinstance(stored, str) else None
    return None if moment is None or moment.tzinfo is None else moment
