"""The household's activity log: what was asked of the queue, without any texts."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
import json
import logging
from pathlib import Path
from typing import NamedTuple

from homeassistant.const import (
    EVENT_HOMEASSISTANT_CLOSE,
    EVENT_HOMEASSISTANT_FINAL_WRITE,
)
from homeassistant.core import CALLBACK_TYPE, Event, HomeAssistant, callback
from homeassistant.helpers.event import async_call_later, async_track_time_interval
from homeassistant.util import dt as dt_util
from homeassistant.util.json import JsonObjectType

from ..admission.model import Ending
from ..const import DOMAIN
from .activity_files import ActivityFiles
from .activity_lines import request_line

_LOGGER = logging.getLogger(__name__)

_WRITE_INTERVAL_S = 5.0
_ENOUGH_LINES = 500
_MOST_LINES = 20_000
"""About 10 MB; so many come together only while the disk hangs."""

_PRUNE_INTERVAL = timedelta(hours=6)
_SEPARATORS = (",", ":")


class _Entry(NamedTuple):
    ending: Ending
    ended_s: float


class ActivityLog:
    """Writes a line for every request that ended, if the household wants that.

    Lines are written in batches, at most 5 s late, and never by the event loop. A
    process that is killed loses no more than that. When the disk refuses, lines are
    dropped and Home Assistant's own log says so. ``describe`` returns the line that
    says how the household is set up now. Files that are too old are deleted also while
    nothing is logged.
    """

    def __init__(
        self, hass: HomeAssistant, entry_id: str, describe: Callable[[], JsonObjectType]
    ) -> None:
        """Name the files; nothing is read or written yet."""
        self._hass = hass
        self._secret = entry_id
        self._describe = describe
        self._files = ActivityFiles(folder(hass))
        self._writing = asyncio.Lock()
        self._entries: list[_Entry] = []
        self._enabled = False
        self._unsub_timer: CALLBACK_TYPE | None = None
        self._unsubs: list[CALLBACK_TYPE] = []
        self._stopped = False
        self._at_once = False
        self._failing = False

    @callback
    def start(self, *, enabled: bool) -> None:
        """Begin to log, if wanted, and to look after the files in any case."""
        self._enabled = enabled
        bus = self._hass.bus
        self._unsubs = [
            bus.async_listen(EVENT_HOMEASSISTANT_FINAL_WRITE, self._async_closing),
            bus.async_listen(EVENT_HOMEASSISTANT_CLOSE, self._async_closing),
            async_track_time_interval(
                self._hass, self._async_prune, _PRUNE_INTERVAL, cancel_on_shutdown=True
            ),
        ]

    @callback
    def follow(self, *, enabled: bool) -> None:
        """Log from now on, or no longer; what was noted before is written."""
        self._enabled = enabled

    @callback
    def note(self, ending: Ending) -> None:
        """Note a request that has just left the queue; costs next to nothing."""
        if not self._enabled:
            return
        if len(self._entries) >= _MOST_LINES:
            self._complain("the disk does not answer")
            return
        self._entries.append(_Entry(ending, dt_util.utcnow().timestamp()))
        if self._at_once or len(self._entries) == _ENOUGH_LINES:
            self._hass.async_create_task(self.async_flush(), "fair_share activity log")
        elif self._unsub_timer is None:
            self._unsub_timer = async_call_later(
                self._hass, _WRITE_INTERVAL_S, self._async_timer
            )

    async def async_flush(self) -> None:
        """Write what was noted, now."""
        if self._unsub_timer is not None:
            self._unsub_timer()
            self._unsub_timer = None
        async with self._writing:
            entries, self._entries = self._entries, []
            if entries:
                await self._async_try(self._write, self._describe(), entries)

    @callback
    def prepare_stop(self) -> None:
        """Keep how the household is set up, before its servers are let go.

        The lines that are still to come are of the household as it was.
        """
        household = self._describe()
        self._describe = lambda: household

    async def async_stop(self) -> None:
        """Write what was noted; what still runs is written as it ends."""
        self._at_once = True
        for unsub in self._unsubs:
            unsub()
        self._unsubs.clear()
        await self.async_flush()
        self._stopped = True

    async def _async_timer(self, _now: datetime) -> None:
        self._unsub_timer = None
        await self.async_flush()

    async def _async_closing(self, _event: Event) -> None:
        # Timers do not fire any more.
        self._at_once = True
        await self.async_flush()

    async def _async_prune(self, _now: datetime) -> None:
        async with self._writing:
            await self._async_try(self._files.prune, dt_util.now().date())

    async def _async_try[*Given](
        self, work: Callable[[*Given], None], *given: *Given
    ) -> None:
        try:
            await self._hass.async_add_executor_job(work, *given)
        except OSError as err:
            self._complain(str(err))
        else:
            self._failing = False

    def _complain(self, reason: str) -> None:
        if not self._failing:
            _LOGGER.warning("The activity log loses lines: %s", reason)
        self._failing = True

    def _write(self, household: JsonObjectType, entries: list[_Entry]) -> None:
        lines = [
            _text(request_line(entry.ending, entry.ended_s, self._secret))
            for entry in entries
        ]
        # After the stop the household may have been deleted, and its files with it.
        self._files.append(
            _text(household), lines, dt_util.now().date(), create=not self._stopped
        )


def folder(hass: HomeAssistant) -> Path:
    """Return where the files of the activity log are."""
    return Path(hass.config.path(DOMAIN))


async def async_remove_log(hass: HomeAssistant) -> None:
    """Delete all that was ever logged."""
    await hass.async_add_executor_job(ActivityFiles(folder(hass)).remove)


def _text(line: JsonObjectType) -> str:
    return json.dumps(line, separators=_SEPARATORS, allow_nan=False)
