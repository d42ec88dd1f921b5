"""An admitted answer, in as many runs as it takes.

Whoever has to make room leaves the server, waits at the front of its class with the
client's stream open, and goes on where it was. So does an answer whose server failed
in the middle, when that or another one is ready. The client sees one text.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace

from ..admission.model import Rejected, RejectReason, Request
from ..admission.queue import Grant
from ..engines.base import (
    BusyError,
    Delta,
    EngineError,
    Finish,
    FinishReason,
    GenerationRequest,
    InterruptedAnswer,
    LoadingError,
    NoConnectionError,
    Origin,
    PoolExhaustedError,
    UnreachableError,
)
from ..engines.open_answer import OpenAnswer
from .account import RunningAccount
from .prompt_reader import PromptReader
from .servers import ServerPool, WatchedServer

_LOSSES = 2
"""An answer outlives so many failures of its servers."""

_WAITS = 120
"""It comes back so often to a server that turns out not to be ready yet. One that is
loading is looked at once a second."""


def worth_another_try(error: EngineError) -> bool:
    """Whether the same request may well succeed later, or elsewhere."""
    return error.server_fault or isinstance(
        error, LoadingError | BusyError | PoolExhaustedError
    )


def never_begun(error: EngineError) -> bool:
    """Whether no model has seen anything of the request: it can only wait for one."""
    return isinstance(error, NoConnectionError | LoadingError | BusyError)


class Answering:
    """Streams one answer by a grant of the queue."""

    def __init__(
        self,
        generation: GenerationRequest,
        request: Request,
        grant: Grant,
        servers: ServerPool,
        fairness_id: str,
    ) -> None:
        """Answer ``generation``, which the queue knows as ``request``.

        ``fairness_id`` stands for the member before servers that are told whose a
        request is.
        """
        self._generation = generation
        self._preemptible = request.preemptible
        self._allowed = request.servers
        self._grant = grant
        self._servers = servers
        self._fairness_id = fairness_id
        self._account = RunningAccount(grant, request)
        self._answer = OpenAnswer()
        self._reader = PromptReader(grant, self._account, self._answer)
        self._held_by = grant.dispatch.server_id
        self._shielded = False
        self._losses = 0
        self._waits = 0
        self._loss: EngineError | None = None
        grant.listen(self._interrupt)

    async def deltas(self) -> AsyncGenerator[Delta]:
        """Give the deltas of the whole answer. Raises as ``Generator.generate``."""
        while True:
            try:
                async with aclosing(self._run()) as deltas:
                    async for delta in deltas:
                        yield delta
            except InterruptedAnswer:
                loss = None
                self._held_by = self._grant.dispatch.server_id
                self._end_run()
                if self._account.inside:
                    await self._leave()
            except EngineError as err:
                self._outlive(err)
                loss = self._loss
            else:
                return
            if self._account.full:
                # One token more would have to be asked for to be told that.
                for delta in self._ending():
                    yield delta
                return
            await self._pause(loss)

    async def _run(self) -> AsyncGenerator[Delta]:
        """Stream from the server and charge every delta as it comes."""
        server = self._server()
        generation = replace(
            self._generation,
            max_output_tokens=self._grant.dispatch.max_output_tokens,
            origin=Origin(self._grant.dispatch.band, self._fairness_id),
        )
        account = self._account
        held = self._held_by == self._grant.dispatch.server_id
        account.begin_run(server.capabilities, held=held)
        self._shielded = False
        try:
            async with aclosing(self._reader.read(server, generation)) as slices:
                async for progress in slices:
                    yield progress
                    account.check()
            self._stay_from_here()
            account.ask_rest()
            async with server.engine.stream(generation, self._answer) as deltas:
                async for delta in deltas:
                    yield account.note(delta)
                    account.check()
                    self._shield()
            server.note_answered()
        except EngineError as err:
            server.report(err, self._generation)
            raise
        except InterruptedAnswer:
            raise
        except BaseException:
            if account.left():
                self._servers.drain(self._grant.dispatch.server_id)
            raise

    def _interrupt(self) -> None:
        self._answer.interrupt()
        self._reader.wake()

    def _stay_from_here(self) -> None:
        """Tell the queue that this answer can't be left any more, if so.

        As long as only a prompt is read in slices there is nothing to go on with.
        """
        if not self._preemptible:
            self._answer.stay()
            self._grant.shield(shielded=True)

    def _shield(self) -> None:
        """Tell the queue when the answer can't be interrupted, and when it can."""
        shielded = not self._answer.can_go_on()
        if shielded is not self._shielded and self._preemptible:
            self._shielded = shielded
            if shielded:
                self._answer.stay()
            self._grant.shield(shielded=shielded)

    async def _leave(self) -> None:
        """Return when the server is done with what was left.

        Until then the next request would wait inside the server.
        """
        server_id = self._grant.dispatch.server_id
        try:
            await self._servers.async_left(server_id, reading=self._account.reading)
        except asyncio.CancelledError:
            if self._account.left():
                self._servers.drain(server_id)
            raise

    def _outlive(self, error: EngineError) -> None:
        """End a run whose server failed, or raise the error if that was the last."""
        answer = self._answer
        if not worth_another_try(error):
            # What can't be tried again was not what broke the answer off.
            raise self._loss or error
        if not never_begun(error):
            self._loss, self._losses = error, self._losses + 1
        else:
            self._loss, self._waits = self._loss or error, self._waits + 1
        if answer.begun:
            can_go_on = self._preemptible and answer.can_go_on()
        else:
            # What was read of the prompt is paid; it must not be paid once more.
            can_go_on = self._account.keeps
        if self._losses > _LOSSES or self._waits > _WAITS or not can_go_on:
            raise self._loss
        self._held_by = ""
        self._end_run()

    async def _pause(self, loss: EngineError | None) -> None:
        """Wait for a server that goes on; ``loss`` is how the last one failed."""
        answer = self._answer
        servers = None
        if answer.begun:
            # Its own server can, whatever is known of it while it fails.
            own = self._grant.dispatch.server_id
            servers = self._servers.able(answer) | {own}
            if self._allowed is not None:
                servers &= self._allowed
        try:
            await self._grant.pause(lost=loss is not None, servers=servers)
        except Rejected as refusal:
            if loss is not None and refusal.reason is RejectReason.NO_SERVER:
                raise loss from refusal
            raise

    def _ending(self) -> Iterator[Delta]:
        """End an answer that is as long as it may be."""
        for delta in self._answer.text.close(complete=False):
            yield self._account.note(delta)
        yield self._account.usage()
        yield self._account.note(Finish(FinishReason.LENGTH))

    def _end_run(self) -> None:
        self._account.end_run(self._answer.left())

    def _server(self) -> WatchedServer:
        try:
            return self._servers.get(self._grant.dispatch.server_id)
        except KeyError:
            raise UnreachableError("the server was removed") from None
