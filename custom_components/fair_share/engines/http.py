"""HTTP to one server, with every failure as a typed error of ``base``.

No connection is used twice. Some builds of llama.cpp's server close a connection after
a streamed answer without saying so, and the next request on it would be lost; a new
connection in the house's own network costs a millisecond. It also makes leaving simple:
closing the response closes the socket, and the server frees the slot.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
import json
from typing import Any

import aiohttp

from .base import (
    AuthError,
    ClientFaultError,
    InvalidAddressError,
    NoConnectionError,
    NoStreamingError,
    NotAnEngineError,
    StreamCutError,
    UnreachableError,
)
from .errors import error_from_status, error_from_stream, parse_body

_LARGEST_BODY = 16 * 1024 * 1024
_REDIRECT_FROM = 300
_IN_ONE_PIECE = {"application/json", "text/html"}


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a server may be silent, in seconds.

    ``connect_s``: until the connection stands. ``answer_s``: for a whole answer that
    is not streamed. ``first_token_s``: without news before the first output, which
    covers the model's reading of a long prompt. ``stall_s``: without news after it.
    ``tail_s``: for the usage after the answer is complete. News are events with data:
    comments and pings do not count, a hanging server may go on sending them.
    """

    connect_s: float = 10.0
    answer_s: float = 15.0
    first_token_s: float = 600.0
    stall_s: float = 60.0
    tail_s: float = 5.0


class ServerHttp:
    """Requests to one server."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str,
        api_key: str | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        """``base_url`` is without ``/v1``. The session stays the caller's."""
        self.base_url = base_url
        self.api_key = api_key.strip() if api_key else None
        self.timeouts = timeouts or Timeouts()
        self._session = session

    async def get(self, path: str) -> Answer:
        """Return a whole answer. Raises ``EngineError``."""
        return await self._whole("GET", path, None)

    async def post(
        self, path: str, body: Mapping[str, Any], *, within_s: float | None = None
    ) -> Answer:
        """Send JSON and return a whole answer. Raises ``EngineError``.

        It has to come within ``within_s``, ``answer_s`` if that is not said.
        """
        return await self._whole("POST", path, body, within_s)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        body: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open a streamed answer; ``headers`` are sent besides the usual ones.

        Leaving by any path closes the socket at once. Raises ``EngineError`` when it
        cannot be opened, ``NoStreamingError`` when the answer comes in one piece.
        """
        with _typed_failures():
            async with asyncio.timeout(self.timeouts.first_token_s):
                response = await self._send("POST", path, body, headers)
        try:
            await self._check_stream(response)
            yield response
        finally:
            response.close()

    async def _check_stream(self, response: aiohttp.ClientResponse) -> None:
        if response.ok and response.content_type not in _IN_ONE_PIECE:
            _refuse_redirect(response)
            return
        text = await self._read_text(response)
        if not response.ok:
            raise error_from_status(
                response.status, text, response.headers.get("Retry-After")
            )
        if response.content_type == "text/html":
            raise NotAnEngineError("the answer is a web page")
        if error := parse_body(text):
            raise error_from_stream(error)
        raise NoStreamingError("the server answered in one piece")

    async def _whole(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        within_s: float | None = None,
    ) -> Answer:
        limit_s = self.timeouts.answer_s if within_s is None else within_s
        with _typed_failures():
            async with asyncio.timeout(limit_s):
                response = await self._send(method, path, body)
                try:
                    text = await self._read_text(response)
                finally:
                    response.close()
        if not response.ok:
            raise error_from_status(
                response.status, text, response.headers.get("Retry-After")
            )
        _refuse_redirect(response)
        return Answer(text, response.headers.get("Server", ""))

    async def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        more_headers: Mapping[str, str] | None = None,
    ) -> aiohttp.ClientResponse:
        # Compression would hold a stream back.
        headers = {"Connection": "close", "Accept-Encoding": "identity"}
        headers |= more_headers or {}
        if self.api_key:
            if not self.api_key.isprintable():
                # Control characters and halves of characters fit into no header.
                raise AuthError("the key has characters that no key has")
            headers["Authorization"] = f"Bearer {self.api_key}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        return await self._session.request(
            method,
            self.base_url + path,
            data=None if body is None else _encode(body),
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=self.timeouts.connect_s),
        )

    async def _read_text(self, response: aiohttp.ClientResponse) -> str:
        with _typed_failures():
            async with asyncio.timeout(self.timeouts.answer_s):
                data = await response.content.read(_LARGEST_BODY)
                while not response.content.at_eof() and len(data) < _LARGEST_BODY:
                    data += await response.content.read(_LARGEST_BODY)
        return data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer with a good status."""

    text: str
    server: str = ""

    def json(self) -> object:
        """Return the decoded body. Raises ``NotAnEngineError`` if it is not JSON."""
        try:
            value: object = json.loads(self.text)
        except ValueError, RecursionError:
            raise NotAnEngineError("the answer is not JSON") from None
        return value

    def fields(self) -> Mapping[str, Any]:
        """Return the JSON object of the body. Raises ``NotAnEngineError``."""
        value = self.json()
        if not isinstance(value, dict):
            raise NotAnEngineError("the answer is not a JSON object")
        return value


async def next_bytes(response: aiohttp.ClientResponse) -> bytes:
    """Return what has arrived, ``b""`` at the end of the stream.

    Raises ``StreamCutError`` if the connection breaks.
    """
    try:
        return await response.content.readany()
    except (aiohttp.ClientError, OSError) as err:
        raise StreamCutError(f"the connection broke ({type(err).__name__})") from None


@contextmanager
def _typed_failures() -> Iterator[None]:
    """Turn what aiohttp raises into typed errors.

    Their texts hold the kind of failure only: aiohttp's own may hold the address with
    whatever the user put into it.
    """
    try:
        yield
    except TimeoutError:
        raise UnreachableError("no answer in time") from None
    except aiohttp.ClientSSLError as err:
        raise UnreachableError(f"no secure connection ({type(err).__name__})") from None
    except aiohttp.ClientConnectorError as err:
        raise NoConnectionError(_reason(err)) from None
    except aiohttp.InvalidURL:
        raise InvalidAddressError("not an address that can be asked") from None
    except aiohttp.ClientResponseError:
        raise NotAnEngineError("the answer is not HTTP") from None
    except (aiohttp.ClientError, OSError) as err:
        raise UnreachableError(f"the connection broke ({type(err).__name__})") from None
    except ValueError:
        # What only the resolver, or the writer of headers, finds fault with.
        raise InvalidAddressError("not an address that can be asked") from None


def _refuse_redirect(response: aiohttp.ClientResponse) -> None:
    if response.status >= _REDIRECT_FROM:
        raise NotAnEngineError("the server redirects to another address")


def _reason(err: aiohttp.ClientConnectorError) -> str:
    return f"no connection ({err.os_error.strerror or type(err).__name__})"


def _encode(body: Mapping[str, Any]) -> bytes:
    """Return JSON as raw UTF-8: models copy escapes, and escapes cost more tokens."""
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False)
    except TypeError, ValueError, RecursionError:
        raise ClientFaultError("the request cannot be written as JSON") from None
    return text.encode("utf-8", "replace")
