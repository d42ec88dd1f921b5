"""Having llama.cpp read a prompt ahead of its answer, beginning by beginning.

What was found with build 11669: a completion of no tokens, asked for with the tokens
themselves, reads just what the server does not have in its cache yet, and leaves it
there. The slot is not named: the server then picks the one with that beginning, and
brings it back from its store of prompts if another request took the slot meanwhile.
"""

import asyncio
from collections.abc import Mapping, Sequence
import json
from typing import Any

import aiohttp

from .base import ServerFaultError, StreamCutError, UnreachableError
from .errors import error_from_stream, error_in, error_of_event
from .http import ServerHttp, next_bytes
from .sse import ERROR, EventTooLargeError, SseEvent, SseParser
from .values import whole

_PATH = "/completion"


class TokenSlices:
    """A prompt as tokens, of which a server can be asked to read the beginning.

    Implements ``base.PromptSlices``.
    """

    def __init__(
        self, http: ServerHttp, tokens: Sequence[int], fields: Mapping[str, Any]
    ) -> None:
        """``fields`` say which model is to read them."""
        self._http = http
        self._tokens = tokens
        self._fields = fields

    @property
    def total(self) -> int:
        """The length of the whole prompt in tokens."""
        return len(self._tokens)

    async def read(self, upto: int) -> int:
        """Have the first ``upto`` tokens read; see ``base.PromptSlices.read``."""
        body = {
            **self._fields,
            "prompt": list(self._tokens[:upto]),
            "n_predict": 0,
            "cache_prompt": True,
            # Only then does the server notice that nobody waits for it any more.
            "stream": True,
        }
        async with self._http.stream(_PATH, body) as response:
            try:
                async with asyncio.timeout(self._http.timeouts.first_token_s):
                    return _cached(await _last_event(response), upto)
            except TimeoutError:
                raise UnreachableError("the server did not read in time") from None


async def _last_event(response: aiohttp.ClientResponse) -> Mapping[str, Any]:
    """Return the event that tells that all is read. Raises ``EngineError``."""
    parser = SseParser()
    try:
        while data := await next_bytes(response):
            for event in parser.feed(data):
                if last := _look(event):
                    return last
    except EventTooLargeError as err:
        raise ServerFaultError(str(err)) from err
    for event in parser.close():
        if last := _look(event):
            return last
    raise StreamCutError("the stream ended before the prompt was read")


def _look(event: SseEvent) -> Mapping[str, Any] | None:
    """Return the event if it is the last one. Raises the error that it tells."""
    value: object
    try:
        value = json.loads(event.data)
    except ValueError, RecursionError:
        value = event.data
    error = error_of_event(value) if event.name == ERROR else error_in(value)
    if error:
        raise error_from_stream(error)
    if isinstance(value, Mapping) and value.get("stop") is True:
        return value
    return None


def _cached(last: Mapping[str, Any], upto: int) -> int:
    """Return how much was in the cache; nothing where the server does not tell."""
    timings = last.get("timings")
    told = timings if isinstance(timings, Mapping) else {}
    cached, read = whole(told.get("cache_n")), whole(told.get("prompt_n"))
    if cached is None:
        cached = 0 if read is None else upto - read
    return max(0, min(cached, upto))
