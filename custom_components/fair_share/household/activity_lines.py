"""What the activity log says, as plain JSON values: docs/activity-log.md explains it.

Ids and numbers only. What an automation is called says what a household does, and
often of whom, so the id of an automation is replaced as well.
"""

from collections.abc import Iterable
from dataclasses import asdict
from hashlib import blake2b
from math import inf

from homeassistant.util.json import JsonObjectType

from ..admission.model import (
    Caps,
    Ending,
    NodeSpec,
    Outcome,
    RequestRecord,
    ServerCapacity,
    Settings,
)
from ..const import SHARED_ID
from .registry import direct_id

FORMAT = 1
"""Grows when what was there before means something else; not for new fields."""

_REFUSED = "refused"
_DIGEST_BYTES = 6


def household_line(
    settings: Settings, nodes: Iterable[NodeSpec], servers: Iterable[ServerCapacity]
) -> JsonObjectType:
    """Return the line that says how the household is set up."""
    rules = settings.preemption
    return {
        "type": "household",
        "format": FORMAT,
        "policy": settings.policy,
        "costs": asdict(settings.costs),
        "limits": asdict(settings.limits),
        "workloads": {
            workload.value: _bounded(asdict(profile))
            for workload, profile in settings.profiles.items()
        },
        "background_share": settings.background_share,
        "background_debt": settings.background_debt,
        "bypass": settings.bypass,
        "preemption": None if rules is None else asdict(rules),
        "members": [
            {
                "id": node.node_id,
                "parent": node.parent_id,
                "weight": node.weight,
                "caps": _caps(node.caps),
            }
            for node in nodes
        ],
        "servers": [asdict(server) for server in servers],
    }


def _bounded(fields: JsonObjectType) -> JsonObjectType:
    """Return what is limited; JSON knows no infinity, and absent means the same."""
    return {name: value for name, value in fields.items() if value != inf}


def request_line(ending: Ending, ended_s: float, secret: str) -> JsonObjectType:
    """Return the line of a request that left the queue at ``ended_s``, UTC seconds.

    ``secret`` is what the ids of automations are made unreadable with.
    """
    _, member_id, source_id, class_id = ending.path
    request, record = ending.request, ending.record
    arrived_s = ended_s - ending.duration_s
    return {
        "type": "request",
        "id": request.request_id,
        "member": member_id,
        "source": _opaque(source_id, secret),
        "workload": class_id.removeprefix(f"{source_id}/"),
        "continues_turn": request.continues_turn,
        "arrived": _seconds(arrived_s),
        "ended": _seconds(ended_s),
        "prompt_tokens": request.prompt_tokens,
        "max_output_tokens": request.max_output_tokens,
        "outcome": _outcome(ending),
        "reason": None if ending.refusal is None else ending.refusal.value,
        **({} if record is None else _account(record, arrived_s)),
    }


def _account(record: RequestRecord, arrived_s: float) -> JsonObjectType:
    ran = record.preemptions > 0 or record.ttft_s is not None
    started = record.server_id is not None or ran
    return {
        "started": _moment(arrived_s, record.wait_s if started else None),
        "first_token": _moment(arrived_s, record.ttft_s),
        "server": record.server_id,
        "rule": None if record.rule is None else record.rule.value,
        "uncached_tokens": record.tokens.uncached,
        "cached_tokens": record.tokens.cached,
        "output_tokens": record.tokens.output,
        "estimated": record.estimated,
        "charge": round(record.charge, 1),
        "wait_s": _seconds(record.wait_s),
        "preemptions": record.preemptions,
        "paused_s": _seconds(record.paused_s),
        "longest_pause_s": _seconds(record.longest_pause_s),
    }


def _outcome(ending: Ending) -> str:
    if ending.record is not None:
        return ending.record.outcome.value
    return Outcome.CANCELLED.value if ending.refusal is None else _REFUSED


def _moment(arrived_s: float, after_s: float | None) -> float | None:
    return None if after_s is None else _seconds(arrived_s + after_s)


def _seconds(value: float) -> float:
    return round(value, 3)


def _caps(caps: Caps) -> JsonObjectType:
    return {name: limit for name, limit in asdict(caps).items() if limit is not None}


def _opaque(source_id: str, secret: str) -> str:
    owner, _, part = source_id.partition("/")
    if owner != SHARED_ID or source_id in (SHARED_ID, direct_id(SHARED_ID)):
        return source_id
    digest = blake2b(part.encode(), digest_size=_DIGEST_BYTES, key=secret.encode()[:64])
    return f"{SHARED_ID}/{digest.hexdigest()}"
