"""Waiting until a server has let go of a prompt whose client left.

llama.cpp notices that a client left only between two batches; what is sent in the
meantime would wait inside the server, where nothing can be done for it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ..engines.base import Engine, EngineError

_LIMIT_S = 60.0
_POLL_S = 0.2


async def drained(engine: Engine, running: Callable[[], int]) -> None:
    """Return when the server runs no more than ``running`` says it should.

    At the latest after a minute: somebody else may be talking to the server. At once
    when it does not tell, or fails.
    """
    with suppress(TimeoutError, EngineError):
        async with asyncio.timeout(_LIMIT_S):
            # Nothing tells when a slot gets free: the server has to be asked.
            while ((await engine.load()).running or 0) > running():  # noqa: ASYNC110
                await asyncio.sleep(_POLL_S)
