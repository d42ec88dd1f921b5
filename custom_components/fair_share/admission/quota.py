"""Calendar windows in which tokens are counted, and the quota on them."""

from datetime import UTC, datetime, time, timedelta
from math import ceil

from .model import QuotaEnd, QuotaSpec, QuotaWindow
from .status import WindowStatus

QUOTA_CHUNK_TOKENS = 16
"""A running answer is checked against its quota every so many output tokens."""

CLOCK_STEP_TOLERANCE = timedelta(hours=1)
"""A clock that steps back by less than this changes no window."""


def window_bounds(window: QuotaWindow, wall: datetime) -> tuple[datetime, datetime]:
    """Return start and end, in UTC, of the calendar window that holds ``wall``.

    ``wall`` is aware and in the household's time zone; windows begin at its local
    midnight, weeks on Monday. The results are in UTC because Python compares two
    datetimes of the same zone by their local fields, which is wrong on the days on
    which clocks change.
    """
    day = wall.date()
    if window is QuotaWindow.DAY:
        first, following = day, day + timedelta(days=1)
    elif window is QuotaWindow.WEEK:
        first = day - timedelta(days=day.weekday())
        following = first + timedelta(days=7)
    else:
        first = day.replace(day=1)
        following = (first + timedelta(days=31)).replace(day=1)
    start, end = (
        datetime.combine(date, time.min, tzinfo=wall.tzinfo).astimezone(UTC)
        for date in (first, following)
    )
    return start, end


class WindowAccount:
    """Counts the tokens of one node in its current window, against its quota.

    A node without quota still counts, by the day, so that a household can see its
    use before it sets a limit. A quota that is refilled steadily is a token bucket:
    its use goes down as time passes, and the window is only for showing. ``level`` is
    how many tokens are missing from it, as of ``level_at``.
    """

    __slots__ = (
        "_later",
        "at_end",
        "counted_from",
        "ends_at",
        "granted_tokens",
        "level",
        "level_at",
        "limit",
        "refill_per_s",
        "started_at",
        "used_tokens",
        "window",
    )

    def __init__(self, spec: QuotaSpec | None, wall: datetime) -> None:
        """Open the window that holds ``wall``."""
        self.used_tokens = 0
        self.granted_tokens = 0
        self.level = 0.0
        self.limit: int | None = None
        self.refill_per_s: float | None = None
        self.at_end = QuotaEnd.STOP
        self.window = QuotaWindow.DAY
        self.level_at = wall.astimezone(UTC)
        self._later: tuple[datetime, int, int] | None = None
        self.set_spec(spec, wall)
        self.started_at, self.ends_at = window_bounds(self.window, wall)
        self.counted_from = self.started_at

    def set_spec(self, spec: QuotaSpec | None, wall: datetime) -> None:
        """Change the quota; what was used stays used while the window's kind does."""
        window = QuotaWindow.DAY if spec is None else spec.window
        self.limit = None if spec is None else spec.tokens
        self.at_end = QuotaEnd.STOP if spec is None else spec.at_end
        was_bucket = self.refill_per_s is not None
        self.refill_per_s = None if spec is None else spec.refill_per_s
        if window is not self.window:
            self.window = window
            self.started_at, self.ends_at = window_bounds(window, wall)
            self.counted_from = self.started_at
            self.used_tokens = self.granted_tokens = 0
        if not was_bucket:
            # What a bucket lacks at first is what its window has seen, at most all.
            self.restore_level(float(min(self.used_tokens, self.limit or 0)), wall)

    def roll(self, wall: datetime) -> bool:
        """Let time pass: begin a new window if the old one is over, refill a bucket.

        Returns whether a new window began. A clock that steps back a little changes
        nothing: the window that began stays. After a large step back (a box that
        booted with a wrong date) the window moves to the present and keeps what was
        used.
        """
        self._drain(wall.astimezone(UTC))
        if wall >= self.ends_at:
            self.started_at, self.ends_at = window_bounds(self.window, wall)
            self._begin()
            return True
        if wall < self.started_at - CLOCK_STEP_TOLERANCE:
            self.started_at, self.ends_at = window_bounds(self.window, wall)
            self.counted_from = self.started_at
        return False

    def reset(self, wall: datetime) -> None:
        """Forget what was used and granted in the current window."""
        self.used_tokens = self.granted_tokens = 0
        self.restore_level(0.0, wall)
        self.counted_from = wall.astimezone(UTC)

    def count(self, tokens: int) -> None:
        """Count tokens; a correction may be negative but not below nothing used."""
        self.used_tokens = max(0, self.used_tokens + tokens)
        self.level = max(0.0, self.level + tokens)

    def restore(
        self,
        started_at: datetime,
        used_tokens: int,
        granted_tokens: int,
        counted_from: datetime | None = None,
    ) -> None:
        """Take over what was counted before a restart, if it is the same window."""
        if started_at.astimezone(UTC) == self.started_at:
            self.used_tokens = used_tokens
            self.granted_tokens = granted_tokens
            self.counted_from = (counted_from or started_at).astimezone(UTC)
        elif started_at.astimezone(UTC) > self.started_at:
            # The clock is not set yet: it counts once the clock is right.
            self._later = (started_at.astimezone(UTC), used_tokens, granted_tokens)

    def restore_level(self, missing_tokens: float, moment: datetime) -> None:
        """Take over what was missing from the bucket at that moment."""
        self.level = missing_tokens
        self.level_at = moment.astimezone(UTC)

    def kept(self) -> tuple[datetime, int, int]:
        """Return start, used and granted tokens of what a restart has to find again.

        As long as the clock is not set that is the window from before the last start.
        """
        if self._later is not None:
            return self._later
        return self.started_at, self.used_tokens, self.granted_tokens

    def kept_from(self, started_at: datetime) -> datetime | None:
        """Return from when the kept window counts, ``None`` if from its start."""
        same = started_at == self.started_at != self.counted_from
        return self.counted_from if same else None

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left of the quota now."""
        if self.limit is None:
            return False
        used = self.used_tokens if self.refill_per_s is None else self.level
        return used >= self.limit + self.granted_tokens

    def opens_at(self) -> datetime:
        """Return when a quota that is used up allows something again, in UTC."""
        if self.refill_per_s is None or self.limit is None:
            return self.ends_at
        missing = self.level - self.limit - self.granted_tokens + 1
        return self.level_at + timedelta(seconds=missing / self.refill_per_s)

    def status(self) -> WindowStatus:
        """Return a snapshot."""
        used = self.used_tokens if self.refill_per_s is None else ceil(self.level)
        return WindowStatus(
            window=self.window,
            started_at=self.started_at,
            counted_from=self.counted_from,
            resets_at=self.ends_at,
            used_tokens=used,
            limit_tokens=None
            if self.limit is None
            else self.limit + self.granted_tokens,
            refill_per_s=self.refill_per_s,
        )

    def _begin(self) -> None:
        """Start to count the window that has just begun."""
        self.used_tokens = self.granted_tokens = 0
        self.counted_from = self.started_at
        if self._later is not None and self._later[0] == self.started_at:
            _, self.used_tokens, self.granted_tokens = self._later
        self._later = None

    def _drain(self, moment: datetime) -> None:
        passed = (moment - self.level_at).total_seconds()
        self.level_at = moment
        if self.refill_per_s is not None and passed > 0:
            self.level = max(0.0, self.level - passed * self.refill_per_s)
