"""Triggers that are made for quotas and queues."""

from typing import override

from homeassistant.const import PERCENTAGE, STATE_ON
from homeassistant.core import HomeAssistant, State
from homeassistant.helpers.trigger import (
    EntityNumericalStateCrossedThresholdTriggerBase,
    EntityTargetStateTriggerBase,
    EntityTriggerBase,
    NotTriggeredReasonReporter,
    Trigger,
)

from .sensor_facts import MemberState
from .targets import (
    BINARY_SENSORS,
    MEMBER_STATE,
    QUEUE_DEPTH,
    QUOTA_EXHAUSTED,
    QUOTA_REMAINING_PERCENT,
    SENSORS,
    async_of_kind,
    counts_some,
)


class _OfOurs(EntityTriggerBase):
    """A trigger on one kind of entities of this integration.

    Whatever was unavailable or unknown before, as after a restart, triggers nothing.
    """

    _kind: str
    _primary_entities_only = False

    @override
    def entity_filter(self, entities: set[str]) -> set[str]:
        """Look at that kind alone, of all that a device or an area has."""
        return async_of_kind(self._hass, entities, self._kind)


class QuotaCrossedThreshold(_OfOurs, EntityNumericalStateCrossedThresholdTriggerBase):
    """What is left of a quota, in percent, came into a range."""

    _domain_specs = SENSORS
    _kind = QUOTA_REMAINING_PERCENT
    _valid_unit = PERCENTAGE


class QuotaExhausted(_OfOurs, EntityTargetStateTriggerBase):
    """A quota is used up."""

    _domain_specs = BINARY_SENSORS
    _kind = QUOTA_EXHAUSTED
    _to_states = {STATE_ON}  # noqa: RUF012 - as the class above has it


class QueueBecameBusy(_OfOurs):
    """Requests wait where none waited."""

    _domain_specs = SENSORS
    _kind = QUEUE_DEPTH

    @override
    def is_valid_state(
        self, state: State, report_not_triggered: NotTriggeredReasonReporter
    ) -> bool:
        """Return whether something waits."""
        return counts_some(state)

    @override
    def is_valid_transition(self, from_state: State, to_state: State) -> bool:
        """Return whether nothing waited before."""
        return not counts_some(from_state)


class MemberWaiting(_OfOurs, EntityTargetStateTriggerBase):
    """A member or device waits, and none of its requests is served."""

    _domain_specs = SENSORS
    _kind = MEMBER_STATE
    _to_states = {MemberState.WAITING.value}  # noqa: RUF012 - as above


TRIGGERS: dict[str, type[Trigger]] = {
    "quota_crossed_threshold": QuotaCrossedThreshold,
    "quota_exhausted": QuotaExhausted,
    "queue_became_busy": QueueBecameBusy,
    "member_waiting": MemberWaiting,
}


async def async_get_triggers(_hass: HomeAssistant) -> dict[str, type[Trigger]]:
    """Return the triggers by their name."""
    return TRIGGERS
