"""Who asks: the result of resolving an identity."""

from dataclasses import dataclass
from enum import StrEnum

from ..admission.model import Workload


class IdentityRule(StrEnum):
    """The rule that named the asker; earlier ones win."""

    CLIENT = "client"
    """A key of the gateway."""
    USER = "user"
    DEVICE = "device"
    AUTOMATION = "automation"
    GUEST = "guest"
    HOUSE = "house"
    """The household itself, for all of its members."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who is charged for a request, and what of theirs asks.

    ``source_id`` is the node of the share tree below the member: a device, a client of
    the gateway, the member's own direct use, or an automation. ``device_subentry_id``
    names the device subentry, if the source is one or belongs to it. ``workload`` is
    what the source does by nature (a satellite speaks); ``None`` leaves it to the door
    the request came in by.
    """

    member_id: str
    source_id: str
    device_subentry_id: str | None
    workload: Workload | None
    rule: IdentityRule
