"""Snapshots for whoever wants to look at the queue; frozen, safe to keep."""

from dataclasses import dataclass
from datetime import datetime

from .model import QuotaWindow, RequestRecord, Rule, TokenCount, Workload


@dataclass(frozen=True, slots=True)
class WindowStatus:
    """The current quota window of a node; ``limit_tokens`` is ``None`` without quota.

    ``limit_tokens`` includes tokens granted on top for this window only. What was used
    is counted from ``counted_from``: the start of the window, or a later reset. With
    ``refill_per_s``, in tokens per second, the quota is refilled steadily:
    ``used_tokens`` are missing from it now, and nothing happens at ``resets_at``.
    """

    window: QuotaWindow
    started_at: datetime
    counted_from: datetime
    resets_at: datetime
    used_tokens: int
    limit_tokens: int | None
    refill_per_s: float | None = None

    @property
    def remaining_tokens(self) -> int | None:
        """Tokens left in this window, never below 0."""
        if self.limit_tokens is None:
            return None
        return max(0, self.limit_tokens - self.used_tokens)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node of the share tree: the household, a member, a device or a class.

    ``waiting`` and ``running`` count requests now, ``requests``, ``rejected``,
    ``preemptions``, ``tokens`` and ``charge`` count since the account was opened.
    ``counter`` is the virtual token counter: charge divided by weight, after lifts.
    ``last`` is the latest request that ran and ended.
    """

    node_id: str
    parent_id: str | None
    weight: float
    waiting: int
    running: int
    requests: int
    rejected: int
    preemptions: int
    tokens: TokenCount
    charge: float
    counter: float
    window: WindowStatus
    last: RequestRecord | None


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What the queue has placed on one server. ``kv_tokens``: pool, if shared.

    ``foreign`` counts requests that run there past the queue.
    """

    server_id: str
    slots: int
    running: int
    context_tokens: int
    kv_tokens: int | None
    kv_committed_tokens: int
    usable: bool
    foreign: int = 0


@dataclass(frozen=True, slots=True)
class Start:
    """When a request will start: after ``ahead`` others, in about ``in_s`` seconds."""

    ahead: int
    in_s: float


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """One waiting or running request.

    ``rule`` is why it started, or why it still waits. For the next few that wait,
    ``ahead`` counts those that would start before it as things are, and
    ``starts_in_s`` is when, about; ``None`` otherwise.
    """

    request_id: str
    class_id: str
    workload: Workload
    server_id: str | None
    waited_s: float
    prompt_tokens: int
    output_tokens: int
    rule: Rule
    ahead: int | None = None
    starts_in_s: float | None = None
    preemptions: int = 0


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The whole queue.

    ``fairness_gap`` is the largest lead, in weighted tokens per weight, that one
    member had over another while both were waiting; ``fairness_bound`` is what it
    may be at most under equal tokens. ``recomputed`` are prompt tokens that were read
    once more after interruptions, charged to nobody. ``background_owed`` is what the
    reserved share owes to background work, in weighted tokens.
    """

    waiting: int
    running: int
    requests: tuple[RequestStatus, ...]
    servers: tuple[ServerStatus, ...]
    fairness_gap: float
    fairness_bound: float
    recomputed: TokenCount
    background_owed: float
