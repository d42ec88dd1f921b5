"""Numbers and texts out of what a server sends, which may be anything."""

import math

from .surrogates import well_formed

_LARGEST = 10**9
"""No server has so many slots, and none a context of so many tokens."""
_LONGEST_LABEL = 100


def whole(value: object) -> int | None:
    """Return a number of things, ``None`` if this is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= _LARGEST or not math.isfinite(value) or value % 1:
        return None
    return int(value)


def positive(value: object) -> int | None:
    """Return a number of things if there is at least one."""
    return whole(value) or None


def digits(value: str | None) -> int | None:
    """Return the positive number that is written here, ``None`` if none is."""
    if value is None or not value.isdecimal() or len(value) > len(str(_LARGEST)):
        return None
    return positive(int(value))


def fraction(value: float | None) -> float | None:
    """Return a part of one, ``None`` if this is none."""
    return value if value is not None and 0 <= value <= 1 else None


def text(value: object) -> str:
    """Return a text that can be encoded, empty if this is none."""
    return well_formed(value) if isinstance(value, str) else ""


def label(value: object) -> str | None:
    """Return a short text, ``None`` if this is none."""
    return text(value)[:_LONGEST_LABEL] or None
