"""Bringing an answer to a client over HTTP, for as long as it is there."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
import logging
from math import inf
from typing import Any

from aiohttp import web
from homeassistant.helpers.json import json_bytes

from ..admission.model import Rejected
from ..engines.base import Delta, EngineError
from ..household.generation import Ask
from ..household.runtime import Household
from .errors import ApiError, explain, unexpected

_LOGGER = logging.getLogger(__name__)

_LOOK_S = 0.25
"""So often it is looked whether the client is still there."""

_STATUS_WITHIN_S = 5.0
"""After this a stream begins even if the answer does not: until then a refusal can
still be told by an HTTP status."""

_READS_WITHIN_S = 60.0
"""Whoever takes nothing of an answer for so long is taken for gone: the answer holds a
slot that others wait for."""

_KEEP_ALIVE_S = 10.0
_KEEP_ALIVE = b": waiting\n\n"
_DONE = b"data: [DONE]\n\n"
_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}


class ClientLeft(Exception):  # noqa: N818 - nothing went wrong
    """The client closed its connection."""


@asynccontextmanager
async def answer_to(
    household: Household, ask: Ask
) -> AsyncGenerator[AsyncIterator[Delta]]:
    """Open the answer to a client. Raises ``ApiError``, then too while iterating."""

    async def deltas() -> AsyncGenerator[Delta]:
        try:
            async with household.generate(ask) as answer:
                async for delta in answer:
                    yield delta
        except (Rejected, EngineError) as err:
            raise explain(err) from err

    async with aclosing(deltas()) as told:
        yield told


@asynccontextmanager
async def while_there(
    request: web.Request, look: Callable[[], Any] = lambda: None
) -> AsyncGenerator[None]:
    """Give the block up when the client leaves; call ``look`` every now and then.

    Raises ``ClientLeft``. Home Assistant's server doesn't cancel a handler by itself.
    """
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - handlers run in tasks
    left = False

    async def watch() -> None:
        nonlocal left
        while True:
            await asyncio.sleep(_LOOK_S)
            transport = request.transport
            if transport is None or transport.is_closing():
                left = True
                task.cancel()
                return
            if (waited := look()) is not None:
                await waited

    watching = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if left and task.uncancel() <= 0:
            raise ClientLeft from None
        raise
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError, ClientLeft):
            await watching


class EventStream:
    """A response of server-sent events, which begins with the first of them."""

    def __init__(
        self, request: web.Request, headers: Callable[[], Mapping[str, str]]
    ) -> None:
        """``headers`` returns what is told in them, as known when they are sent."""
        self._request = request
        self._headers = headers
        self._lock = asyncio.Lock()
        self._now = asyncio.get_running_loop().time
        self._sent_s = self._now()
        self._unread_s = inf
        self.response = web.StreamResponse(headers=_HEADERS)

    @property
    def begun(self) -> bool:
        """Whether the status was sent: what goes wrong is told as an event then."""
        return self.response.prepared

    def keep_alive(self) -> Any:  # noqa: ANN401 - something to await, or nothing
        """Return what sends a comment, if nothing was sent for long.

        Whoever has not taken what was sent long ago is cut off.
        """
        if self._unread_s < inf:
            late = self._now() - self._unread_s > _READS_WITHIN_S
            if late and self._request.transport is not None:
                self._request.transport.abort()
            return None
        patience_s = _KEEP_ALIVE_S if self.begun else _STATUS_WITHIN_S
        if self._now() - self._sent_s < patience_s:
            return None
        return self._send(_KEEP_ALIVE)

    async def send(self, *values: Mapping[str, Any]) -> None:
        """Send an event for each value. Raises ``ClientLeft``."""
        if values:
            data = [b"data: " + json_bytes(value) + b"\n\n" for value in values]
            await self._send(b"".join(data))

    async def done(self) -> None:
        """Send what ends a stream that is whole. Raises ``ClientLeft``."""
        await self._send(_DONE)

    async def end(self) -> None:
        """Close the response."""
        with suppress(ConnectionError):
            await self.response.write_eof()

    async def _send(self, data: bytes) -> None:
        self._sent_s = self._now()
        try:
            async with self._lock:
                if not self.begun:
                    self.response.headers.update(self._headers())
                    await self.response.prepare(self._request)
                self._unread_s = self._sent_s
                await self.response.write(data)
                self._unread_s = inf
        except ConnectionError as err:
            raise ClientLeft from err


async def stream_answer(
    request: web.Request,
    answer: AsyncIterator[Delta],
    headers: Callable[[], Mapping[str, str]],
    chunks: Callable[[Delta], Iterable[Mapping[str, Any]]],
) -> web.StreamResponse:
    """Send an answer as it comes.

    Raises ``ApiError`` as long as no status was sent; later that is an event of the
    stream, which then ends without ``[DONE]``. Raises ``ClientLeft``.
    """
    events = EventStream(request, headers)
    async with while_there(request, events.keep_alive):
        try:
            async for delta in answer:
                await events.send(*chunks(delta))
            await events.done()
        except ApiError as err:
            if not events.begun:
                raise
            await events.send(err.body())
        except ClientLeft:
            raise
        except Exception:
            if not events.begun:
                raise
            # A second status can't be told: that would be in the middle of the answer.
            _LOGGER.exception("An answer of the gateway failed in the middle")
            await events.send(unexpected().body())
        await events.end()
    return events.response
