"""The servers of a household: watched, and open for starts while they are ready."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
import logging
from typing import TYPE_CHECKING

from homeassistant.config_entries import SOURCE_REAUTH, ConfigEntry, ConfigSubentry
from homeassistant.const import CONF_API_KEY, CONF_MODEL, CONF_URL
from homeassistant.core import HomeAssistant
from homeassistant.helpers.aiohttp_client import async_get_clientsession

from ..admission.model import ServerCapacity
from ..admission.queue import AdmissionQueue
from ..const import (
    CONF_CONTEXT_TOKENS,
    CONF_KIND,
    CONF_MEMORY,
    CONF_SCHEDULING,
    CONF_SLOTS,
    MEMORY_SEPARATE,
    SCHEDULING_NONE,
    SUBENTRY_SERVER,
)
from ..engines.base import (
    AuthError,
    BusyError,
    Capabilities,
    Engine,
    EngineError,
    EngineKind,
    LoadingError,
    NotAnEngineError,
)
from ..engines.open_answer import OpenAnswer
from ..engines.probe import create_engine
from ..engines.scheduling_fields import Scheduling, fairness_id
from .drain import READING_LIMIT_S, WRITING_LIMIT_S, drained

if TYPE_CHECKING:
    from collections.abc import Iterable

_LOGGER = logging.getLogger(__name__)

_CHECK_READY_S = 60.0
_CHECK_AWAY_S = 5.0
_CHECK_LOADING_S = 1.0
_FIRST_CHECK_PATIENCE_S = 3.0
_FALLBACK_CONTEXT_TOKENS = 4096
_SERVER_ID = "server_id"


class ServerState(StrEnum):
    """What a household needs to know of a server."""

    READY = "ready"
    LOADING = "loading"
    UNREACHABLE = "unreachable"
    AUTH_FAILED = "auth_failed"
    WRONG_SERVER = "wrong_server"


@dataclass(frozen=True, slots=True)
class ServerView:
    """A snapshot of one server; ``detail`` is that of its last error."""

    server_id: str
    title: str
    state: ServerState
    capabilities: Capabilities | None
    detail: str


class WatchedServer:
    """One server and the task that looks after it."""

    def __init__(
        self, subentry: ConfigSubentry, engine: Engine, on_state: Callable[[], None]
    ) -> None:
        """Watch the server of ``subentry``; ``on_state`` is called on each change."""
        self.subentry = subentry
        # A copy: Home Assistant changes a subentry in place.
        self.data = dict(subentry.data)
        self.engine = engine
        self.state = ServerState.UNREACHABLE
        self.capabilities: Capabilities | None = None
        self.detail = ""
        self.checked = asyncio.Event()
        self._surprises: set[str] = set()
        self._on_state = on_state
        self._wake = asyncio.Event()

    async def watch(self) -> None:
        """Check the server for ever, more often while it is not ready."""
        while True:
            try:
                await self._check()
            except Exception as err:  # noqa: BLE001 - a server left alone is lost
                self._note_surprise(err)
            self.checked.set()
            try:
                async with asyncio.timeout(self._pause_s()):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()
            if self.state is ServerState.LOADING:
                await asyncio.sleep(_CHECK_LOADING_S)

    def report(self, error: EngineError) -> None:
        """Take note of a request's failure that says something about the server."""
        if error.server_fault or isinstance(
            error, AuthError | LoadingError | BusyError
        ):
            self._note_failure(error)
            self._wake.set()

    def capacity(self) -> ServerCapacity | None:
        """Return what the queue may place here, ``None`` before it was ever seen."""
        known = self.capabilities
        if known is None:
            return None
        declared_slots = self.data.get(CONF_SLOTS)
        declared_context = self.data.get(CONF_CONTEXT_TOKENS)
        own_memory = self.data.get(CONF_MEMORY) == MEMORY_SEPARATE
        return ServerCapacity(
            server_id=self.subentry.subentry_id,
            slots=_smallest(declared_slots, known.slots) or 1,
            context_tokens=_smallest(declared_context, known.context_tokens)
            or _FALLBACK_CONTEXT_TOKENS,
            kv_tokens=None if own_memory else known.kv_tokens,
            block_tokens=known.block_tokens,
            survives_exhaustion=known.survives_exhaustion,
        )

    def view(self) -> ServerView:
        """Return a snapshot."""
        return ServerView(
            self.subentry.subentry_id,
            self.subentry.title,
            self.state,
            self.capabilities,
            self.detail,
        )

    async def _check(self) -> None:
        try:
            capabilities = await self.engine.probe()
        except EngineError as err:
            self._note_failure(err)
            return
        if self.state is not ServerState.READY:
            _LOGGER.info("The server %s is ready", self.subentry.title)
        self.capabilities = capabilities
        self.state, self.detail = ServerState.READY, ""
        self._on_state()

    def _note_failure(self, error: EngineError) -> None:
        state = _state_after(error)
        if state is not self.state or not self.checked.is_set():
            _LOGGER.info(
                "The server %s is not ready (%s): %s",
                self.subentry.title,
                state.value,
                error.detail,
            )
        self.state, self.detail = state, error.detail
        self._on_state()

    def _note_surprise(self, error: Exception) -> None:
        """Take what nobody thought of for a failure of the server; log each kind once.

        Its text is not logged: it may repeat what the server sent.
        """
        kind = type(error).__name__
        if kind not in self._surprises:
            self._surprises.add(kind)
            _LOGGER.error(
                "Checking the server %s failed in a way that is not provided for (%s)",
                self.subentry.title,
                kind,
            )
        self.capabilities = None
        self.state, self.detail = ServerState.UNREACHABLE, kind
        self._on_state()

    def _pause_s(self) -> float:
        match self.state:
            case ServerState.READY:
                return _CHECK_READY_S
            case ServerState.LOADING:
                return _CHECK_LOADING_S
            case _:
                return _CHECK_AWAY_S


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
        self._tasks: dict[str, asyncio.Task[None]] = {}

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

    def drain(self, server_id: str) -> None:
        """Start nothing on one slot until the server is done with what was left."""
        server = self._watched.get(server_id)
        if server is None:
            return
        self._queue.hold_slot(server_id)
        self._entry.async_create_background_task(
            self._hass,
            self._async_drain(server_id, server.engine),
            f"fair_share drain {server.subentry.title}",
        )

    async def async_left(self, server_id: str, *, reading: bool) -> None:
        """Return when a server has let go of an answer that the queue still counts.

        ``reading`` tells that it had not begun to write.
        """
        if server := self._watched.get(server_id):
            await drained(
                server.engine,
                lambda: self._running(server_id) - 1,
                limit_s=READING_LIMIT_S if reading else WRITING_LIMIT_S,
            )

    def _running(self, server_id: str) -> int:
        servers = self._queue.status().servers
        return sum(each.running for each in servers if each.server_id == server_id)

    async def _async_drain(self, server_id: str, engine: Engine) -> None:
        try:
            await drained(engine, lambda: self._running(server_id))
        finally:
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
        server = WatchedServer(subentry, engine, lambda: self._async_state(server))
        self._watched[server_id] = server
        self._tasks[server_id] = self._entry.async_create_background_task(
            self._hass, server.watch(), f"fair_share watch {subentry.title}"
        )

    def _forget(self, server_id: str) -> None:
        del self._watched[server_id]
        self._tasks.pop(server_id).cancel()

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


def _state_after(error: EngineError) -> ServerState:
    match error:
        case AuthError():
            return ServerState.AUTH_FAILED
        case LoadingError() | BusyError():
            return ServerState.LOADING
        case NotAnEngineError():
            return ServerState.WRONG_SERVER
        case _:
            return ServerState.UNREACHABLE


def _smallest(declared: int | None, reported: int | None) -> int | None:
    known = [int(value) for value in (declared, reported) if value]
    return min(known, default=None)
