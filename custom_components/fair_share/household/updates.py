"""Tells listeners that something changed, at a pace for people and databases."""

import asyncio
from collections.abc import Callable

from homeassistant.core import CALLBACK_TYPE, HomeAssistant, callback

INTERVAL_S = 5.0


class UpdateHub:
    """Passes on changes of nodes, which come by the token, to whoever shows them.

    A topic is a node of the share tree or a server. A listener hears of the first
    change at once, then at most every 5 s while changes go on, and of the last one in
    any case. It is called by the event loop, never in the middle of the change.
    """

    def __init__(self, hass: HomeAssistant) -> None:
        """Start without listeners."""
        self._loop = hass.loop
        self._topics: dict[str, _Topic] = {}

    @callback
    def async_listen(
        self, topic_id: str, listener: Callable[[], None]
    ) -> CALLBACK_TYPE:
        """Call ``listener`` after changes of this topic; return what ends it."""
        topic = self._topics.setdefault(topic_id, _Topic(self._loop))
        topic.listeners.append(listener)

        @callback
        def stop() -> None:
            topic.listeners.remove(listener)
            if not topic.listeners:
                topic.cancel()
                del self._topics[topic_id]

        return stop

    @callback
    def touch(self, *topic_ids: str) -> None:
        """Note that these topics have changed; costs next to nothing."""
        for topic_id in topic_ids:
            if topic := self._topics.get(topic_id):
                topic.touch()


class _Topic:
    """One topic: quiet (no timer), about to tell, or telling again after a pause."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.listeners: list[Callable[[], None]] = []
        self._loop = loop
        self._touched = False
        self._timer: asyncio.Handle | None = None

    def touch(self) -> None:
        self._touched = True
        if self._timer is None:
            self._timer = self._loop.call_soon(self._tell)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self) -> None:
        self._timer = None
        if not self._touched:
            return
        self._touched = False
        self._timer = self._loop.call_later(INTERVAL_S, self._tell)
        for listener in tuple(self.listeners):
            listener()
