"""When something happens to a quota: it is nearly used, used up, or begins anew."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Self

from .events import EventKind, HouseEvent

if TYPE_CHECKING:
    from ..admission.state import NodeState
    from ..admission.status import WindowStatus
    from .events import Value

THRESHOLDS = (50, 80, 90)
"""Percent of a quota."""

_FALLS_BY = 10
"""A quota that is refilled steadily tells a threshold again after it fell so far."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was last told of a quota: of which window, and how much of it was used.

    ``percent`` is the most that was seen used of ``limit_tokens``. It follows from the
    account: after a restart nothing is told twice.
    """

    counted_from: datetime
    limit_tokens: int | None
    percent: float

    @classmethod
    def of(cls, window: WindowStatus) -> Self:
        """Return what is to be known of a window as it is."""
        return cls(window.counted_from, window.limit_tokens, _percent(window))

    @classmethod
    def kept(cls, state: NodeState, window: WindowStatus) -> Self:
        """Return what was known of a window before a restart, by its account."""
        counted_from = state.counted_from or state.window_started_at
        if window.counted_from == counted_from:
            return cls.of(window)
        return cls(counted_from, window.limit_tokens, 0.0)


class QuotaWatch:
    """Watches one quota. What it saw already it does not tell again."""

    def __init__(self, seen: Seen) -> None:
        """Go on from what was seen before."""
        self._seen = seen

    def look(self, window: WindowStatus) -> Iterator[HouseEvent]:
        """Yield what has happened since the last look.

        Each threshold once in a window; again only when tokens were granted on top
        and it is crossed once more.
        """
        before, now = self._seen, Seen.of(window)
        self._seen = now
        if now.limit_tokens is None:
            return
        steady = window.refill_per_s is not None
        attributes: dict[str, Value] = {
            "used_tokens": window.used_tokens,
            "limit_tokens": now.limit_tokens,
            "resets_at": None if steady else window.resets_at.isoformat(),
        }
        from_percent = before.percent
        if before.counted_from < now.counted_from:
            from_percent = now.percent if steady else 0.0
            if not steady and before.limit_tokens is not None:
                yield HouseEvent(EventKind.QUOTA_RESET, attributes)
        elif before.limit_tokens != now.limit_tokens:
            from_percent = _of_another_limit(before, now.limit_tokens)
        elif steady:
            from_percent = min(from_percent, now.percent + _FALLS_BY)
        for percent in THRESHOLDS:
            if from_percent < percent <= now.percent:
                told = {**attributes, "percent": percent}
                yield HouseEvent(EventKind.THRESHOLD, told)
        if from_percent < 100 <= now.percent:  # noqa: PLR2004 - percent
            yield HouseEvent(EventKind.QUOTA_EXHAUSTED, attributes)
        highest = max(from_percent, now.percent)
        self._seen = Seen(now.counted_from, now.limit_tokens, highest)


def _percent(window: WindowStatus) -> float:
    if window.limit_tokens is None:
        return 0.0
    return 100 * window.used_tokens / max(1, window.limit_tokens)


def _of_another_limit(seen: Seen, limit_tokens: int) -> float:
    """Return what was seen used, in percent of another limit.

    A smaller limit is crossed by what was used before.
    """
    if seen.limit_tokens is None:
        return 0.0
    return seen.percent * min(1.0, seen.limit_tokens / max(1, limit_tokens))
