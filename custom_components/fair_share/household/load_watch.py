"""What a server reports of itself, held against what the queue has placed there.

Somebody may talk to a server past the queue. What runs there beyond our own is foreign
load, and is taken off the server's capacity as long as it lasts. Reports and the
queue's own count are never from the same moment: only what two reports in a row agree
on is believed. When the server does not answer, and it answers only between two batches
at times, what was last known holds for a while and is then taken for nothing: not
knowing must never keep anybody waiting.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
import logging

from ..admission.model import ServerCapacity
from ..admission.queue import AdmissionQueue
from ..engines.base import EngineError, EngineLoad, LoadingError, UnreachableError
from .watched import ServerState, WatchedServer

_LOGGER = logging.getLogger(__name__)

_TICK_S = 2.0
_IDLE_TICKS = 8
"""While nothing of ours runs or waits, only every so many ticks is a poll."""

_ANSWER_LIMIT_S = 8.0
_HOLDS_S = 30.0


@dataclass(frozen=True, slots=True)
class Foreign:
    """What runs on a server past the queue: requests, and the tokens that they hold."""

    running: int = 0
    kv_tokens: int = 0


_NOTHING = Foreign()


@dataclass(frozen=True, slots=True)
class Ours:
    """What the queue has on a server.

    ``running`` includes slots that are held for requests that left. ``sequences`` are
    the tokens that each running request holds at most.
    """

    running: int = 0
    sequences: tuple[int, ...] = ()


def foreign_load(
    load: EngineLoad, ours: Ours, capacity: ServerCapacity
) -> Foreign | None:
    """Return what is foreign of a reported load, ``None`` where nothing is reported."""
    if load.running is None:
        return None
    running = max(0, load.running + (load.deferred or 0) - ours.running)
    if not running or capacity.kv_tokens is None:
        return Foreign(running)
    if load.sequences is not None:
        held = sum(_not_ours(load.sequences, ours.sequences))
    elif load.kv_used_tokens is not None:
        held = max(0, load.kv_used_tokens - sum(ours.sequences))
    else:
        # Not told: the part of the pool that is a slot's on average.
        in_slots = min(running, load.running, capacity.slots)
        held = capacity.kv_tokens * in_slots // capacity.slots
    return Foreign(running, held)


def _not_ours(reported: Sequence[int], ours: Sequence[int]) -> list[int]:
    """Return those of the reported sequences that none of ours can be.

    A request holds at most its prompt and what came of its answer, and less while it is
    being read. So the longest that fits is taken to be it.
    """
    left = sorted(reported)
    for longest in sorted(ours, reverse=True):
        fitting = [held for held in left if held <= longest + _MISCOUNT_TOKENS]
        if fitting:
            left.remove(fitting[-1])
    return left


_MISCOUNT_TOKENS = 16


class Agreed:
    """The foreign load that two reports in a row agree on.

    Pure: the caller passes the time in, in seconds of one monotonic clock.
    """

    def __init__(self) -> None:
        """Know nothing."""
        self._agreed: Foreign | None = None
        self._latest: Foreign | None = None
        self._seen_at_s = 0.0

    def note(self, seen: Foreign | None, now: float) -> None:
        """Take a report in; ``None``: the server tells nothing."""
        before, known = self._latest, self.at(now) or _NOTHING
        self._latest, self._seen_at_s = seen, now
        if seen is None or before is None:
            self._agreed = None if seen is None else known
            return
        # Two in a row that are more than what is known, or less, change it, as far as
        # both agree: that is the one in the middle.
        self._agreed = Foreign(
            sorted((known.running, before.running, seen.running))[1],
            sorted((known.kv_tokens, before.kv_tokens, seen.kv_tokens))[1],
        )

    def forget(self) -> None:
        """Know nothing any more: the server is another, or was away."""
        self._agreed = self._latest = None

    def at(self, now: float) -> Foreign | None:
        """Return what is known, ``None`` if nothing is or it is too old."""
        if now - self._seen_at_s > _HOLDS_S:
            self.forget()
        return self._agreed

    @property
    def unsettled(self) -> bool:
        """Whether there is foreign load, or the latest report saw some."""
        return bool((self._agreed or _NOTHING).running) or bool(
            (self._latest or _NOTHING).running
        )


class LoadWatch:
    """Asks one server again and again what it is doing."""

    def __init__(
        self,
        server: WatchedServer,
        queue: AdmissionQueue,
        held_slots: Callable[[], int],
        on_change: Callable[[], None],
    ) -> None:
        """Tell the queue what is foreign on ``server``.

        ``held_slots`` tells how many slots are held there for requests that left;
        ``on_change`` is called when the number of foreign requests has changed.
        """
        self._server = server
        self._server_id = server.subentry.subentry_id
        self._queue = queue
        self._held_slots = held_slots
        self._on_change = on_change
        self._foreign = Agreed()
        self._told = _NOTHING
        self._preemptions: int | None = None

    async def watch(self) -> None:
        """Ask for ever, more often while something of ours is there; see above."""
        ticks = 0
        try:
            while True:
                await asyncio.sleep(_TICK_S)
                ticks += 1
                if self._server.state is not ServerState.READY:
                    self._foreign.forget()
                    self._preemptions = None
                elif self._busy() or ticks >= _IDLE_TICKS:
                    ticks = 0
                    await self._poll()
                self._tell()
        finally:
            # Whatever ends this, nothing is kept from anybody for it.
            self._foreign.forget()
            self._tell()

    def _busy(self) -> bool:
        status = self._queue.status()
        return bool(status.waiting or status.running or self._foreign.unsettled)

    async def _poll(self) -> None:
        before = self._ours()
        try:
            async with asyncio.timeout(_ANSWER_LIMIT_S):
                load = await self._server.engine.load()
        except TimeoutError:
            return
        except LoadingError, UnreachableError:
            self._server.look_again()
            return
        except EngineError:
            return
        capacity = self._server.capacity()
        if capacity is None:
            return
        after = self._ours()
        ours = max(before, after, key=lambda each: each.running)
        self._foreign.note(foreign_load(load, ours, capacity), self._now())
        self._note_preemptions(load.preemptions)
        self._compare(load)

    def _ours(self) -> Ours:
        sequences = tuple(
            request.prompt_tokens + request.output_tokens
            for request in self._queue.status().requests
            if request.server_id == self._server_id
        )
        tried = 1 if self._server.checking else 0
        return Ours(len(sequences) + self._held_slots() + tried, sequences)

    def _note_preemptions(self, counted: int | None) -> None:
        """Tell the queue what was added to a counter, which begins anew at times."""
        before, self._preemptions = self._preemptions, counted
        if before is not None and counted is not None and counted > before:
            self._queue.note_exhausted(self._server_id, counted - before)

    def _compare(self, load: EngineLoad) -> None:
        """Look at the server again if it was started anew with other settings."""
        known = self._server.capabilities
        if known is None:
            return
        pairs = (
            (load.slots, known.slots),
            (load.context_tokens, known.context_tokens),
        )
        if any(None not in pair and pair[0] != pair[1] for pair in pairs):
            self._server.look_again()

    def _tell(self) -> None:
        """Pass on what is known now, if that is news."""
        known = self._foreign.at(self._now())
        shown = None if known is None else known.running
        if shown != self._server.foreign:
            self._log(shown)
            self._server.foreign = shown
            self._on_change()
        told = known or _NOTHING
        if told != self._told:
            self._told = told
            self._queue.put_foreign(
                self._server_id, self._taken(told.running), told.kv_tokens
            )

    def _taken(self, running: int) -> int:
        """Return how many slots foreign requests take from the queue: not the last.

        Where they keep all slots busy for ever, one request of ours waits inside the
        server for its turn among them.
        """
        capacity = self._server.capacity()
        return running if capacity is None else min(running, capacity.slots - 1)

    def _log(self, shown: int | None) -> None:
        was, is_ = self._server.foreign or 0, shown or 0
        title = self._server.subentry.title
        if is_ and not was:
            _LOGGER.info("Somebody talks to the server %s past the queue", title)
        elif was and not is_:
            _LOGGER.info("Nobody talks to the server %s past the queue any more", title)

    def _now(self) -> float:
        return self._queue.clock.monotonic()
