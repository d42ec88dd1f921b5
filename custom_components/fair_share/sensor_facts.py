"""What the sensors show that is measured, or follows from several accounts."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from homeassistant.components.sensor import (
    SensorDeviceClass,
    SensorEntityDescription,
    SensorStateClass,
)
from homeassistant.const import EntityCategory, UnitOfRatio, UnitOfTime
from homeassistant.helpers.typing import StateType

from .admission.metrics import ByNode, ByWorkload, Measure
from .admission.model import Workload
from .household.runtime import Household


@dataclass(frozen=True, kw_only=True)
class FactDescription(SensorEntityDescription):
    """A fact about a node of the share tree or a kind of requests, by its id."""

    value: Callable[[Household, str], StateType | datetime]


class MemberState(StrEnum):
    """What goes on with a member or device; the first that is true."""

    PAUSED = "paused"
    SERVED = "served"
    OVER_QUOTA = "over_quota"
    WAITING = "waiting"
    IDLE = "idle"


def member_state(household: Household, node_id: str) -> MemberState:
    """Return what goes on with a node. Raises ``KeyError``."""
    status = household.node_status(node_id)
    if household.is_paused(node_id):
        return MemberState.PAUSED
    if status.running:
        return MemberState.SERVED
    if household.is_over_quota(node_id):
        return MemberState.OVER_QUOTA
    return MemberState.WAITING if status.waiting else MemberState.IDLE


def _percent(part: float | None) -> float | None:
    return None if part is None else 100 * part


def _depth(household: Household, workload: str) -> int:
    return sum(
        request.server_id is None and request.workload == workload
        for request in household.status().requests
    )


def _of_node(measure: Measure, percent: int) -> Callable[[Household, str], StateType]:
    return lambda household, node_id: household.measures.percentile(
        ByNode(node_id), measure, percent
    )


def _of_workload(
    measure: Measure, percent: int
) -> Callable[[Household, str], StateType]:
    return lambda household, workload: household.measures.percentile(
        ByWorkload(Workload(workload)), measure, percent
    )


def _seconds(
    key: str,
    value: Callable[[Household, str], StateType],
    *,
    enabled: bool,
    precision: int = 1,
) -> FactDescription:
    return FactDescription(
        key=key,
        device_class=SensorDeviceClass.DURATION,
        native_unit_of_measurement=UnitOfTime.SECONDS,
        state_class=SensorStateClass.MEASUREMENT,
        entity_category=None if enabled else EntityCategory.DIAGNOSTIC,
        entity_registry_enabled_default=enabled,
        suggested_display_precision=precision,
        value=value,
    )


HOUSEHOLD_FACTS = (
    FactDescription(
        key="expected_wait_voice",
        device_class=SensorDeviceClass.DURATION,
        native_unit_of_measurement=UnitOfTime.SECONDS,
        state_class=SensorStateClass.MEASUREMENT,
        suggested_display_precision=0,
        value=lambda household, _: household.expected_wait_s(Workload.VOICE),
    ),
    FactDescription(
        key="tokens_per_second",
        state_class=SensorStateClass.MEASUREMENT,
        suggested_display_precision=1,
        value=lambda household, _: household.measures.tokens_per_second,
    ),
    FactDescription(
        key="tokens_recomputed",
        state_class=SensorStateClass.TOTAL_INCREASING,
        entity_category=EntityCategory.DIAGNOSTIC,
        entity_registry_enabled_default=False,
        suggested_display_precision=0,
        value=lambda household, _: household.status().recomputed.prompt,
    ),
    FactDescription(
        key="fairness_gap",
        state_class=SensorStateClass.MEASUREMENT,
        entity_category=EntityCategory.DIAGNOSTIC,
        suggested_display_precision=0,
        value=lambda household, _: household.status().fairness_gap,
    ),
    FactDescription(
        key="fairness_bound",
        state_class=SensorStateClass.MEASUREMENT,
        entity_category=EntityCategory.DIAGNOSTIC,
        suggested_display_precision=0,
        value=lambda household, _: household.status().fairness_bound,
    ),
    FactDescription(
        key="policy_match",
        native_unit_of_measurement=UnitOfRatio.PERCENTAGE,
        state_class=SensorStateClass.MEASUREMENT,
        suggested_display_precision=0,
        value=lambda household, _: household.measures.policy_match(),
    ),
)

CLIENT_FACTS = (
    FactDescription(
        key="last_used",
        device_class=SensorDeviceClass.TIMESTAMP,
        entity_category=EntityCategory.DIAGNOSTIC,
        value=lambda household, client_id: household.client_use.last(client_id),
    ),
)

MEMBER_FACTS = (
    FactDescription(
        key="member_state",
        device_class=SensorDeviceClass.ENUM,
        options=[state.value for state in MemberState],
        value=lambda household, node_id: member_state(household, node_id).value,
    ),
    FactDescription(
        key="share_observed",
        native_unit_of_measurement=UnitOfRatio.PERCENTAGE,
        state_class=SensorStateClass.MEASUREMENT,
        suggested_display_precision=0,
        value=lambda household, node_id: _percent(
            household.measures.share_observed(household.node_status(node_id))
        ),
    ),
    FactDescription(
        key="share_entitled",
        native_unit_of_measurement=UnitOfRatio.PERCENTAGE,
        state_class=SensorStateClass.MEASUREMENT,
        suggested_display_precision=0,
        value=lambda household, node_id: _percent(
            household.measures.share_entitled(household.node_status(node_id))
        ),
    ),
    _seconds("wait_p95", _of_node(Measure.WAIT, 95), enabled=True),
    _seconds("ttft_p95", _of_node(Measure.TTFT, 95), enabled=False),
    _seconds("itl_p95", _of_node(Measure.ITL, 95), enabled=False, precision=3),
    _seconds("completion_p95", _of_node(Measure.COMPLETION, 95), enabled=False),
)

WORKLOAD_FACTS = (
    FactDescription(
        key="queue_depth",
        state_class=SensorStateClass.MEASUREMENT,
        value=_depth,
    ),
    _seconds("wait_p95", _of_workload(Measure.WAIT, 95), enabled=True),
    _seconds("wait_p50", _of_workload(Measure.WAIT, 50), enabled=False),
    _seconds("ttft_p50", _of_workload(Measure.TTFT, 50), enabled=False),
    _seconds("ttft_p95", _of_workload(Measure.TTFT, 95), enabled=False),
    _seconds("completion_p50", _of_workload(Measure.COMPLETION, 50), enabled=False),
    _seconds("completion_p95", _of_workload(Measure.COMPLETION, 95), enabled=False),
)
