"""Reading a long prompt in slices, ahead of its answer.

Between two slices nothing of the request is inside the server: it can be left at once,
and others come first for as long as the queue says so.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from time import monotonic

from ..admission.queue import Grant
from ..engines.base import (
    ClientFaultError,
    GenerationRequest,
    InterruptedAnswer,
    PromptProgress,
    PromptSlices,
)
from ..engines.open_answer import OpenAnswer
from .account import RunningAccount
from .servers import WatchedServer


class PromptReader:
    """Reads the prompts of one answer, in however many runs."""

    def __init__(
        self, grant: Grant, account: RunningAccount, answer: OpenAnswer
    ) -> None:
        """Read for ``answer``, as the queue allows it by ``grant``."""
        self._grant = grant
        self._account = account
        self._answer = answer
        self._asked = asyncio.Event()

    def wake(self) -> None:
        """End a rest: the slot is wanted by others."""
        self._asked.set()

    async def read(
        self, server: WatchedServer, generation: GenerationRequest
    ) -> AsyncGenerator[PromptProgress]:
        """Read all but what is to be read in one go, with the answer.

        Gives the progress after each slice. Raises ``EngineError``, and
        ``InterruptedAnswer`` when the slot is wanted by others.
        """
        account = self._account
        if not server.capabilities or not server.capabilities.slices:
            return
        if self._next(account.total) >= account.total - account.done:
            return
        prompt = await server.engine.read_ahead(generation, self._answer)
        if prompt is None:
            self._grant.read_in_one_go()
            return
        account.measure(prompt.total)
        while True:
            self._leave_if_asked()
            step = self._grant.next_slice(done=account.done, total=prompt.total)
            if step.tokens >= prompt.total - account.done:
                return
            if not step.tokens:
                await self._rest(step.rest_s)
                continue
            progress = await self._slice(prompt, account.done + step.tokens)
            if progress is None:
                return
            yield progress

    def _next(self, total: int) -> int:
        return self._grant.next_slice(done=self._account.done, total=total).tokens

    async def _slice(self, prompt: PromptSlices, upto: int) -> PromptProgress | None:
        """Have a slice read; ``None`` where the server knows of no such thing."""
        account = self._account
        account.ask_slice(upto)
        began = monotonic()
        try:
            cached = await prompt.read(upto)
        except ClientFaultError:
            self._grant.read_in_one_go()
            return None
        return account.end_slice(upto, cached, monotonic() - began)

    def _leave_if_asked(self) -> None:
        if self._answer.asked:
            raise InterruptedAnswer

    async def _rest(self, seconds: float) -> None:
        self._asked.clear()
        self._leave_if_asked()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._asked.wait()
