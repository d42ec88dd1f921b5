"""Reading a stream with patience for a server that is slow, not for one that hangs."""

import asyncio

import aiohttp

from .base import EngineError, InterruptedAnswer, StreamCutError, UnreachableError
from .chat_stream import ChatStream
from .http import Timeouts, next_bytes
from .open_answer import OpenAnswer


class PatientReader:
    """Reads the bytes of one answer while there is news in time.

    Only waiting for the server counts; what the reader does in between does not.
    """

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        chat: ChatStream,
        answer: OpenAnswer,
        limits: Timeouts,
    ) -> None:
        """``chat``, which reads ``answer``, must be fed before the next read."""
        self._response = response
        self._answer = answer
        self._chat = chat
        self._limits = limits
        self._news = -1
        self._left_s = 0.0

    async def read(self) -> bytes:
        """Return the next bytes, ``b""`` when nothing more is to be expected.

        Raises ``UnreachableError`` if the answer does not begin in time,
        ``StreamCutError`` if it breaks off, ``InterruptedAnswer`` when it is to be
        left now.
        """
        chat = self._chat
        if chat.done:
            return b""
        if chat.news != self._news:
            self._news, self._left_s = chat.news, self._limit_s()
        while True:
            try:
                return await self._next_bytes()
            except TimeoutError:
                if chat.finished:
                    return b""
                if self._answer.leaves_now():
                    raise InterruptedAnswer from None
                if self._left_s <= 0:
                    raise self._silence() from None
            except StreamCutError:
                if chat.finished:
                    return b""
                raise

    async def _next_bytes(self) -> bytes:
        loop = asyncio.get_running_loop()
        asked = loop.time()
        finished = self._chat.finished
        left_s = self._left_s
        patience_s = left_s if finished else self._answer.patience_s(left_s)
        try:
            async with asyncio.timeout(patience_s) as limit:
                self._answer.reads(None if finished else limit)
                return await next_bytes(self._response)
        finally:
            self._answer.reads(None)
            self._left_s -= loop.time() - asked

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
