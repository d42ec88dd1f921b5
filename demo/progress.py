"""Lines that say what the demo is doing, on standard error."""

import sys
import time

_STARTED_AT = time.monotonic()


def say(text: str) -> None:
    """Say what happens now, and how long after the start."""
    print(
        f"[{time.monotonic() - _STARTED_AT:3.0f}s] {text}", file=sys.stderr, flush=True
    )
