"""Typed views of the member and device subentries."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from homeassistant.config_entries import ConfigSubentry
from homeassistant.const import CONF_DEVICE_ID

from ..admission.model import (
    ROOT_ID,
    Caps,
    NodeSpec,
    QuotaEnd,
    QuotaSpec,
    QuotaWindow,
    Workload,
)
from ..const import (
    CONF_CONTEXT_TOKENS,
    CONF_IN_FLIGHT,
    CONF_MEMBER,
    CONF_OUTPUT_TOKENS,
    CONF_PERSON_ID,
    CONF_QUEUED,
    CONF_QUOTA_END,
    CONF_QUOTA_REFILL,
    CONF_QUOTA_TOKENS,
    CONF_QUOTA_WINDOW,
    CONF_USER_IDS,
    CONF_WEIGHT,
    CONF_WORKLOAD,
    QUOTA_STEADY,
    SHARED_ID,
)
from .stored import Stored

QUOTA_WINDOWS = (*QuotaWindow, QUOTA_STEADY)


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
            spec=node_spec(subentry, ROOT_ID),
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
            workload=Workload(
                stored_of(subentry).one_of(CONF_WORKLOAD, Workload, Workload.VOICE)
            ),
            spec=node_spec(subentry, member_id),
        )


def weight_of(stored: Stored, prefix: str = "") -> float:
    """Return the weight that is stored under a key with this prefix."""
    return stored.above_zero(f"{prefix}{CONF_WEIGHT}", 1.0)


def quota_of(stored: Stored, prefix: str = "") -> QuotaSpec | None:
    """Return the quota that is stored under keys with this prefix, ``None`` if none.

    Without an amount to refill by the hour a steady quota is one by the day.
    """
    tokens = stored.whole(f"{prefix}{CONF_QUOTA_TOKENS}", None)
    window = stored.one_of(f"{prefix}{CONF_QUOTA_WINDOW}", QUOTA_WINDOWS, "day")
    refill = stored.whole(f"{prefix}{CONF_QUOTA_REFILL}", None, least=1)
    at_end = stored.one_of(f"{prefix}{CONF_QUOTA_END}", QuotaEnd, QuotaEnd.STOP)
    if tokens is None:
        return None
    if window != QUOTA_STEADY:
        return QuotaSpec(tokens, QuotaWindow(window), QuotaEnd(at_end))
    per_s = None if refill is None else refill / 3600
    return QuotaSpec(tokens, at_end=QuotaEnd(at_end), refill_per_s=per_s)


def node_spec(subentry: ConfigSubentry, parent_id: str) -> NodeSpec:
    """Return the node of the share tree that a subentry is."""
    stored = stored_of(subentry)
    return NodeSpec(
        node_id=subentry.subentry_id,
        parent_id=parent_id,
        weight=weight_of(stored),
        quota=quota_of(stored),
        caps=Caps(
            context_tokens=stored.whole(CONF_CONTEXT_TOKENS, None, least=1),
            output_tokens=stored.whole(CONF_OUTPUT_TOKENS, None, least=1),
            in_flight=stored.whole(CONF_IN_FLIGHT, None, least=1),
            queued=stored.whole(CONF_QUEUED, None, least=1),
        ),
    )


def stored_of(subentry: ConfigSubentry) -> Stored:
    """Return the settings of a subentry, to be read with care."""
    return Stored(subentry.data, f"settings of {subentry.title}")
