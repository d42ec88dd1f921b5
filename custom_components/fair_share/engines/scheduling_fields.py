"""Telling a server how urgent a request is and whose it is.

Only servers of which the household says that they schedule by it are told. vLLM with
``--scheduling-policy priority`` serves the lowest ``priority`` first. The front of a
cluster passes ``priority`` on to the vLLM servers behind it, and llm-d's router
schedules by headers: the fairness id, between whose values it takes turns, and the
objective, a name for which the cluster has a priority configured (a name that it does
not know counts as none). The ids of members are hashed: a cluster is told apart who
asks, but not who that is.
"""

from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256

from .base import Origin

_ID_LENGTH = 16
_FAIRNESS_ID = "inference-fairness-id"
_OBJECTIVE = "inference-objective"
_PREFIXES = ("x-llm-d-", "x-gateway-")
"""llm-d's router has the first since its version 0.9; those before, and gateways made
of Kubernetes' inference extension, know the second one only."""


class Scheduling(StrEnum):
    """What a server does with the urgency of a request."""

    NONE = "none"
    PRIORITY = "priority"
    CLUSTER = "cluster"


def fairness_id(household_id: str, member_id: str) -> str:
    """Return an id for a member that stays the same and tells nothing else.

    ``household_id`` keeps the members of two households on one cluster apart.
    """
    told = f"{household_id}/{member_id}".encode()
    return f"fs-{sha256(told).hexdigest()[:_ID_LENGTH]}"


def scheduling_fields(
    scheduling: Scheduling, origin: Origin | None
) -> Mapping[str, int]:
    """Return the body fields that tell a server of this kind about a request."""
    if origin is None or scheduling is Scheduling.NONE:
        return {}
    return {"priority": origin.band}


def scheduling_headers(
    scheduling: Scheduling, origin: Origin | None
) -> Mapping[str, str]:
    """Return the HTTP headers that tell a server of this kind about a request."""
    if origin is None or scheduling is not Scheduling.CLUSTER:
        return {}
    told = {
        _FAIRNESS_ID: origin.fairness_id,
        _OBJECTIVE: f"fair-share-band-{origin.band}",
    }
    return {
        prefix + name: value for prefix in _PREFIXES for name, value in told.items()
    }
