"""Work that another program has done: let in by the queue, charged by what it says.

The queue does not see what that program sends to a model. It lets the work in as it
lets in requests of its own, keeps the slot for it that it takes, and books what the
program tells, or what is estimated of it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from homeassistant.util.ulid import ulid_now

from ..admission.model import (
    Rejected,
    RejectReason,
    Request,
    ServerCapacity,
    TokenCount,
    Workload,
)
from ..admission.queue import Grant
from .asker import Asker

if TYPE_CHECKING:
    from .runtime import Household


_held: ContextVar[str | None] = ContextVar("fair_share_held_server", default=None)
"""The server of which this task, or one that it has begun, holds a slot."""


def holds_only_slot(household: Household) -> bool:
    """Whether work in whose course this is called holds the one slot that there is.

    What waited for a slot then would wait for ever.
    """
    usable = [each for each in household.status().servers if each.usable]
    return [(each.server_id, each.slots) for each in usable] == [(_held.get(), 1)]


@dataclass(frozen=True, slots=True)
class OutsideWork:
    """Work of another program, and for whom.

    It takes a slot of the server ``server_id``, which that program uses; ``None``: of
    none, since it uses a server that is not the household's. How much it will read and
    write, in tokens, is a guess, for memory and for what is paid for in advance.
    """

    asker: Asker
    workload: Workload
    server_id: str | None
    prompt_tokens: int
    output_tokens: int


class Spending:
    """Where work that was let in says what it cost."""

    def __init__(self, grant: Grant) -> None:
        """Book it on the account of ``grant``; nothing so far."""
        self._grant = grant

    def spent(
        self, *, prompt: int, cached: int, output: int, estimated: bool = False
    ) -> None:
        """Book what the whole work has cost by now, in tokens; not what was added.

        ``cached`` of the ``prompt`` tokens did not have to be read. ``estimated``: not
        counted by a server.
        """
        tokens = TokenCount(prompt - cached, cached, output)
        self._grant.settle(tokens, estimated=estimated)


@asynccontextmanager
async def admitted(household: Household, work: OutsideWork) -> AsyncIterator[Spending]:
    """Wait for a turn, and hold it while the work is done inside the block.

    Raises ``Rejected`` at once, while waiting, or in the block when somebody cancels
    the request. Nothing else interrupts the work. Leaving the block by any path gives
    the slot back; what was not said to be spent is not charged.
    """
    queue, registry = household.queue, household.registry
    leaf = registry.class_for(work.asker, work.workload)
    try:
        queue.put_node(registry.source_spec(work.asker))
        queue.put_class(leaf)
    except KeyError:
        # The member was removed meanwhile.
        raise Rejected(RejectReason.CLASS_REMOVED) from None
    if work.server_id is not None:
        household.warm_up.async_give_way()
    async with queue.admit(_request(household, work, leaf.class_id)) as grant:
        stop = _Stop()
        # It is never asked to make room: only a cancellation calls this.
        grant.listen(stop.cancel)
        with stop.watch(), _holding(work.server_id):
            yield Spending(grant)
        grant.finish()


def _request(household: Household, work: OutsideWork, class_id: str) -> Request:
    prompt_tokens, output_tokens = work.prompt_tokens, work.output_tokens
    for capacity in household.servers.capacities():
        if capacity.server_id == work.server_id:
            # Nothing is refused for a guess: whoever does the work knows what fits.
            room = _room_tokens(capacity)
            prompt_tokens = min(prompt_tokens, room // 2)
            output_tokens = min(output_tokens, room // 4)
    return Request(
        request_id=ulid_now(),
        class_id=class_id,
        prompt_tokens=max(prompt_tokens, 1),
        max_output_tokens=max(output_tokens, 1),
        servers=None if work.server_id is None else frozenset({work.server_id}),
        preemptible=False,
        outside=work.server_id is None,
    )


def _room_tokens(capacity: ServerCapacity) -> int:
    """Return how much one request may hold on a server at most."""
    return min(capacity.context_tokens, capacity.kv_tokens or capacity.context_tokens)


@contextmanager
def _holding(server_id: str | None) -> Iterator[None]:
    outside = _held.set(server_id or _held.get())
    try:
        yield
    finally:
        _held.reset(outside)


class _Stop:
    """Ends work in the middle, and tells that from any other cancellation."""

    def __init__(self) -> None:
        """Belong to the task that does the work."""
        self._task = asyncio.current_task()
        self._asked = False

    def cancel(self) -> None:
        """End the work; nothing happens the second time."""
        if self._task is not None and not self._asked:
            self._asked = True
            self._task.cancel()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Turn the cancellation that was asked for into a refusal."""
        try:
            yield
        except asyncio.CancelledError:
            if self._asked and self._task is not None and not self._task.uncancel():
                raise Rejected(RejectReason.CANCELLED) from None
            raise
