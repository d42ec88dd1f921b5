"""What of the accounts outlives a restart."""

from dataclasses import dataclass
from datetime import datetime

from .model import QuotaWindow, TokenCount


@dataclass(frozen=True, slots=True)
class NodeState:
    """The account of one node. Units as in ``NodeStatus``.

    ``bucket_tokens`` are missing from a quota that is refilled steadily, as of
    ``bucket_at``. ``counted_from`` is ``None`` unless it was reset within its window.
    """

    node_id: str
    tokens: TokenCount
    charge: float
    counter: float
    virtual_time: float
    requests: int
    rejected: int
    preemptions: int
    window: QuotaWindow
    window_started_at: datetime
    used_tokens: int
    granted_tokens: int
    bucket_tokens: float
    bucket_at: datetime
    counted_from: datetime | None = None


@dataclass(frozen=True, slots=True)
class LedgerState:
    """All accounts of the household."""

    nodes: tuple[NodeState, ...]
