"""What the household tells about its use and its queue, as plain JSON values."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from homeassistant.util.json import JsonObjectType

from ..admission.model import ROOT_ID, RequestRecord, TokenCount, Workload
from ..admission.status import NodeStatus, RequestStatus, ServerStatus, WindowStatus
from ..const import GUEST_ID, SHARED_ID
from .registry import direct_id
from .servers import ServerView

if TYPE_CHECKING:
    from .runtime import Household

_FORECAST = 50
"""For so many waiting requests it is foretold when they will start."""

_REMOVED = "removed"
"""Stands for who left the household while their answer is still being written."""


def usage_report(household: Household) -> JsonObjectType:
    """Return who has used how much, and how that compares with what is their due.

    ``share_observed`` is a member's part of everything that was charged.
    ``share_entitled`` is the part that their weight gives them among the members that
    have asked for anything so far; ``None`` for those that have not.
    """
    accounts = _accounts(household)
    members = [account for account in accounts if account.parent_id == ROOT_ID]
    charged = sum(member.charge for member in members)
    taking_part = {m.node_id: m.weight for m in members if _takes_part(m)}
    titles = {view.server_id: view.title for view in household.servers.statuses()}
    return {
        "household": _account(household.node_status(ROOT_ID), titles),
        "members": [
            {
                "id": member.node_id,
                "name": household.registry.name(member.node_id),
                "kind": _member_kind(member.node_id),
                **_account(member, titles),
                "share_observed": _share(member.charge, charged),
                "share_entitled": _share(
                    taking_part.get(member.node_id), sum(taking_part.values())
                ),
                "sources": [
                    {
                        "id": source.node_id,
                        "name": household.registry.name(source.node_id),
                        "kind": _source_kind(household, source),
                        **_account(source, titles),
                    }
                    for source in accounts
                    if source.parent_id == member.node_id
                ],
            }
            for member in members
        ],
    }


def queue_report(household: Household) -> JsonObjectType:
    """Return what waits and runs now, why, and what is placed on which server."""
    status = household.queue.status(ahead=_FORECAST)
    placed = {server.server_id: server for server in status.servers}
    views = household.servers.statuses()
    titles = {view.server_id: view.title for view in views}
    return {
        "waiting": status.waiting,
        "running": status.running,
        "fairness_gap": round(status.fairness_gap, 1),
        "fairness_bound": round(status.fairness_bound, 1),
        "expected_wait_s": {
            workload.value: _rounded(household.expected_wait_s(workload))
            for workload in Workload
        },
        **paused_report(household),
        "requests": [
            _request(household, request, titles) for request in status.requests
        ],
        "servers": [_server(view, placed.get(view.server_id)) for view in views],
    }


def paused_report(household: Household) -> JsonObjectType:
    """Return the members, devices and kinds of requests of which nothing starts."""
    rules = household.settings
    return {
        "paused": [*sorted(map(household.registry.name, rules.paused_nodes))],
        "paused_workloads": [*sorted(each.value for each in rules.paused_workloads)],
    }


def _accounts(household: Household) -> list[NodeStatus]:
    accounts = []
    for state in household.queue.export_state().nodes:
        # Accounts are also kept of automations that have not asked since the start.
        with suppress(KeyError):
            accounts.append(household.node_status(state.node_id))
    return accounts


def _takes_part(status: NodeStatus) -> bool:
    return bool(status.charge or status.waiting or status.running)


def _share(part: float | None, whole: float) -> float | None:
    return None if part is None or not whole else round(part / whole, 4)


def _member_kind(node_id: str) -> str:
    return node_id if node_id in (GUEST_ID, SHARED_ID) else "person"


def _source_kind(household: Household, source: NodeStatus) -> str:
    if source.node_id in household.registry.devices:
        return "device"
    if source.node_id in household.registry.clients:
        return "client"
    if source.parent_id and source.node_id == direct_id(source.parent_id):
        return "direct"
    return "automation"


def _account(status: NodeStatus, titles: Mapping[str, str]) -> JsonObjectType:
    last = None if status.last is None else _record(status.last, titles)
    return {
        "weight": status.weight,
        "waiting": status.waiting,
        "running": status.running,
        "requests": status.requests,
        "rejected": status.rejected,
        "preemptions": status.preemptions,
        **_tokens(status.tokens),
        "charge": round(status.charge, 1),
        "quota": window_report(status.window),
        "last_request": last,
    }


def _tokens(tokens: TokenCount) -> JsonObjectType:
    return {
        "tokens": tokens.prompt + tokens.output,
        "prompt_tokens": tokens.prompt,
        "cached_tokens": tokens.cached,
        "output_tokens": tokens.output,
    }


def window_report(window: WindowStatus) -> JsonObjectType:
    """Return a quota and what was used of it in its current period."""
    return {
        "window": window.window.value,
        "started_at": window.started_at.isoformat(),
        "resets_at": window.resets_at.isoformat(),
        "used_tokens": window.used_tokens,
        "refill_per_hour": _per_hour(window.refill_per_s),
        "limit_tokens": window.limit_tokens,
        "remaining_tokens": window.remaining_tokens,
    }


def _record(record: RequestRecord, titles: Mapping[str, str]) -> JsonObjectType:
    return {
        "outcome": record.outcome.value,
        "workload": record.workload.value,
        "server": _title(record.server_id, titles),
        "wait_s": round(record.wait_s, 3),
        "ttft_s": _rounded(record.ttft_s),
        "duration_s": round(record.duration_s, 3),
        **_tokens(record.tokens),
        "charge": round(record.charge, 1),
        "estimated": record.estimated,
        "preemptions": record.preemptions,
        "longest_pause_s": round(record.longest_pause_s, 3),
    }


def _request(
    household: Household, request: RequestStatus, titles: Mapping[str, str]
) -> JsonObjectType:
    member, source = _owners(household, request.class_id)
    return {
        "id": request.request_id,
        "state": "waiting" if request.server_id is None else "running",
        "reason": request.rule.value,
        "member": member,
        "source": source,
        "workload": request.workload.value,
        "server": _title(request.server_id, titles),
        "waited_s": round(request.waited_s, 3),
        "ahead": request.ahead,
        "starts_in_s": _rounded(request.starts_in_s),
        "prompt_tokens": request.prompt_tokens,
        "output_tokens": request.output_tokens,
        "preemptions": request.preemptions,
    }


def _owners(household: Household, class_id: str) -> tuple[str, str]:
    """Return the names of the member and of what of theirs asks."""
    try:
        source_id = household.node_status(class_id).parent_id or class_id
        member_id = household.node_status(source_id).parent_id or source_id
    except KeyError:
        return _REMOVED, _REMOVED
    return household.registry.name(member_id), household.registry.name(source_id)


def _server(view: ServerView, placed: ServerStatus | None) -> JsonObjectType:
    return {
        "id": view.server_id,
        "name": view.title,
        "state": view.state.value,
        "slots": placed.slots if placed else None,
        "running": placed.running if placed else 0,
        "foreign": view.foreign,
        "context_tokens": placed.context_tokens if placed else None,
        "kv_tokens": placed.kv_tokens if placed else None,
        "kv_committed_tokens": placed.kv_committed_tokens if placed else 0,
    }


def _title(server_id: str | None, titles: Mapping[str, str]) -> str | None:
    return titles.get(server_id, server_id) if server_id else None


def _per_hour(per_s: float | None) -> int | None:
    return None if per_s is None else round(per_s * 3600)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
