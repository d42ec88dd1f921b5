"""What the headers of an answer tell of a client's limits."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from ..household.runtime import Household
from .callers import Caller

_DAY_H, _HOUR_MIN, _MINUTE_S = 24, 60, 60


def limit_headers(
    household: Household, caller: Caller, requests_left: int | None
) -> Mapping[str, str]:
    """Return the headers for the tightest quota of a caller, and for its pace."""
    told: dict[str, str] = {}
    windows = [
        household.node_status(node_id).window
        for node_id in household.owners(caller.asker.source_id)
    ]
    limited = [w for w in windows if w.remaining_tokens is not None]
    if limited:
        tightest = min(limited, key=lambda window: window.remaining_tokens or 0)
        told |= {
            "x-ratelimit-limit-tokens": str(tightest.limit_tokens),
            "x-ratelimit-remaining-tokens": str(tightest.remaining_tokens),
            "x-ratelimit-reset-tokens": _until(tightest.resets_at),
        }
    client = caller.client
    if client is not None and requests_left is not None:
        told |= {
            "x-ratelimit-limit-requests": str(client.requests_per_minute),
            "x-ratelimit-remaining-requests": str(requests_left),
        }
    return told


def _until(moment: datetime) -> str:
    """Return a time from now as OpenAI writes it: ``1d2h3m4s``."""
    seconds = max(timedelta(), moment - datetime.now(UTC)).total_seconds()
    minutes, seconds = divmod(int(seconds), _MINUTE_S)
    hours, minutes = divmod(minutes, _HOUR_MIN)
    days, hours = divmod(hours, _DAY_H)
    parts = ((days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"
