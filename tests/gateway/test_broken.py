"""What breaks in the middle, or is broken when it comes, is told as such."""

import asyncio
import json
import logging
import socket
from typing import Any

import pytest

from custom_components.fair_share.gateway import relay
from custom_components.fair_share.gateway.chat_reply import ChatChunks
from tests.fake_replies import DONE, Reply, answer, chunk, raw, usage_chunk
from tests.gateway.conftest import (
    CHAT,
    CHILD_KEY,
    HELLO,
    KEY,
    House,
    MakeHouse,
    sent,
    soon,
)

HALF = "secret \ud800"


async def unread(house: House, body: Any) -> socket.socket:
    """Send a request on a bare connection, of whose answer nothing is read yet."""
    data = json.dumps(body).encode()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    loop, connection = asyncio.get_running_loop(), socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(0)
    await loop.sock_connect(connection, ("127.0.0.1", house.program.http.port))
    await loop.sock_sendall(connection, head.encode() + data)
    return connection


async def all_of(connection: socket.socket) -> bytes:
    """Return all that comes until the answer ends."""
    loop, data = asyncio.get_running_loop(), b""
    async with asyncio.timeout(10):
        while not data.endswith(b"0\r\n\r\n"):
            data += await loop.sock_recv(connection, 65536)
    return data


def half_a_character(**changes: Any) -> Reply:
    """A call of a tool with half a character somewhere."""
    function = {"name": "light", "arguments": "{}", **changes}
    call_id = function.pop("id", "a")
    call = {"index": 0, "type": "function", "id": call_id, "function": function}
    # Not as the fake server would write it: as JSON with an escape.
    line = json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    return raw(
        chunk({"role": "assistant", "content": "hi"}),
        f"data: {line}\n\n",
        chunk({}, "tool_calls"),
        usage_chunk(3, 3),
        DONE,
    )


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "where", [{"name": HALF}, {"id": HALF}, {"arguments": {"a": HALF}}], ids=str
)
async def test_half_a_character_in_a_call_gets_through_mended(
    house: House, caplog: pytest.LogCaptureFixture, where: Any, *, stream: bool
) -> None:
    house.server.script(half_a_character(**where))
    response = await house.program.post(body={**HELLO, "stream": stream})
    data = await response.read()
    assert response.status == 200
    assert "secret \N{REPLACEMENT CHARACTER}" in data.decode()
    assert not stream or sent(data)[-1] == "[DONE]"
    assert "secret" not in caplog.text


async def test_a_fault_in_the_middle_is_an_event_of_the_stream(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = ChatChunks.of

    def of(chunks: ChatChunks, delta: Any) -> Any:
        told = list(right(chunks, delta))
        if "two" in str(told):
            raise RuntimeError("a fault")
        return told

    monkeypatch.setattr(ChatChunks, "of", of)
    house.server.script(answer("one", " two", " three"))
    connection = await unread(house, {**HELLO, "stream": True})
    data = await all_of(connection)
    connection.close()
    assert data.count(b"HTTP/1.1") == 1
    assert b'"code":"internal_error"' in data
    assert b"[DONE]" not in data
    await soon(lambda: house.is_idle)


async def test_who_reads_nothing_does_not_hold_a_slot_for_ever(
    make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "_KEEP_ALIVE_S", 0.2)
    monkeypatch.setattr(relay, "_READS_WITHIN_S", 1.0)
    house = await make_house(slots=1)
    house.server.script(answer(*["x" * 20_000] * 1500))
    connection = await unread(house, {**HELLO, "stream": True, "max_tokens": 2000})
    await (await house.server.wait_chats(len(house.server.chats) + 1)).wait_started()
    async with asyncio.timeout(30):
        assert (await house.other(CHILD_KEY).post()).status == 200
    connection.close()
    await soon(lambda: house.is_idle)


async def test_a_reload_ends_what_the_server_says_nothing_of(house: House) -> None:
    gate = asyncio.Event()
    house.server.script(answer(gate, "too late"))
    asked = asyncio.create_task(house.program.post())
    chat = await house.server.wait_chats(len(house.server.chats) + 1)
    await chat.wait_started()
    await house.hass.config_entries.async_reload(house.entry.entry_id)
    response = await asked
    assert response.status == 503
    await soon(lambda: not house.server.running)
    assert chat.closed_by_client
    gate.set()


@pytest.mark.parametrize("role", [[], {}, ["user"], 1, None, True])
async def test_an_odd_role_is_refused(house: House, role: Any) -> None:
    status, error = await house.program.refused(
        messages=[{"role": role, "content": "Hello"}]
    )
    assert (status, error["param"]) == (400, "messages[0].role")


async def test_too_many_stops_are_refused(house: House) -> None:
    stops = [str(number) for number in range(65)]
    status, error = await house.program.refused(stop=stops)
    assert (status, error["param"]) == (400, "stop")
    await house.program.chat(stop=stops[:64])


async def test_several_answers_are_not_had_by_another_name(house: House) -> None:
    await house.program.chat(n_cmpl=2)
    assert "n_cmpl" not in house.server.chats[-1].body


@pytest.mark.parametrize("packing", ["deflate", "gzip", "zstd"])
async def test_a_body_that_is_not_packed_as_it_says_is_refused(
    house: House, caplog: pytest.LogCaptureFixture, packing: str
) -> None:
    response = await house.program.http.post(
        CHAT,
        data=b"{}",
        headers={
            "Authorization": f"Bearer {KEY}",
            "Content-Type": "application/json",
            "Content-Encoding": packing,
        },
    )
    assert response.status == 400
    errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert [each.name for each in errors if each.name != "aiohttp.server"] == []
