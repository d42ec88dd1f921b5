"""Reads stored options tolerantly: a wrong value must not stop a household."""

from collections.abc import Collection, Mapping
import logging
from math import inf, isfinite
from typing import Any

_LOGGER = logging.getLogger(__name__)


class Stored:
    """Values that a person's hand or another version may have written.

    What is missing has its usual value. So has what makes no sense, with a warning.
    ``where`` names the place in it.
    """

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        """Read from ``data``."""
        self._data = data
        self._where = where

    def number(
        self, key: str, usual: float, *, least: float = 0.0, most: float = inf
    ) -> float:
        """Return a finite number from ``least`` to ``most``."""
        return self._valid_number(key, least, most, usual)

    def above_zero(self, key: str, usual: float) -> float:
        """Return a finite number above 0."""
        value = self._valid_number(key, 0.0, inf, usual)
        return value if value > 0 else self._wrong(key, usual)

    def whole[Usual: int | None](
        self, key: str, usual: Usual, *, least: int = 0, most: float = inf
    ) -> int | Usual:
        """Return a whole number of at least ``least``."""
        value = self._valid_number(key, least, most, usual)
        if value is None:
            return usual
        return int(value) if value == int(value) else self._wrong(key, usual)

    def one_of(self, key: str, options: Collection[str], usual: str) -> str:
        """Return one of these options."""
        value = self._data.get(key)
        if value is None:
            return usual
        if isinstance(value, str) and value in options:
            return value
        return self._wrong(key, usual)

    def names(self, key: str, among: Collection[str] | None = None) -> frozenset[str]:
        """Return a set of names, of these if they are known."""
        value = self._data.get(key)
        if value is None:
            return frozenset()
        if isinstance(value, list) and all(
            isinstance(name, str) and (among is None or name in among) for name in value
        ):
            return frozenset(value)
        return self._wrong(key, frozenset())

    def flag(self, key: str, *, usual: bool) -> bool:
        """Return yes or no."""
        value = self._data.get(key)
        if value is None:
            return usual
        return value if isinstance(value, bool) else self._wrong(key, usual)

    def part(self, key: str) -> Stored:
        """Return what is stored below a key; nothing if there is nothing."""
        value = self._data.get(key)
        if value is None:
            value = {}
        if not isinstance(value, Mapping):
            value = self._wrong(key, {})
        return Stored(value, f"{self._where}, {key}")

    def _valid_number[Usual: float | None](
        self, key: str, least: float, most: float, usual: Usual
    ) -> float | Usual:
        value = self._data.get(key)
        if value is None:
            return usual
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self._wrong(key, usual)
        if not isfinite(value) or not least <= value <= most:
            return self._wrong(key, usual)
        return value

    def _wrong[Usual](self, key: str, usual: Usual) -> Usual:
        _LOGGER.warning(
            "What is stored as %s in the %s makes no sense and is ignored: %r",
            key,
            self._where,
            self._data[key],
        )
        return usual
