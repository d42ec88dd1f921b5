"""The accounts on disk: what of the queue's state outlives a restart."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
import logging
import math
from pathlib import Path
from typing import Any, override

from homeassistant.const import EVENT_HOMEASSISTANT_FINAL_WRITE
from homeassistant.core import CALLBACK_TYPE, Event, HomeAssistant, callback
from homeassistant.exceptions import (
    ConfigEntryNotReady,
    HomeAssistantError,
    UnsupportedStorageVersionError,
)
from homeassistant.helpers.event import async_call_later
from homeassistant.helpers.storage import Store
from homeassistant.util import dt as dt_util

from ..admission.model import QuotaWindow, TokenCount
from ..admission.state import LedgerState, NodeState
from ..const import DOMAIN

_LOGGER = logging.getLogger(__name__)

_VERSION = 1
_MINOR_VERSION = 3
_SAVE_INTERVAL_S = 3.0
_YEARS = range(1969, 9000)
"""A machine without a clock starts in 1970; far from the ends all zones can tell."""


class _LedgerStore(Store[dict[str, Any]]):
    @override
    async def _async_migrate_func(
        self,
        old_major_version: int,
        old_minor_version: int,
        old_data: dict[str, Any],
    ) -> dict[str, Any]:
        # Minor versions only add keys, and what is not known is ignored.
        if (old_major_version, old_minor_version) == (1, 1):
            for node in old_data["nodes"]:
                _add_missing_of_1_1(node)
        return old_data


class Ledger:
    """Keeps the accounts of one household in a file, at most seconds behind.

    After a change the file is written within 3 s, however many further changes come:
    a process that is killed loses no more than that and the time of one write. (The
    store's own delayed save would be put off by every change.) Writes are atomic, so a
    kill in the middle of one leaves the file before it.
    """

    def __init__(self, hass: HomeAssistant, entry_id: str) -> None:
        """Name the file; nothing is read or written yet."""
        self._hass = hass
        self._store = _LedgerStore(
            hass,
            _VERSION,
            f"{DOMAIN}.{entry_id}",
            atomic_writes=True,
            minor_version=_MINOR_VERSION,
        )
        self._export: Callable[[], LedgerState] | None = None
        self._unsub_final_write: CALLBACK_TYPE | None = None
        self._unsub_timer: CALLBACK_TYPE | None = None
        self._dirty = False

    async def async_load(self) -> LedgerState | None:
        """Return the stored accounts, ``None`` if there are none.

        A file that cannot be understood, or was written by a later major version, is
        kept under another name, and the accounts start afresh.

        Raises ``ConfigEntryNotReady`` if the file is there but the system does not let
        it be read, or be kept.
        """
        try:
            try:
                data = await self._store.async_load()
                return None if data is None else _decode(data)
            except (
                ArithmeticError,
                AttributeError,
                LookupError,
                TypeError,
                ValueError,
                UnsupportedStorageVersionError,
            ) as err:
                await self._async_set_aside(err)
                return None
        except (HomeAssistantError, OSError) as err:
            raise ConfigEntryNotReady(
                translation_domain=DOMAIN,
                translation_key="accounts_not_readable",
                translation_placeholders={
                    "path": self._store.path,
                    "error": str(err),
                },
            ) from err

    @callback
    def start(self, export: Callable[[], LedgerState]) -> None:
        """Begin to keep the accounts; ``export`` returns them as they are now."""
        self._export = export
        self._unsub_final_write = self._hass.bus.async_listen_once(
            EVENT_HOMEASSISTANT_FINAL_WRITE, self._async_final_write
        )

    @callback
    def mark_dirty(self) -> None:
        """Note that the accounts have changed; cheap enough for every token."""
        self._dirty = True
        if self._unsub_timer is None and self._export is not None:
            self._unsub_timer = async_call_later(
                self._hass, _SAVE_INTERVAL_S, self._async_timer
            )

    async def async_flush(self) -> None:
        """Write the accounts now, if they have changed."""
        if self._unsub_timer is not None:
            self._unsub_timer()
            self._unsub_timer = None
        if self._dirty and self._export is not None:
            self._dirty = False
            await self._store.async_save(_encode(self._export()))

    async def async_stop(self) -> None:
        """Write what has changed, and no longer listen."""
        await self.async_flush()
        self._export = None
        if self._unsub_final_write is not None:
            self._unsub_final_write()
            self._unsub_final_write = None

    async def async_remove(self) -> None:
        """Delete the file."""
        await self._store.async_remove()

    async def _async_timer(self, _now: datetime) -> None:
        self._unsub_timer = None
        await self.async_flush()

    async def _async_final_write(self, _event: Event) -> None:
        self._unsub_final_write = None
        await self.async_flush()

    async def _async_set_aside(self, err: Exception) -> None:
        path = Path(self._store.path)
        kept = path.with_name(f"{path.name}.unreadable.{dt_util.utcnow().isoformat()}")
        _LOGGER.warning(
            "The accounts in %s cannot be read and start afresh (%s: %s); "
            "the file is kept as %s",
            path,
            type(err).__name__,
            err,
            kept.name,
        )
        await self._hass.async_add_executor_job(_rename, path, kept)


def _rename(path: Path, kept: Path) -> None:
    if path.exists():
        path.rename(kept)


def _add_missing_of_1_1(node: dict[str, Any]) -> None:
    """Add what version 1.1 did not know: nothing was interrupted, no quota refilled."""
    node["preemptions"] = 0
    node["bucket_tokens"] = 0.0
    node["bucket_at"] = node["window_started_at"]


def _encode(state: LedgerState) -> dict[str, Any]:
    return {"nodes": [_encode_node(node) for node in state.nodes]}


def _encode_node(node: NodeState) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "tokens": {
            "uncached": node.tokens.uncached,
            "cached": node.tokens.cached,
            "output": node.tokens.output,
        },
        "charge": node.charge,
        "counter": node.counter,
        "virtual_time": node.virtual_time,
        "requests": node.requests,
        "rejected": node.rejected,
        "preemptions": node.preemptions,
        "window": node.window.value,
        "window_started_at": node.window_started_at.isoformat(),
        "used_tokens": node.used_tokens,
        "granted_tokens": node.granted_tokens,
        "bucket_tokens": node.bucket_tokens,
        "bucket_at": node.bucket_at.isoformat(),
        "counted_from": node.counted_from and node.counted_from.isoformat(),
    }


def _decode(data: Mapping[str, Any]) -> LedgerState:
    return LedgerState(tuple(_decode_node(node) for node in data["nodes"]))


def _decode_node(node: Mapping[str, Any]) -> NodeState:
    tokens = node["tokens"]
    return NodeState(
        node_id=str(node["node_id"]),
        tokens=TokenCount(
            _decode_count(tokens["uncached"]),
            _decode_count(tokens["cached"]),
            _decode_count(tokens["output"]),
        ),
        charge=_decode_number(node["charge"]),
        counter=_decode_number(node["counter"]),
        virtual_time=_decode_number(node["virtual_time"]),
        requests=_decode_count(node["requests"]),
        rejected=_decode_count(node["rejected"]),
        preemptions=_decode_count(node["preemptions"]),
        window=QuotaWindow(node["window"]),
        window_started_at=_decode_time(node["window_started_at"]),
        used_tokens=_decode_count(node["used_tokens"]),
        granted_tokens=int(node["granted_tokens"]),
        bucket_tokens=max(0.0, _decode_number(node["bucket_tokens"])),
        bucket_at=_decode_time(node["bucket_at"]),
        # Nothing was reset before 1.3.
        counted_from=(text := node.get("counted_from")) and _decode_time(text),
    )


def _decode_count(value: str | float) -> int:
    count = int(value)
    if count < 0:
        raise ValueError(f"a count below 0: {count}")
    return count


def _decode_number(value: str | float) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"no finite number: {number}")
    return number


def _decode_time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"a time without a zone: {text}")
    if time.year not in _YEARS:
        raise ValueError(f"a time that no clock shows: {text}")
    return time.astimezone(UTC)
