"""The time that Home Assistant lives by."""

from datetime import datetime
import time

from homeassistant.util import dt as dt_util


class HouseholdClock:
    """Monotonic seconds, and the local time of the household's time zone."""

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def wall(self) -> datetime:
        """Return the aware local time."""
        return dt_util.now()
