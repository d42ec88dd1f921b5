"""Waiting until a server has let go of what was left.

llama.cpp notices that a client left only between two batches; what is sent in the
meantime would wait inside the server, where nothing can be done for it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ..engines.base import Engine, EngineError

READING_LIMIT_S = 60.0
"""Reading a prompt ends with the batch that is being read."""

WRITING_LIMIT_S = 3.0
"""Writing ends with the next token, unless another slot reads a prompt meanwhile."""

_FIRST_POLL_S = 0.02
_POLL_S = 0.2


async def drained(
    engine: Engine, running: Callable[[], int], *, limit_s: float = READING_LIMIT_S
) -> None:
    """Return when the server runs no more than ``running`` says it should.

    At the latest after ``limit_s``: somebody else may be talking to the server. At once
    when it does not tell, or fails.
    """
    pause_s = _FIRST_POLL_S
    with suppress(TimeoutError, EngineError):
        async with asyncio.timeout(limit_s):
            # Nothing tells when a slot gets free: the server has to be asked.
            while ((await engine.load()).running or 0) > running():
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _POLL_S)
