"""What a report of a problem may hold: numbers, and nothing that people said or own.

No text, name, address, key or id of a person, user, device or entity is in it; members,
devices, automations and servers are numbered. So that nothing gets in by being added
somewhere else, every field is named here, but for the queue's own numbers.
"""

from dataclasses import asdict
import re
from typing import Any

from homeassistant.config_entries import ConfigSubentry
from homeassistant.const import CONF_API_KEY, CONF_URL
from homeassistant.core import HomeAssistant
from homeassistant.helpers.device_registry import DeviceEntry
from yarl import URL

from .admission.model import ROOT_ID, RequestRecord, Settings
from .admission.status import NodeStatus, RequestStatus, ServerStatus
from .const import (
    CONF_CONTEXT_TOKENS,
    CONF_FROM_OUTSIDE,
    CONF_IN_FLIGHT,
    CONF_KIND,
    CONF_MEMBER,
    CONF_MEMORY,
    CONF_OUTPUT_TOKENS,
    CONF_PATIENT_SLOTS,
    CONF_QUEUED,
    CONF_QUOTA_END,
    CONF_QUOTA_REFILL,
    CONF_QUOTA_TOKENS,
    CONF_QUOTA_WINDOW,
    CONF_REQUESTS_PER_MINUTE,
    CONF_SCHEDULING,
    CONF_SLOTS,
    CONF_TEMPERATURE,
    CONF_WEIGHT,
    CONF_WORKLOAD,
    DOMAIN,
    GUEST_ID,
    SHARED_ID,
    SUBENTRY_AGENT,
    SUBENTRY_AI_TASK,
    SUBENTRY_CLIENT,
    SUBENTRY_DEVICE,
    SUBENTRY_MEMBER,
    SUBENTRY_SERVER,
    SUBENTRY_WRAPPED_AGENT,
)
from .household.registry import BUILT_IN_IDS, device_identifier
from .household.runtime import FairShareConfigEntry, Household
from .household.servers import ServerView

_SHARE_KEYS = (
    CONF_WORKLOAD,
    CONF_WEIGHT,
    CONF_QUOTA_TOKENS,
    CONF_QUOTA_WINDOW,
    CONF_QUOTA_REFILL,
    CONF_QUOTA_END,
    CONF_CONTEXT_TOKENS,
    CONF_OUTPUT_TOKENS,
    CONF_IN_FLIGHT,
    CONF_QUEUED,
)
_SAFE_KEYS = {
    SUBENTRY_MEMBER: _SHARE_KEYS,
    SUBENTRY_DEVICE: _SHARE_KEYS,
    SUBENTRY_CLIENT: (
        *_SHARE_KEYS,
        CONF_REQUESTS_PER_MINUTE,
        CONF_FROM_OUTSIDE,
    ),
    SUBENTRY_AGENT: (CONF_WORKLOAD, CONF_OUTPUT_TOKENS, CONF_TEMPERATURE),
    SUBENTRY_AI_TASK: (CONF_WORKLOAD, CONF_OUTPUT_TOKENS, CONF_TEMPERATURE),
    SUBENTRY_WRAPPED_AGENT: (CONF_WORKLOAD,),
    SUBENTRY_SERVER: (
        CONF_KIND,
        CONF_SLOTS,
        CONF_CONTEXT_TOKENS,
        CONF_MEMORY,
        CONF_PATIENT_SLOTS,
        CONF_SCHEDULING,
    ),
}
_VERSION = re.compile(r"[bv]?\d[\d.]{0,15}")


async def async_get_config_entry_diagnostics(
    _hass: HomeAssistant, entry: FairShareConfigEntry
) -> dict[str, Any]:
    """Return all that may be told of a household."""
    return _Report(entry).whole()


async def async_get_device_diagnostics(
    _hass: HomeAssistant, entry: FairShareConfigEntry, device: DeviceEntry
) -> dict[str, Any]:
    """Return what may be told of a member, device or server.

    The household and the kinds of requests are about everybody.
    """
    report = _Report(entry)
    known = {(DOMAIN, device_identifier(entry.entry_id, i)): i for i in BUILT_IN_IDS}
    known |= {(DOMAIN, subentry_id): subentry_id for subentry_id in entry.subentries}
    for identifier in device.identifiers:
        if owner_id := known.get(identifier):
            return report.of(owner_id)
    return report.whole()


class _Report:
    """Tells of one household, by numbers instead of names."""

    def __init__(self, entry: FairShareConfigEntry) -> None:
        self._entry = entry
        self._household: Household = entry.runtime_data
        self._numbers: dict[str, str] = {GUEST_ID: GUEST_ID, SHARED_ID: SHARED_ID}
        counts: dict[str, int] = {}
        for subentry in entry.subentries.values():
            kind = subentry.subentry_type
            counts[kind] = counts.get(kind, 0) + 1
            self._numbers[subentry.subentry_id] = f"{kind} {counts[kind]}"

    def whole(self) -> dict[str, Any]:
        """Return everything."""
        household = self._household
        status = household.status()
        return {
            "settings": _settings(household.settings),
            "paused": sorted(map(self._who, household.settings.paused_nodes)),
            "subentries": [
                self._subentry(each) for each in self._entry.subentries.values()
            ],
            "queue": {
                "waiting": status.waiting,
                "running": status.running,
                "fairness_gap": status.fairness_gap,
                "fairness_bound": status.fairness_bound,
                "recomputed": asdict(status.recomputed),
                "background_owed": status.background_owed,
                "tokens_per_second": household.measures.tokens_per_second,
                "policy_match": household.measures.policy_match(),
                "requests": [self._request(each) for each in status.requests],
            },
            "servers": [self._server(each) for each in household.servers.statuses()],
            "accounts": [self._account(each) for each in self._nodes()],
            "records": [self._record(each) for each in household.records()],
        }

    def of(self, owner_id: str) -> dict[str, Any]:
        """Return what is about one member, device or server."""
        household = self._household
        subentry = self._entry.subentries.get(owner_id)
        told: dict[str, Any] = {
            "settings": _settings(household.settings),
            "subentry": None if subentry is None else self._subentry(subentry),
        }
        views = [v for v in household.servers.statuses() if v.server_id == owner_id]
        if views:
            return told | {
                "server": self._server(views[0]),
                "requests": [
                    self._request(each)
                    for each in household.status().requests
                    if each.server_id == owner_id
                ],
                "records": [
                    self._record(each)
                    for each in household.records()
                    if each.server_id == owner_id
                ],
            }
        return told | {
            "accounts": [
                self._account(each)
                for each in self._nodes()
                if owner_id in (each.node_id, each.parent_id)
            ],
            "requests": [
                self._request(each)
                for each in household.status().requests
                if self._belongs(each.class_id, owner_id)
            ],
            "records": [
                self._record(each)
                for each in household.records()
                if self._belongs(each.class_id, owner_id)
            ],
        }

    def _nodes(self) -> list[NodeStatus]:
        found = []
        for state in self._household.queue.export_state().nodes:
            try:
                found.append(self._household.node_status(state.node_id))
            except KeyError:
                continue  # an automation that has not asked since the start
        return found

    def _belongs(self, class_id: str, owner_id: str) -> bool:
        try:
            return owner_id in self._household.queue.path_ids(class_id)
        except KeyError:
            return False  # removed since

    def _who(self, node_id: str) -> str:
        """Return what stands for a node: a number, and what kind of part of it."""
        if node_id in self._numbers:
            return self._numbers[node_id]
        owner, _, part = node_id.partition("/")
        if part == "direct":
            return f"{self._who(owner)}/direct" if owner in self._numbers else "removed"
        if owner == SHARED_ID and part:
            count = sum(
                name.startswith("automation ") for name in self._numbers.values()
            )
            return self._numbers.setdefault(node_id, f"automation {count + 1}")
        return ROOT_ID if node_id == ROOT_ID else "removed"

    def _subentry(self, subentry: ConfigSubentry) -> dict[str, Any]:
        data = subentry.data
        kind = subentry.subentry_type
        told: dict[str, Any] = {
            "who": self._who(subentry.subentry_id),
            **{key: data[key] for key in _SAFE_KEYS.get(kind, ()) if key in data},
        }
        if kind == SUBENTRY_SERVER:
            url = URL(str(data[CONF_URL]))
            told |= {
                "scheme": url.scheme,
                "port": url.port,
                "has_key": bool(data.get(CONF_API_KEY)),
            }
        if kind in (SUBENTRY_DEVICE, SUBENTRY_CLIENT):
            told["whose"] = self._who(str(data.get(CONF_MEMBER, SHARED_ID)))
        return told

    def _server(self, view: ServerView) -> dict[str, Any]:
        known = view.capabilities
        placed: list[ServerStatus] = [
            each
            for each in self._household.status().servers
            if each.server_id == view.server_id
        ]
        return {
            "who": self._who(view.server_id),
            "state": view.state.value,
            "foreign": view.foreign,
            # The models are left out: their names are often paths of somebody's.
            "capabilities": known
            and {
                "kind": known.kind.value,
                "version": _version(known.version),
                "models": len(known.models),
                "slots": known.slots,
                "context_tokens": known.context_tokens,
                "kv_tokens": known.kv_tokens,
                "block_tokens": known.block_tokens,
                "survives_exhaustion": known.survives_exhaustion,
                "vision": known.vision,
                "audio": known.audio,
                "tools": known.tools,
                "counts_tokens": known.counts_tokens,
                "reports_progress": known.reports_progress,
                "resume": known.resume and asdict(known.resume),
            },
            "placed": [
                {
                    "slots": each.slots,
                    "running": each.running,
                    "context_tokens": each.context_tokens,
                    "kv_tokens": each.kv_tokens,
                    "kv_committed_tokens": each.kv_committed_tokens,
                    "usable": each.usable,
                    "foreign": each.foreign,
                }
                for each in placed
            ],
        }

    def _account(self, status: NodeStatus) -> dict[str, Any]:
        window = status.window
        return {
            "who": self._who(status.node_id),
            "of": status.parent_id and self._who(status.parent_id),
            "weight": status.weight,
            "waiting": status.waiting,
            "running": status.running,
            "requests": status.requests,
            "rejected": status.rejected,
            "preemptions": status.preemptions,
            "tokens": asdict(status.tokens),
            "charge": status.charge,
            "counter": status.counter,
            "window": window.window.value,
            "started_at": window.started_at.isoformat(),
            "counted_from": window.counted_from.isoformat(),
            "resets_at": window.resets_at.isoformat(),
            "used_tokens": window.used_tokens,
            "limit_tokens": window.limit_tokens,
            "refill_per_s": window.refill_per_s,
        }

    def _source(self, class_id: str) -> str:
        try:
            return self._who(self._household.queue.path_ids(class_id)[-2])
        except KeyError:
            return "removed"

    def _request(self, request: RequestStatus) -> dict[str, Any]:
        return {
            "who": self._source(request.class_id),
            "workload": request.workload.value,
            "server": request.server_id and self._who(request.server_id),
            "reason": request.rule.value,
            "waited_s": request.waited_s,
            "prompt_tokens": request.prompt_tokens,
            "output_tokens": request.output_tokens,
            "preemptions": request.preemptions,
        }

    def _record(self, record: RequestRecord) -> dict[str, Any]:
        return {
            "who": self._source(record.class_id),
            "workload": record.workload.value,
            "outcome": record.outcome.value,
            "reason": record.rule and record.rule.value,
            "server": record.server_id and self._who(record.server_id),
            "wait_s": record.wait_s,
            "ttft_s": record.ttft_s,
            "duration_s": record.duration_s,
            "tokens": asdict(record.tokens),
            "charge": record.charge,
            "estimated": record.estimated,
            "preemptions": record.preemptions,
            "longest_pause_s": record.longest_pause_s,
        }


def _settings(settings: Settings) -> dict[str, Any]:
    told = asdict(settings)
    del told["paused_nodes"]  # told by numbers
    told["paused_workloads"] = sorted(each.value for each in settings.paused_workloads)
    told["profiles"] = {
        workload.value: asdict(profile)
        for workload, profile in settings.profiles.items()
    }
    return told


def _version(version: str | None) -> str | None:
    """Return the number at the beginning; what follows can be anything."""
    found = _VERSION.match(version or "")
    return found and found.group()
