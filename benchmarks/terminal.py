"""What long work says while somebody watches."""

import sys
from time import monotonic
from types import TracebackType
from typing import Self

_INTERVAL_S = 0.2


class Progress:
    """One line on standard error that says what is going on, if it is a terminal.

    The line is gone again after the ``with`` block.
    """

    def __init__(self, name: str) -> None:
        """Say nothing yet; every line will begin with ``name``."""
        self._name = name
        self._shown = sys.stderr.isatty()
        self._told_s = 0.0

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the line away."""
        if self._told_s:
            self._write("")

    def tell(self, what: str) -> None:
        """Say what is going on, not more often than anybody can read."""
        now = monotonic()
        if self._shown and now - self._told_s >= _INTERVAL_S:
            self._told_s = now
            self._write(f"{self._name}: {what}")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
