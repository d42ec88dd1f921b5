"""One server: how it is looked after, and what a household knows of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
import hashlib
import json
import logging

from homeassistant.config_entries import ConfigSubentry

from ..admission.model import ServerCapacity
from ..const import (
    CONF_CONTEXT_TOKENS,
    CONF_MEMORY,
    CONF_PATIENT_SLOTS,
    CONF_SLOTS,
    MEMORY_SEPARATE,
)
from ..engines.base import (
    AuthError,
    BusyError,
    Capabilities,
    Engine,
    EngineError,
    GenerationRequest,
    LoadingError,
    NotAnEngineError,
    StreamCutError,
    UnreachableError,
)
from .health import Breaker, Fault

_LOGGER = logging.getLogger(__name__)

_CHECK_READY_S = 60.0
_CHECK_AWAY_S = 5.0
_CHECK_LOADING_S = 1.0
_FALLBACK_CONTEXT_TOKENS = 4096


class ServerState(StrEnum):
    """What a household needs to know of a server.

    ``FAILING``: it answers, but its answers failed, and it is left out for a while.
    """

    READY = "ready"
    LOADING = "loading"
    FAILING = "failing"
    UNREACHABLE = "unreachable"
    AUTH_FAILED = "auth_failed"
    WRONG_SERVER = "wrong_server"


@dataclass(frozen=True, slots=True)
class ServerView:
    """A snapshot of one server; ``detail`` is that of its last error.

    ``foreign`` counts requests that run there past the queue, ``None``: not known.
    """

    server_id: str
    title: str
    state: ServerState
    capabilities: Capabilities | None
    detail: str
    foreign: int | None = None


class WatchedServer:
    """One server and the task that looks after it."""

    def __init__(
        self,
        subentry: ConfigSubentry,
        engine: Engine,
        on_state: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        """Watch the server of ``subentry``; ``on_state`` is called on each change.

        ``clock`` tells monotonic seconds.
        """
        self.subentry = subentry
        # A copy: Home Assistant changes a subentry in place.
        self.data = dict(subentry.data)
        self.engine = engine
        self.state = ServerState.UNREACHABLE
        self.capabilities: Capabilities | None = None
        self.detail = ""
        self.foreign: int | None = None
        self.checked = asyncio.Event()
        self.checking = False
        self._health = Breaker()
        self._surprises: set[str] = set()
        self._on_state = on_state
        self._clock = clock
        self._latest_s = clock()
        self._wake = asyncio.Event()

    async def watch(self) -> None:
        """Check the server for ever, more often while it is not ready."""
        while True:
            self.checking = True
            try:
                await self._check()
            except Exception as err:  # noqa: BLE001 - a server left alone is lost
                self._note_surprise(err)
            finally:
                self.checking = False
            self.checked.set()
            pause_s = self._pause_s()
            due_s = self._now() + pause_s
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                # What was to end by then has ended, however exact the timer was.
                self._latest_s = max(self._latest_s, due_s)
                continue
            self._wake.clear()
            if self.state is ServerState.LOADING:
                await asyncio.sleep(_CHECK_LOADING_S)

    def look_again(self) -> None:
        """Check the server now."""
        self._wake.set()

    def report(
        self, error: EngineError, request: GenerationRequest | None = None
    ) -> None:
        """Take note of a request's failure that says something about the server."""
        if isinstance(error, AuthError | LoadingError | BusyError):
            self._note_failure(_state_after(error), error.detail)
        elif not error.server_fault:
            return
        else:
            certain = isinstance(error, UnreachableError)
            fault = Fault.CERTAIN if certain else Fault.SUSPECT
            if self._health.note_fault(fault, _name(request), self._now()):
                state = _state_after(error) if certain else ServerState.FAILING
                self._note_failure(state, error.detail)
            elif isinstance(error, StreamCutError):
                # Most likely it has just died: the check that follows will tell.
                self._note_failure(ServerState.UNREACHABLE, error.detail)
        self._wake.set()

    def note_answered(self) -> None:
        """Take note of an answer that came whole."""
        self._health.note_success()

    def left_out_for_s(self) -> float:
        """Return for how many seconds more it is sent nothing after its faults."""
        return self._health.left_s(self._now())

    def capacity(self) -> ServerCapacity | None:
        """Return what the queue may place here, ``None`` before it was ever seen."""
        known = self.capabilities
        if known is None:
            return None
        declared_slots = self.data.get(CONF_SLOTS)
        declared_context = self.data.get(CONF_CONTEXT_TOKENS)
        own_memory = self.data.get(CONF_MEMORY) == MEMORY_SEPARATE
        patient_slots = self.data.get(CONF_PATIENT_SLOTS)
        return ServerCapacity(
            server_id=self.subentry.subentry_id,
            slots=_smallest(declared_slots, known.slots) or 1,
            context_tokens=_smallest(declared_context, known.context_tokens)
            or _FALLBACK_CONTEXT_TOKENS,
            kv_tokens=None if own_memory else known.kv_tokens,
            block_tokens=known.block_tokens,
            survives_exhaustion=known.survives_exhaustion,
            patient_slots=int(patient_slots) if patient_slots else None,
            learns=not patient_slots,
        )

    def view(self) -> ServerView:
        """Return a snapshot."""
        return ServerView(
            self.subentry.subentry_id,
            self.subentry.title,
            self.state,
            self.capabilities,
            self.detail,
            self.foreign,
        )

    async def _check(self) -> None:
        try:
            capabilities = await self.engine.probe()
        except EngineError as err:
            self._note_failure(_state_after(err), err.detail)
            return
        self.capabilities = capabilities
        if self._health.is_open(self._now()):
            # That it answers a probe does not make good for the requests that failed.
            self._note_failure(ServerState.FAILING, self.detail)
            return
        if self.state is not ServerState.READY:
            _LOGGER.info("The server %s is ready", self.subentry.title)
        self.state, self.detail = ServerState.READY, ""
        self._on_state()

    def _note_failure(self, state: ServerState, detail: str) -> None:
        if state is not self.state or not self.checked.is_set():
            _LOGGER.info(
                "The server %s is not ready (%s): %s",
                self.subentry.title,
                state.value,
                detail,
            )
        self.state, self.detail = state, detail
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

    def _now(self) -> float:
        self._latest_s = max(self._latest_s, self._clock())
        return self._latest_s

    def _pause_s(self) -> float:
        match self.state:
            case ServerState.READY:
                return _CHECK_READY_S
            case ServerState.LOADING:
                return _CHECK_LOADING_S
            case ServerState.FAILING:
                return self.left_out_for_s()
            case _:
                return _CHECK_AWAY_S


def _name(request: GenerationRequest | None) -> str:
    """Return what is the same for every try of a request, and tells nothing of it."""
    content = [] if request is None else [*request.messages, *request.tools]
    text = json.dumps(content, default=str).encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()


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
