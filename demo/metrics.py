"""Watching how many requests wait inside the engine, where nobody can reorder them."""

import asyncio
from contextlib import suppress

import aiohttp

from .onboarding import Server

_METRIC = "llamacpp:requests_deferred"
_INTERVAL_S = 0.25


class DeferredWatch:
    """The most requests that the engine ever had waiting.

    ``maximum`` is ``None`` as long as the engine has not told.
    """

    def __init__(self, session: aiohttp.ClientSession, server: Server) -> None:
        self._session = session
        self._url = f"{server.url.rstrip('/').removesuffix('/v1')}/metrics"
        self._headers = (
            {"Authorization": f"Bearer {server.api_key}"} if server.api_key else {}
        )
        self.maximum: int | None = None

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            with suppress(aiohttp.ClientError, TimeoutError, ValueError):
                async with self._session.get(
                    self._url, headers=self._headers
                ) as response:
                    if response.ok:
                        self._take(await response.text())
            await asyncio.sleep(_INTERVAL_S)

    def _take(self, metrics: str) -> None:
        for line in metrics.splitlines():
            name, _, value = line.partition(" ")
            if name == _METRIC:
                self.maximum = max(self.maximum or 0, int(float(value)))
