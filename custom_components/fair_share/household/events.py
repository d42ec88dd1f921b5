"""What happened in the household, for whoever wants to act on it.

Nothing here holds a word that anybody said.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from homeassistant.core import CALLBACK_TYPE, HomeAssistant, callback
from homeassistant.helpers.event import async_call_later

from ..admission.model import ROOT_ID, Ending, Outcome, RejectReason
from .servers import ServerState, ServerView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .registry import Registry

PACE_S = 30.0
"""Of what can happen often, one event in so many seconds, for all in between."""


class EventKind(StrEnum):
    """What can happen."""

    PREEMPTED = "preempted"
    REJECTED = "rejected"
    FINISHED = "finished"
    THRESHOLD = "threshold"
    QUOTA_EXHAUSTED = "quota_exhausted"
    QUOTA_RESET = "quota_reset"
    SERVER_UP = "server_up"
    SERVER_DOWN = "server_down"


type Value = str | float | bool | None


@dataclass(frozen=True, slots=True)
class HouseEvent:
    """Something that happened to a node of the share tree, or to a server."""

    kind: EventKind
    attributes: Mapping[str, Value]


type Listener = Callable[[HouseEvent], None]


class EventHub:
    """Tells listeners what happened to a node, often enough but not too often.

    Interruptions and refusals are told at once, and then at most every 30 s; ``count``
    is how many there were since the event before. None is left out of the counts.
    """

    def __init__(self, hass: HomeAssistant, registry: Registry) -> None:
        """Start without listeners."""
        self._hass = hass
        self._registry = registry
        self._listeners: dict[str, list[Listener]] = {}
        self._paced: dict[tuple[str, EventKind, Value], _Paced] = {}
        self._up: dict[str, bool] = {}

    @callback
    def async_listen(self, node_id: str, listener: Listener) -> CALLBACK_TYPE:
        """Call ``listener`` with what happens to a node; return what ends it."""
        listeners = self._listeners.setdefault(node_id, [])
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    @callback
    def async_stop(self) -> None:
        """Tell what is still to be told, and nothing more."""
        for paced in self._paced.values():
            paced.stop()
        self._paced.clear()
        self._listeners.clear()

    def note_preempted(self, path: tuple[str, ...]) -> None:
        """Note an answer that was interrupted; ``path`` are the ids of its accounts."""
        workload = path[-1].rpartition("/")[2]
        self._pace(path, EventKind.PREEMPTED, {"workload": workload}, None)

    def note_ending(self, ending: Ending) -> None:
        """Note a request that left the queue."""
        record = ending.record
        if ending.refusal is RejectReason.CLOSED:
            return  # the household itself ends
        if ending.refusal is not None:
            attributes: dict[str, Value] = {
                "reason": ending.refusal.value,
                "workload": ending.path[-1].rpartition("/")[2],
                "had_begun": record is not None and record.tokens.output > 0,
                "duration": round(ending.duration_s, 1),
            }
            reason = ending.refusal.value
            self._pace(ending.path, EventKind.REJECTED, attributes, reason)
        elif record is not None and record.outcome is Outcome.FINISHED:
            attributes = {
                "workload": record.workload.value,
                "wait": round(record.wait_s, 1),
                "duration": round(record.duration_s, 1),
                "prompt_tokens": record.tokens.prompt,
                "output_tokens": record.tokens.output,
                "preemptions": record.preemptions,
            }
            for node_id in ending.path[1:-1]:
                self._tell(node_id, HouseEvent(EventKind.FINISHED, attributes))

    def note_servers(self, views: list[ServerView], *, first: bool = False) -> None:
        """Note how the servers are now; ``first`` tells that nothing was known."""
        before = self._up
        self._up = {v.server_id: v.state is ServerState.READY for v in views}
        for view in views:
            is_up = self._up[view.server_id]
            if first or before.get(view.server_id, False) is is_up:
                continue
            kind = EventKind.SERVER_UP if is_up else EventKind.SERVER_DOWN
            attributes = {"server": view.title, "state": view.state.value}
            self._tell(ROOT_ID, HouseEvent(kind, attributes))

    def _pace(
        self,
        path: tuple[str, ...],
        kind: EventKind,
        attributes: Mapping[str, Value],
        reason: Value,
    ) -> None:
        of_whom = {
            "member": self._registry.name(path[1]),
            "source": self._registry.name(path[2]),
        }
        for node_id in path[:-1]:
            if not self._listeners.get(node_id):
                continue
            key = (node_id, kind, reason)
            if key not in self._paced:

                def tell(event: HouseEvent, node_id: str = node_id) -> None:
                    self._tell(node_id, event)

                self._paced[key] = _Paced(self._hass, kind, tell)
            self._paced[key].note({**attributes, **of_whom})

    def _tell(self, node_id: str, event: HouseEvent) -> None:
        for listener in tuple(self._listeners.get(node_id, ())):
            listener(event)


class _Paced:
    """One kind of event of one node: told at once, then the rest together."""

    def __init__(
        self, hass: HomeAssistant, kind: EventKind, tell: Callable[[HouseEvent], None]
    ) -> None:
        self._hass = hass
        self._kind = kind
        self._tell = tell
        self._count = 0
        self._attributes: Mapping[str, Value] = {}
        self._unsub: CALLBACK_TYPE | None = None

    def note(self, attributes: Mapping[str, Value]) -> None:
        self._count += 1
        self._attributes = attributes
        if self._unsub is None:
            self._fire()

    def stop(self) -> None:
        if self._unsub is not None:
            self._unsub()
            self._unsub = None
        if self._count:
            self._say()

    def _fire(self) -> None:
        self._say()
        self._unsub = async_call_later(self._hass, PACE_S, self._async_due)

    @callback
    def _async_due(self, _now: datetime) -> None:
        self._unsub = None
        if self._count:
            self._fire()

    def _say(self) -> None:
        attributes = {**self._attributes, "count": self._count}
        self._count = 0
        self._tell(HouseEvent(self._kind, attributes))
