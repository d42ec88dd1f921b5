"""Turns of one conversation after each other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from homeassistant.components.conversation.chat_log import current_chat_log


class OneAtATime:
    """Lets the next turn of a conversation begin when the one before is over.

    Otherwise the second question would not know of the first one's answer, or one of
    both would be missing from the history.
    """

    def __init__(self) -> None:
        """No turn runs."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, conversation_id: str | None) -> AsyncIterator[None]:
        """Wait until the conversation is free and keep it until the block ends."""
        chat_log = current_chat_log.get()
        is_inner = chat_log is not None and chat_log.conversation_id == conversation_id
        if conversation_id is None or is_inner:
            # A new conversation, or a turn that was opened (and is held) by a caller.
            yield
            return
        lock = self._locks.setdefault(conversation_id, asyncio.Lock())
        async with lock:
            yield
