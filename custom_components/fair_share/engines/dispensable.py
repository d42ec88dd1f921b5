"""Body fields that Fair Share adds of its own accord, and doing without them.

No server knows all of them. Most ignore what they do not know; a strict one answers 400
or 422 and names the field. Then the request is sent again without it, and that server
never gets it again.
"""

from collections.abc import Mapping
import re
from typing import Any

_NAMES = (
    "cache_prompt",
    "continuous_usage_stats",
    "priority",
    "reasoning_format",
    "return_progress",
    "stream_options",
    "timings_per_token",
)
_NAMED = re.compile(rf"\b(?:{'|'.join(_NAMES)})\b")
_INNER = {"continuous_usage_stats": "stream_options"}
"""Fields inside another one."""


def named_in(text: str) -> frozenset[str]:
    """Return the dispensable fields that a text names.

    A field inside another one is named with it; then only the inner one is meant.
    """
    names = frozenset(_NAMED.findall(text))
    return names - {_INNER[name] for name in names if name in _INNER}


def without(body: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Return a body without these fields."""
    kept = {name: value for name, value in body.items() if name not in names}
    for inner, outer in _INNER.items():
        if inner in names and outer in kept:
            kept[outer] = {k: v for k, v in kept[outer].items() if k != inner}
    return kept
