"""The servers of a household: watched, and open for starts while they are ready."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from homeassistant.config_entries import SOURCE_REAUTH, ConfigEntry, ConfigSubentry
from homeassistant.const import CONF_API_KEY, CONF_MODEL, CONF_URL
from homeassistant.core import HomeAssistant
from homeassistant.helpers.aiohttp_client import async_get_clientsession

from ..admission.model import ServerCapacity
from ..admission.queue import AdmissionQueue
from ..const import CONF_KIND, CONF_SCHEDULING, SCHEDULING_NONE, SUBENTRY_SERVER
from ..engines.base import EngineKind, GenerationRequest
from ..engines.open_answer import OpenAnswer
from ..engines.probe import create_engine
from ..engines.scheduling_fields import Scheduling, fairness_id
from .drain import READING_LIMIT_S, WRITING_LIMIT_S, drained
from .load_watch import LoadWatch
from .placement import servers_for
from .watched import ServerState, ServerView, WatchedServer

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ServerPool", "ServerState", "ServerView", "WatchedServer"]

_FIRST_CHECK_PATIENCE_S = 3.0
_SERVER_ID = "server_id"


class ServerPool:
    """All servers of one household, by the id of their subentry."""

    def __init__(
        self,
        hass: HomeAssistant,
        entry: ConfigEntry,
        queue: AdmissionQueue,
        on_change: Callable[[str], None],
    ) -> None:
        """Know no server yet; ``on_change`` is called with the id of a changed one."""
        self._hass = hass
        self._entry = entry
        self._queue = queue
        self._on_change = on_change
        self._watched: dict[str, WatchedServer] = {}
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}
        self._draining: Counter[str] = Counter()

    async def async_start(self) -> None:
        """Watch the configured servers; give them a moment to prove ready."""
        self.apply()
        checks = [
            asyncio.ensure_future(server.checked.wait())
            for server in self._watched.values()
        ]
        if checks:
            _, late = await asyncio.wait(checks, timeout=_FIRST_CHECK_PATIENCE_S)
            for check in late:
                check.cancel()

    def apply(self) -> None:
        """Follow the subentries: watch new servers, forget removed ones."""
        subentries = {
            subentry.subentry_id: subentry
            for subentry in self._entry.subentries.values()
            if subentry.subentry_type == SUBENTRY_SERVER
        }
        for server_id in [*self._watched]:
            if server_id not in subentries:
                self._forget(server_id)
                self._queue.remove_server(server_id)
                self._end_reauth(server_id)
        for server_id, subentry in subentries.items():
            self._follow(server_id, subentry)

    def stop(self) -> None:
        """Watch nothing any more."""
        for server_id in [*self._watched]:
            self._forget(server_id)

    def get(self, server_id: str) -> WatchedServer:
        """Return a server. Raises ``KeyError`` when it was removed."""
        return self._watched[server_id]

    def ready(self) -> Iterable[WatchedServer]:
        """Return the servers that can answer now."""
        return [
            server
            for server in self._watched.values()
            if server.state is ServerState.READY
        ]

    def capacities(self) -> list[ServerCapacity]:
        """Return what each server can hold that was ever seen."""
        found = (server.capacity() for server in self._watched.values())
        return [capacity for capacity in found if capacity is not None]

    def fairness_id(self, member_id: str) -> str:
        """Return what stands for a member before servers that schedule by members."""
        return fairness_id(self._entry.entry_id, member_id)

    def able(self, answer: OpenAnswer) -> frozenset[str]:
        """Return the servers that can go on with an answer, if they are ready."""
        return frozenset(
            server_id
            for server_id, server in self._watched.items()
            if server.capabilities is not None
            and answer.can_go_on_at(server.capabilities.resume)
        )

    def able_for(self, request: GenerationRequest) -> frozenset[str] | None:
        """Return the servers that are able to answer a request, ``None`` if all are.

        Raises ``Rejected`` if none is.
        """
        able = servers_for(request, self.statuses())
        return None if able == self._watched.keys() else able

    def others(
        self, server_id: str | None, among: frozenset[str] | None
    ) -> frozenset[str]:
        """Return which of these servers (``None``: of all) are ready, but this one."""
        ready = {server.subentry.subentry_id for server in self.ready()} - {server_id}
        return frozenset(ready if among is None else ready & among)

    def drain(self, server_id: str) -> None:
        """Start nothing on one slot until the server is done with what was left."""
        server = self._watched.get(server_id)
        if server is None:
            return
        self._queue.hold_slot(server_id)
        self._draining[server_id] += 1
        self._entry.async_create_background_task(
            self._hass,
            self._async_drain(server),
            f"fair_share drain {server.subentry.title}",
        )

    async def async_left(self, server_id: str, *, reading: bool) -> None:
        """Return when a server has let go of an answer that the queue still counts.

        ``reading`` tells that it had not begun to write.
        """
        if server := self._watched.get(server_id):
            await drained(
                server.engine,
                lambda: self._running(server) - 1,
                limit_s=READING_LIMIT_S if reading else WRITING_LIMIT_S,
            )

    def _running(self, server: WatchedServer) -> int:
        """Return how many requests a server runs, ours and those from elsewhere."""
        server_id = server.subentry.subentry_id
        servers = self._queue.status().servers
        ours = sum(each.running for each in servers if each.server_id == server_id)
        return ours + (server.foreign or 0)

    async def _async_drain(self, server: WatchedServer) -> None:
        server_id = server.subentry.subentry_id
        try:
            await drained(server.engine, lambda: self._running(server))
        finally:
            self._draining[server_id] -= 1
            self._queue.free_slot(server_id)

    def statuses(self) -> list[ServerView]:
        """Return a snapshot of every server."""
        return [server.view() for server in self._watched.values()]

    def _follow(self, server_id: str, subentry: ConfigSubentry) -> None:
        known = self._watched.get(server_id)
        if known is not None:
            if known.data == subentry.data:
                return
            self._forget(server_id)
            self._queue.close_server(server_id)
        engine = create_engine(
            async_get_clientsession(self._hass),
            subentry.data[CONF_URL],
            subentry.data.get(CONF_API_KEY),
            EngineKind(subentry.data[CONF_KIND]),
            model=subentry.data.get(CONF_MODEL),
            scheduling=Scheduling(subentry.data.get(CONF_SCHEDULING, SCHEDULING_NONE)),
        )
        server = WatchedServer(
            subentry,
            engine,
            lambda: self._async_state(server),
            self._queue.clock.monotonic,
        )
        load = LoadWatch(
            server,
            self._queue,
            lambda: self._draining[server_id],
            lambda: self._on_change(server_id),
        )
        self._watched[server_id] = server
        self._tasks[server_id] = [
            self._entry.async_create_background_task(
                self._hass, watch, f"fair_share watch {subentry.title}"
            )
            for watch in (server.watch(), load.watch())
        ]

    def _forget(self, server_id: str) -> None:
        del self._watched[server_id]
        for task in self._tasks.pop(server_id):
            task.cancel()

    def _async_state(self, server: WatchedServer) -> None:
        server_id = server.subentry.subentry_id
        if self._watched.get(server_id) is not server:
            return
        capacity = server.capacity()
        if server.state is ServerState.READY and capacity is not None:
            self._queue.put_server(capacity)
            self._end_reauth(server_id)
        else:
            self._queue.close_server(server_id)
        if server.state is ServerState.AUTH_FAILED:
            self._entry.async_start_reauth(
                self._hass,
                context={"source": SOURCE_REAUTH},
                data={_SERVER_ID: server_id},
            )
        self._on_change(server_id)

    def _end_reauth(self, server_id: str) -> None:
        """Ask no longer for a key that is not needed any more."""
        flows = self._hass.config_entries.flow
        for flow in flows.async_progress_by_init_data_type(
            dict, lambda data: data.get(_SERVER_ID) == server_id
        ):
            flows.async_abort(flow["flow_id"])
