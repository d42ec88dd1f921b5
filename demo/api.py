"""A small client of Home Assistant's own REST and WebSocket APIs."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
import itertools
from typing import Any, Self

import aiohttp

type Json = dict[str, Any]


class ApiError(Exception):
    """Home Assistant refused something, or is gone."""


class Api:
    """What one user can do in a running Home Assistant."""

    def __init__(
        self, session: aiohttp.ClientSession, base_url: str, token: str
    ) -> None:
        self._session = session
        self._base_url = base_url
        self._token = token

    async def get(self, path: str) -> Json:
        """Return what the REST API answers. Raises ``ApiError``."""
        return await self._request("GET", path)

    async def post(self, path: str, body: Json) -> Json:
        """Post to the REST API and return the answer. Raises ``ApiError``."""
        return await self._request("POST", path, json=body)

    async def _request(self, method: str, path: str, **request: Any) -> Json:
        headers = {"Authorization": f"Bearer {self._token}"}
        url = f"{self._base_url}{path}"
        return await request_json(
            self._session, method, url, headers=headers, **request
        )

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Open a WebSocket connection, logged in."""
        try:
            async with self._session.ws_connect(
                f"{self._base_url}/api/websocket", max_msg_size=0
            ) as socket:
                await socket.receive_json()  # auth_required
                await socket.send_json({"type": "auth", "access_token": self._token})
                answer = await socket.receive_json()
                if answer["type"] != "auth_ok":
                    raise ApiError(
                        f"Home Assistant refused the login: {answer['message']}"
                    )
                async with Connection(socket) as connection:
                    yield connection
        except (aiohttp.ClientError, TypeError) as error:
            raise ApiError(
                f"the connection to Home Assistant failed: {error}"
            ) from error


class Connection:
    """A WebSocket connection on which many commands can be under way."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._inboxes: dict[int, asyncio.Queue[Json]] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reader.cancel()
        with suppress(asyncio.CancelledError):
            await self._reader

    async def _read(self) -> None:
        try:
            async for message in self._socket:
                if message.type is not aiohttp.WSMsgType.TEXT:
                    continue
                answer: Json = message.json()
                if (inbox := self._inboxes.get(answer["id"])) is not None:
                    inbox.put_nowait(answer)
        finally:
            self._closed = True
            for inbox in self._inboxes.values():
                inbox.put_nowait(
                    {
                        "success": False,
                        "error": {"message": "Home Assistant closed the connection"},
                    }
                )

    async def command(self, command: str, **fields: object) -> Any:  # noqa: ANN401 - each has its own
        """Send one command and return its result. Raises ``ApiError``."""
        async with self._sent(command, fields) as (_, inbox):
            return _result_of(await inbox.get())

    async def action(self, name: str, **data: object) -> Json:
        """Perform an action that answers with data. Raises ``ApiError``."""
        domain, _, service = name.partition(".")
        result = await self.command(
            "call_service",
            domain=domain,
            service=service,
            service_data=data,
            return_response=True,
        )
        response: Json = result["response"]
        return response

    async def events(self, command: str, **fields: object) -> AsyncGenerator[Json]:
        """Send a command that subscribes to something and iterate over what comes.

        Closing the generator unsubscribes, which cancels a pipeline that still runs.
        """
        async with self._sent(command, fields) as (subscription, inbox):
            _result_of(await inbox.get())
            try:
                while True:
                    message = await inbox.get()
                    if "event" not in message:
                        raise ApiError(message["error"]["message"])
                    yield message["event"]
            finally:
                if not self._closed:
                    with suppress(ApiError, aiohttp.ClientError):
                        await self.command(
                            "unsubscribe_events", subscription=subscription
                        )

    @asynccontextmanager
    async def _sent(
        self, command: str, fields: Json
    ) -> AsyncIterator[tuple[int, asyncio.Queue[Json]]]:
        if self._closed:
            raise ApiError("Home Assistant closed the connection")
        message_id = next(self._ids)
        inbox = self._inboxes[message_id] = asyncio.Queue()
        try:
            await self._socket.send_json({"id": message_id, "type": command, **fields})
            yield message_id, inbox
        finally:
            del self._inboxes[message_id]


def _result_of(message: Json) -> Any:  # noqa: ANN401 - each command has its own
    if not message["success"]:
        raise ApiError(message["error"]["message"])
    return message["result"]


async def request_json(
    session: aiohttp.ClientSession, method: str, url: str, **request: Any
) -> Json:
    """Return the JSON answer to a request. Raises ``ApiError`` if it is refused."""
    try:
        async with session.request(method, url, **request) as response:
            if not response.ok:
                problem = f"{response.status} {await response.text()}"
                raise ApiError(f"{response.url.path}: {problem}")
            answer: Json = await response.json()
            return answer
    except aiohttp.ClientError as error:
        raise ApiError(f"Home Assistant cannot be reached: {error}") from error
