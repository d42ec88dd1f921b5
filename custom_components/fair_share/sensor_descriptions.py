"""What the sensors of a node of the share tree show."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from homeassistant.components.sensor import (
    SensorDeviceClass,
    SensorEntityDescription,
    SensorStateClass,
)
from homeassistant.const import EntityCategory, UnitOfRatio, UnitOfTime
from homeassistant.helpers.typing import StateType

from .admission.status import NodeStatus, WindowStatus


@dataclass(frozen=True, kw_only=True)
class NodeSensorDescription(SensorEntityDescription):
    """A number of one node; its text is found by ``key``.

    ``since`` tells from when a total counts that begins anew at times.
    """

    value: Callable[[NodeStatus], StateType | datetime]
    since: Callable[[NodeStatus], datetime | None] = lambda _: None


def _tokens_served(status: NodeStatus) -> int:
    return status.tokens.prompt + status.tokens.output


def _remaining_percent(window: WindowStatus) -> float | None:
    if window.limit_tokens is None or window.remaining_tokens is None:
        return None
    return 100 * window.remaining_tokens / max(1, window.limit_tokens)


def _next_reset(window: WindowStatus) -> datetime | None:
    # What is refilled steadily has no reset.
    return window.resets_at if window.refill_per_s is None else None


QUEUE_DEPTH = NodeSensorDescription(
    key="queue_depth",
    state_class=SensorStateClass.MEASUREMENT,
    value=lambda status: status.waiting,
)
RUNNING = NodeSensorDescription(
    key="running",
    state_class=SensorStateClass.MEASUREMENT,
    value=lambda status: status.running,
)
# A server's final count can be a little below what was counted as it came. A total that
# may only increase would be reported as faulty then.
TOKENS_SERVED = NodeSensorDescription(
    key="tokens_served",
    state_class=SensorStateClass.TOTAL,
    suggested_display_precision=0,
    value=_tokens_served,
)
PREEMPTIONS = NodeSensorDescription(
    key="preemptions",
    state_class=SensorStateClass.TOTAL_INCREASING,
    entity_category=EntityCategory.DIAGNOSTIC,
    entity_registry_enabled_default=False,
    value=lambda status: status.preemptions,
)
REJECTED = NodeSensorDescription(
    key="rejected",
    state_class=SensorStateClass.TOTAL_INCREASING,
    entity_category=EntityCategory.DIAGNOSTIC,
    value=lambda status: status.rejected,
)

HOUSEHOLD_SENSORS = (
    QUEUE_DEPTH,
    RUNNING,
    TOKENS_SERVED,
    NodeSensorDescription(
        key="tokens_prompt",
        state_class=SensorStateClass.TOTAL,
        entity_category=EntityCategory.DIAGNOSTIC,
        entity_registry_enabled_default=False,
        suggested_display_precision=0,
        value=lambda status: status.tokens.uncached,
    ),
    NodeSensorDescription(
        key="tokens_cached",
        state_class=SensorStateClass.TOTAL,
        entity_category=EntityCategory.DIAGNOSTIC,
        entity_registry_enabled_default=False,
        suggested_display_precision=0,
        value=lambda status: status.tokens.cached,
    ),
    NodeSensorDescription(
        key="tokens_output",
        state_class=SensorStateClass.TOTAL,
        entity_category=EntityCategory.DIAGNOSTIC,
        entity_registry_enabled_default=False,
        suggested_display_precision=0,
        value=lambda status: status.tokens.output,
    ),
    PREEMPTIONS,
    REJECTED,
)

MEMBER_SENSORS = (
    QUEUE_DEPTH,
    NodeSensorDescription(
        key="tokens_window",
        state_class=SensorStateClass.TOTAL,
        suggested_display_precision=0,
        value=lambda status: status.window.used_tokens,
        since=lambda status: status.window.counted_from,
    ),
    # Without a quota the two are unknown: there is nothing that could be left of it.
    NodeSensorDescription(
        key="quota_remaining",
        state_class=SensorStateClass.MEASUREMENT,
        suggested_display_precision=0,
        value=lambda status: status.window.remaining_tokens,
    ),
    NodeSensorDescription(
        key="quota_remaining_percent",
        native_unit_of_measurement=UnitOfRatio.PERCENTAGE,
        state_class=SensorStateClass.MEASUREMENT,
        suggested_display_precision=0,
        value=lambda status: _remaining_percent(status.window),
    ),
    NodeSensorDescription(
        key="next_reset",
        device_class=SensorDeviceClass.TIMESTAMP,
        value=lambda status: _next_reset(status.window),
    ),
    TOKENS_SERVED,
    NodeSensorDescription(
        key="last_wait",
        device_class=SensorDeviceClass.DURATION,
        native_unit_of_measurement=UnitOfTime.SECONDS,
        state_class=SensorStateClass.MEASUREMENT,
        suggested_display_precision=1,
        value=lambda status: status.last.wait_s if status.last else None,
    ),
    NodeSensorDescription(
        key="last_ttft",
        device_class=SensorDeviceClass.DURATION,
        native_unit_of_measurement=UnitOfTime.SECONDS,
        state_class=SensorStateClass.MEASUREMENT,
        entity_category=EntityCategory.DIAGNOSTIC,
        suggested_display_precision=1,
        value=lambda status: status.last.ttft_s if status.last else None,
    ),
    PREEMPTIONS,
    REJECTED,
)
