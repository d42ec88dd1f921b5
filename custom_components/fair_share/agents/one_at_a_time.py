"""Turns of one conversation after each other."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from homeassistant.components.conversation import ChatLog, Content

_in_a_turn: ContextVar[bool] = ContextVar("fair_share_in_a_turn", default=False)


@dataclass(eq=False, slots=True, weakref_slot=True)
class _Conversation:
    """A conversation in which a turn runs; ``said`` is what its latest turn left."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    said: Sequence[Content] = ()


class OneAtATime:
    """Lets the next turn of a conversation begin when the one before is over.

    Otherwise the second question would not know of the first one's answer, or one of
    both would be missing from the history.

    A turn that is asked for from within another one, by a tool, never waits:
    conversations that ask each other would wait for ever.
    """

    def __init__(self) -> None:
        """No turn runs."""
        self._running: WeakValueDictionary[str, _Conversation] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, conversation_id: str | None) -> AsyncIterator[None]:
        """Wait until the conversation is free and keep it until the block ends."""
        if conversation_id is None or _in_a_turn.get():
            yield
            return
        conversation = self._running.setdefault(conversation_id, _Conversation())
        async with conversation.lock:
            outside = _in_a_turn.set(True)
            try:
                yield
            finally:
                _in_a_turn.reset(outside)

    def catch_up(self, chat_log: ChatLog) -> None:
        """Take in what was said while this turn waited.

        Who opens the chat log before the turn (the voice pipeline does) has a copy
        from before the turn that was running.
        """
        conversation = self._running.get(chat_log.conversation_id)
        if conversation is None:
            return
        known = chat_log.content[1:-1]
        said = [*conversation.said]
        if len(said) > len(known) and said[: len(known)] == known:
            chat_log.content[1:-1] = said

    def note(self, chat_log: ChatLog) -> None:
        """Remember what was said for the turns that wait."""
        if conversation := self._running.get(chat_log.conversation_id):
            conversation.said = chat_log.content[1:]
