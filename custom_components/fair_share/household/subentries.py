"""Typed views of the member and device subentries."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from homeassistant.config_entries import ConfigSubentry
from homeassistant.const import CONF_DEVICE_ID

from ..admission.model import ROOT_ID, Caps, NodeSpec, QuotaSpec, QuotaWindow, Workload
from ..const import (
    CONF_CONTEXT_TOKENS,
    CONF_IN_FLIGHT,
    CONF_MEMBER,
    CONF_OUTPUT_TOKENS,
    CONF_PERSON_ID,
    CONF_QUOTA_TOKENS,
    CONF_QUOTA_WINDOW,
    CONF_USER_IDS,
    CONF_WEIGHT,
    CONF_WORKLOAD,
    SHARED_ID,
)


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """A person of the household.

    ``person_id`` is the person's own id (not the entity id, which can be renamed);
    ``user_ids`` are further Home Assistant users of theirs.
    """

    member_id: str
    name: str
    person_id: str
    user_ids: frozenset[str]
    spec: NodeSpec

    @classmethod
    def from_subentry(cls, subentry: ConfigSubentry) -> Self:
        """Read a subentry of type ``member``."""
        return cls(
            member_id=subentry.subentry_id,
            name=subentry.title,
            person_id=subentry.data[CONF_PERSON_ID],
            user_ids=frozenset(subentry.data.get(CONF_USER_IDS, ())),
            spec=_spec(subentry, ROOT_ID),
        )


@dataclass(frozen=True, slots=True)
class DeviceConfig:
    """A satellite, tablet or other device that asks by itself.

    ``device_id`` is its id in the device registry. ``member_id`` is whose share it
    uses: a member's or the shared one.
    """

    subentry_id: str
    name: str
    device_id: str
    member_id: str
    workload: Workload
    spec: NodeSpec

    @classmethod
    def from_subentry(
        cls, subentry: ConfigSubentry, members: Mapping[str, MemberConfig]
    ) -> Self:
        """Read a subentry of type ``device``.

        A device whose member is gone belongs to nobody in particular.
        """
        wanted = subentry.data.get(CONF_MEMBER, SHARED_ID)
        member_id = wanted if wanted in members else SHARED_ID
        return cls(
            subentry_id=subentry.subentry_id,
            name=subentry.title,
            device_id=subentry.data[CONF_DEVICE_ID],
            member_id=member_id,
            workload=Workload(subentry.data.get(CONF_WORKLOAD, Workload.VOICE)),
            spec=_spec(subentry, member_id),
        )


def quota_of(data: Mapping[str, Any]) -> QuotaSpec | None:
    """Return the quota set in the data of a subentry, ``None`` without one."""
    if (tokens := data.get(CONF_QUOTA_TOKENS)) is None:
        return None
    return QuotaSpec(
        int(tokens), QuotaWindow(data.get(CONF_QUOTA_WINDOW, QuotaWindow.DAY))
    )


def _spec(subentry: ConfigSubentry, parent_id: str) -> NodeSpec:
    data = subentry.data
    return NodeSpec(
        node_id=subentry.subentry_id,
        parent_id=parent_id,
        weight=float(data.get(CONF_WEIGHT, 1.0)),
        quota=quota_of(data),
        caps=Caps(
            context_tokens=_count(data, CONF_CONTEXT_TOKENS),
            output_tokens=_count(data, CONF_OUTPUT_TOKENS),
            in_flight=_count(data, CONF_IN_FLIGHT),
        ),
    )


def _count(data: Mapping[str, Any], key: str) -> int | None:
    # Number selectors hand over floats.
    value = data.get(key)
    return None if value is None else int(value)
