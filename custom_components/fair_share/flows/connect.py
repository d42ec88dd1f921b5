"""Reach a server from a dialog: probe it, wait for it, say what went wrong."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
import logging
from typing import Self

from homeassistant.core import HomeAssistant
from homeassistant.helpers.aiohttp_client import async_get_clientsession

from ..engines.base import (
    AuthError,
    EngineError,
    InvalidAddressError,
    LoadingError,
    NoChatModelError,
    NoStreamingError,
    NotAnEngineError,
    UnreachableError,
)
from ..engines.probe import FoundServer, find_server

LOADING_POLL_S = 2.0
LOADING_PATIENCE_S = 600.0

_LOGGER = logging.getLogger(__name__)

ERROR_KEYS: Mapping[type[EngineError], str] = {
    EngineError: "server_failed",
    InvalidAddressError: "invalid_address",
    UnreachableError: "cannot_connect",
    NotAnEngineError: "wrong_server",
    AuthError: "invalid_auth",
    LoadingError: "still_loading",
    NoChatModelError: "no_chat_model",
    NoStreamingError: "no_streaming",
}


@dataclass(frozen=True, slots=True)
class Connection:
    """Where a server is, as it was typed, and the key that opens it."""

    address: str
    api_key: str | None

    @classmethod
    def typed(cls, address: str, api_key: str | None) -> Self:
        """Take what a person typed; a copied key brings blanks along."""
        return cls(address, (api_key or "").strip() or None)


async def async_find(hass: HomeAssistant, connection: Connection) -> FoundServer:
    """Return what answers there, tried out. Raises ``EngineError``."""
    session = async_get_clientsession(hass)
    return await find_server(session, connection.address, connection.api_key)


async def async_wait_until_loaded(
    hass: HomeAssistant, connection: Connection
) -> FoundServer:
    """Ask again and again until the model is loaded, within reason.

    Raises ``LoadingError`` when it takes too long, else what ``async_find`` raises.
    """
    try:
        async with asyncio.timeout(LOADING_PATIENCE_S):
            while True:
                try:
                    return await async_find(hass, connection)
                except LoadingError:
                    await asyncio.sleep(LOADING_POLL_S)
    except TimeoutError:
        raise LoadingError from None


def error_key(error: EngineError) -> str:
    """Return the translation key that explains this error."""
    _LOGGER.debug("Probing the server failed: %s", error)
    return next(ERROR_KEYS[kind] for kind in type(error).__mro__ if kind in ERROR_KEYS)
