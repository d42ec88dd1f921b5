"""Having a server read how voice commands begin, before anybody waits for it.

The system prompt and the tools of a home's agent are long, and alike for every command:
a server that has them in its cache answers at once. They are read into idle capacity
only: when a server comes up, when a satellite begins to listen, and when they have
probably been thrown out by other work. Whatever else comes along goes first.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
import logging
from typing import Any

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import CALLBACK_TYPE, HomeAssistant, callback

from ..admission.model import Rejected, Workload
from ..admission.queue import AdmissionQueue
from ..admission.status import ServerStatus
from ..const import SHARED_ID
from ..engines.base import Delta, EngineError
from .asker import Asker, IdentityRule
from .generation import Ask
from .openings import Opening
from .prefixes import PrefixMemory

type Source = Callable[[], Awaitable[Opening | None]]
type Generate = Callable[[Ask], AbstractAsyncContextManager[AsyncIterator[Delta]]]

_LOGGER = logging.getLogger(__name__)

_QUIET_S = 2.0
"""For so long nothing has to happen before something is read ahead."""

_LIMIT_S = 120.0

WARM_UP = Asker(
    SHARED_ID, f"{SHARED_ID}/warm_up", None, Workload.BACKGROUND, IdentityRule.HOUSE
)
"""Reading ahead is for everybody, and charged to what the household shares."""


class WarmUp:
    """Keeps the openings of voice agents in the caches of idle servers."""

    def __init__(
        self,
        hass: HomeAssistant,
        entry: ConfigEntry,
        queue: AdmissionQueue,
        prefixes: PrefixMemory,
        generate: Generate,
    ) -> None:
        """``generate`` must not be the one that calls ``give_way``."""
        self._hass = hass
        self._entry = entry
        self._queue = queue
        self._prefixes = prefixes
        self._generate = generate
        self._sources: list[Source] = []
        self._given_up: set[tuple[str, str]] = set()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @callback
    def async_add_source(self, source: Source) -> CALLBACK_TYPE:
        """Keep what ``source`` gives in the caches; it may give ``None``.

        Returns what takes it back.
        """
        self._sources.append(source)
        self.async_look()
        return lambda: self._sources.remove(source)

    @callback
    def async_look(self) -> None:
        """Read ahead what is missing once the house has been quiet for a moment."""
        self._cancel_timer()
        if self._sources and not self._queue.closed:
            self._timer = self._hass.loop.call_later(_QUIET_S, self._begin)

    @callback
    def async_forget_server(self, server_id: str) -> None:
        """Try again on a server where reading ahead failed: it will be another."""
        self._given_up = {each for each in self._given_up if each[0] != server_id}

    @callback
    def async_prepare(self, opening: Opening) -> None:
        """Read ahead an opening that will be needed in a moment."""
        self._cancel_timer()
        if not self._reads:
            self._start(self._async_read(opening, self._with_a_free_slot))

    @callback
    def async_give_way(self) -> None:
        """Stop reading ahead: somebody is waiting for an answer."""
        if self._task is not None:
            self._task.cancel()

    @callback
    def async_stop(self) -> None:
        """Read nothing ahead any more."""
        self._sources.clear()
        self._cancel_timer()
        self.async_give_way()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._timer = None
        if not self._reads and self._idle():
            self._start(self._async_read_all())

    @property
    def _reads(self) -> bool:
        return self._task is not None and not self._task.done()

    def _start(self, reading: Coroutine[Any, Any, None]) -> None:
        self._task = self._entry.async_create_background_task(
            self._hass, reading, "fair_share warm up"
        )

    async def _async_read_all(self) -> None:
        for source in [*self._sources]:
            if (opening := await source()) is not None:
                await self._async_read(opening, self._idle)

    async def _async_read(
        self, opening: Opening, places: Callable[[], list[str]]
    ) -> None:
        """Read an opening where it is missing, as long as there are ``places``."""
        opening_id = opening.opening_id
        while missing := [
            server_id
            for server_id in places()
            if (server_id, opening_id) not in self._given_up
            and not self._prefixes.has_opening(opening_id, server_id)
        ]:
            # Whatever goes wrong, it is not tried for ever.
            self._given_up.add((missing[0], opening_id))
            await self._async_read_on(missing[0], opening)
            if self._prefixes.has_opening(opening_id, missing[0]):
                self._given_up.discard((missing[0], opening_id))

    async def _async_read_on(self, server_id: str, opening: Opening) -> None:
        ask = Ask(
            asker=WARM_UP,
            workload=Workload.BACKGROUND,
            request=opening.request,
            servers=frozenset((server_id,)),
        )
        try:
            async with asyncio.timeout(_LIMIT_S), self._generate(ask) as deltas:
                async for _ in deltas:
                    pass
        except (TimeoutError, Rejected, EngineError) as err:
            _LOGGER.debug("Reading ahead failed (%s)", type(err).__name__)
        except asyncio.CancelledError:
            self._given_up.discard((server_id, opening.opening_id))
            raise

    def _idle(self) -> list[str]:
        """Return the servers that do nothing."""
        return [s.server_id for s in self._usable() if not s.running + s.foreign]

    def _with_a_free_slot(self) -> list[str]:
        return [s.server_id for s in self._usable() if s.running + s.foreign < s.slots]

    def _usable(self) -> list[ServerStatus]:
        """Return the servers for which nobody waits."""
        status = self._queue.status()
        return [] if status.waiting else [s for s in status.servers if s.usable]
