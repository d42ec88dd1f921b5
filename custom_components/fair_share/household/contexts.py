"""Which automation or script a context belongs to."""

from collections import OrderedDict
from datetime import datetime, timedelta

from homeassistant.components.automation import EVENT_AUTOMATION_TRIGGERED
from homeassistant.components.script.const import EVENT_SCRIPT_STARTED
from homeassistant.const import ATTR_ENTITY_ID
from homeassistant.core import CALLBACK_TYPE, Event, HomeAssistant, callback
from homeassistant.util import dt as dt_util

_AUTOMATED_DOMAINS = ("automation", "script")
_MAX_CONTEXTS = 4096
_MAX_AGE = timedelta(hours=24)


class AutomationContexts:
    """Remembers which automation or script acts under which context.

    An action called by an automation has no user, only the context that the
    automation made when it was triggered. A script that an automation calls runs under
    the automation's context: the outermost of them is who asks.

    Bounded: the latest 4096 contexts of the last 24 hours. A run that is older is still
    found by its entity's state, unless it has been triggered again since.
    """

    def __init__(self, hass: HomeAssistant) -> None:
        """Know nothing yet."""
        self._hass = hass
        self._known: OrderedDict[str, tuple[str, datetime]] = OrderedDict()

    @callback
    def async_listen(self) -> CALLBACK_TYPE:
        """Start to remember; return what ends it."""
        bus = self._hass.bus
        unsubs = [
            bus.async_listen(event_type, self._remember)
            for event_type in (EVENT_AUTOMATION_TRIGGERED, EVENT_SCRIPT_STARTED)
        ]

        @callback
        def stop() -> None:
            for unsub in unsubs:
                unsub()

        return stop

    @callback
    def entity_for(self, context_id: str) -> str | None:
        """Return the entity id of the automation or script with this context."""
        self._forget_old()
        if known := self._known.get(context_id):
            return known[0]
        return next(
            (
                state.entity_id
                for state in self._hass.states.async_all(_AUTOMATED_DOMAINS)
                if state.context.id == context_id
            ),
            None,
        )

    @callback
    def _remember(self, event: Event) -> None:
        self._known.setdefault(
            event.context.id, (event.data[ATTR_ENTITY_ID], event.time_fired)
        )
        if len(self._known) > _MAX_CONTEXTS:
            self._known.popitem(last=False)

    def _forget_old(self) -> None:
        limit = dt_util.utcnow() - _MAX_AGE
        while self._known and next(iter(self._known.values()))[1] < limit:
            self._known.popitem(last=False)
