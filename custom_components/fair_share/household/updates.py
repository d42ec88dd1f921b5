"""Tells listeners that something changed, at a pace for people and databases."""

import asyncio
from collections.abc import Callable

from homeassistant.core import CALLBACK_TYPE, HomeAssistant, callback

INTERVAL_S = 5.0


class UpdateHub:
    """Passes on changes of nodes, which come by the token, to whoever shows them.

    A topic is a node of the share tree or a server. Who listens to some topics hears of
    the first change of any of them at once, then at most every 5 s while changes go on,
    and of the last one in any case. They are called by the event loop, never in the
    middle of the change.
    """

    def __init__(self, hass: HomeAssistant) -> None:
        """Start without listeners."""
        self._loop = hass.loop
        self._groups: dict[tuple[str, ...], _Group] = {}
        self._of_topic: dict[str, list[_Group]] = {}

    @callback
    def async_listen(
        self, topic_ids: tuple[str, ...], listener: Callable[[], None]
    ) -> CALLBACK_TYPE:
        """Call ``listener`` after changes of these topics; return what ends it."""
        group = self._groups.get(topic_ids) or self._add_group(topic_ids)
        group.listeners.append(listener)

        @callback
        def stop() -> None:
            group.listeners.remove(listener)
            if not group.listeners:
                self._remove_group(topic_ids, group)

        return stop

    def _add_group(self, topic_ids: tuple[str, ...]) -> _Group:
        group = self._groups[topic_ids] = _Group(self._loop)
        for topic_id in topic_ids:
            self._of_topic.setdefault(topic_id, []).append(group)
        return group

    def _remove_group(self, topic_ids: tuple[str, ...], group: _Group) -> None:
        group.cancel()
        del self._groups[topic_ids]
        for topic_id in topic_ids:
            groups = self._of_topic[topic_id]
            groups.remove(group)
            if not groups:
                del self._of_topic[topic_id]

    @callback
    def touch(self, *topic_ids: str) -> None:
        """Note that these topics have changed; costs next to nothing."""
        for topic_id in topic_ids:
            for group in self._of_topic.get(topic_id, ()):
                group.touch()


class _Group:
    """Listeners to the same topics.

    It is quiet (no timer), about to tell them, or telling them again after a pause.
    """

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
