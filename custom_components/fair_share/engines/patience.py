"""Reading a stream with patience for a server that is slow, not for one that hangs."""

import asyncio

import aiohttp

from .base import EngineError, StreamCutError, UnreachableError
from .chat_stream import ChatStream
from .http import Timeouts, next_bytes


class PatientReader:
    """Reads the bytes of one answer while there is news in time.

    Only waiting for the server counts; what the reader does in between does not.
    """

    def __init__(
        self, response: aiohttp.ClientResponse, chat: ChatStream, limits: Timeouts
    ) -> None:
        """``chat`` must be fed with what is read before the next read."""
        self._response = response
        self._chat = chat
        self._limits = limits
        self._news = -1
        self._left_s = 0.0

    async def read(self) -> bytes:
        """Return the next bytes, ``b""`` when nothing more is to be expected.

        Raises ``UnreachableError`` if the answer does not begin in time,
        ``StreamCutError`` if it breaks off.
        """
        chat = self._chat
        if chat.done:
            return b""
        if chat.news != self._news:
            self._news, self._left_s = chat.news, self._limit_s()
        loop = asyncio.get_running_loop()
        asked = loop.time()
        try:
            data = await next_bytes(self._response, self._left_s)
        except TimeoutError:
            if chat.finished:
                return b""
            raise self._silence() from None
        except StreamCutError:
            if chat.finished:
                return b""
            raise
        self._left_s -= loop.time() - asked
        return data

    def _limit_s(self) -> float:
        if self._chat.finished:
            return self._limits.tail_s
        return (
            self._limits.stall_s if self._chat.started else self._limits.first_token_s
        )

    def _silence(self) -> EngineError:
        if self._chat.started:
            return StreamCutError("the server fell silent in the middle of an answer")
        return UnreachableError("the server did not begin its answer in time")
