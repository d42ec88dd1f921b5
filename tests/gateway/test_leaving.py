"""Clients that wait, pause and leave: nothing stays busy behind them."""

import asyncio
from collections.abc import Callable, Mapping
import json
import random
from typing import Any
from unittest.mock import patch

import pytest

from custom_components.fair_share.admission.model import Outcome
from custom_components.fair_share.gateway import relay
from tests.common import client
from tests.fake_server import answer
from tests.gateway.conftest import (
    CHAT,
    HELLO,
    KEY,
    House,
    MakeHouse,
    sent,
    soon,
    text_of,
)


async def left(task: asyncio.Task[Any]) -> None:
    """Let somebody hang up."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def written(house: House) -> int:
    """Return how many tokens there are of the one answer that is being written."""
    (request,) = house.household.status().requests
    return request.output_tokens


async def follow(house: House, on_text: Callable[[bytes], None], **body: Any) -> None:
    """Read a stream byte by byte as it comes."""
    asked = await house.program.post(body={**HELLO, "stream": True, **body})
    async with asked as response:
        async for data in response.content.iter_any():
            on_text(data)


@pytest.mark.parametrize("stream", [False, True])
async def test_who_leaves_while_waiting_never_reaches_the_server(
    make_house: MakeHouse, *, stream: bool
) -> None:
    house = await make_house(slots=1)
    gate = asyncio.Event()
    house.server.default = answer("Hel", gate, "lo")
    running = asyncio.create_task(house.program.chat())
    await soon(lambda: house.server.running == 1)
    asked = len(house.server.chats)
    waiting = asyncio.create_task(house.program.post(body={**HELLO, "stream": stream}))
    await soon(lambda: house.household.status().waiting == 1)
    await left(waiting)
    await soon(lambda: house.household.status().waiting == 0)
    assert len(house.server.chats) == asked
    gate.set()
    await running


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("begun", [False, True])
async def test_who_leaves_while_being_answered_frees_the_server(
    house: House, *, stream: bool, begun: bool
) -> None:
    gate = asyncio.Event()
    house.server.default = answer("Hel", gate, "lo") if begun else answer(gate, "lo")
    asking = asyncio.create_task(
        follow(house, lambda _: None) if stream else house.program.post(body=HELLO)
    )
    await soon(lambda: house.server.running == 1)
    await soon(lambda: written(house) == int(begun))
    await left(asking)
    await soon(lambda: house.is_idle)
    assert house.server.chats[-1].closed_by_client
    record = house.household.records()[-1]
    assert record.outcome is Outcome.CANCELLED
    assert record.tokens.output == int(begun)


async def test_fifty_who_come_and_go_leave_nothing_busy(house: House) -> None:
    rng = random.Random(7)
    gates = [asyncio.Event() for _ in range(50)]
    replies = iter([answer("a", gate, "b") for gate in gates])
    house.server.default = lambda _: next(replies)

    async def one(number: int) -> None:
        await asyncio.sleep(rng.random() / 4)
        body: dict[str, Any] = {"stream": number % 2 == 0}
        if number % 10 == 9:
            body["model"] = "wrong"
        task = asyncio.create_task(follow(house, lambda _: None, **body))
        await asyncio.sleep(rng.random() / 4)
        await left(task)

    await asyncio.gather(*(one(number) for number in range(50)))
    await soon(lambda: house.is_idle)
    house.server.default = answer("Hello.")
    assert (await house.program.chat())["choices"][0]["message"]["content"] == "Hello."


async def test_a_stream_that_waits_is_kept_alive_and_then_answered(
    make_house: MakeHouse,
) -> None:
    house = await make_house(slots=1)
    gate = asyncio.Event()
    house.server.default = answer("Hel", gate, "lo")
    with (
        patch.object(relay, "_STATUS_WITHIN_S", 0.1),
        patch.object(relay, "_KEEP_ALIVE_S", 0.1),
        patch.object(relay, "_LOOK_S", 0.05),
    ):
        running = asyncio.create_task(house.program.chat())
        await soon(lambda: house.server.running == 1)
        seen = b""

        def note(data: bytes) -> None:
            nonlocal seen
            seen += data

        waiting = asyncio.create_task(follow(house, note))
        await soon(lambda: seen.count(b": waiting\n\n") >= 3)
        assert house.household.status().waiting == 1
        gate.set()
        await asyncio.gather(running, waiting)
    assert text_of(sent(seen)) == "Hello"
    assert sent(seen)[-1] == "[DONE]"


async def test_a_paused_stream_goes_on_as_one_text(make_house: MakeHouse) -> None:
    house = await make_house(
        client("desktop", KEY, "parent", workload="background"),
        client("tablet", "fs-voice", "child", workload="voice"),
        slots=1,
    )
    words = [f" w{number}" for number in range(40)]
    gate, spoken = asyncio.Event(), asyncio.Event()

    def reply(body: Mapping[str, Any]) -> Any:
        last = body["messages"][-1]
        if last["role"] == "assistant":
            so_far = last["content"].split()
            return answer(*words[len(so_far) :])
        if body["max_tokens"] == 5:
            return answer("Yes", spoken, ".")
        return answer(*words[:20], gate, *words[20:])

    house.server.default = reply
    seen = b""

    def note(data: bytes) -> None:
        nonlocal seen
        seen += data

    writing = asyncio.create_task(follow(house, note, max_tokens=100))
    await soon(lambda: b"w19" in seen)
    speaking = asyncio.create_task(house.other("fs-voice").chat(max_tokens=5))
    await soon(lambda: house.household.node_status("desktop").preemptions == 1)
    spoken.set()
    told = await speaking
    assert told["choices"][0]["message"]["content"] == "Yes."
    await writing
    assert text_of(sent(seen)) == "".join(words)
    assert sent(seen)[-1] == "[DONE]"


async def test_text_never_gets_into_the_stream_of_another(
    make_house: MakeHouse,
) -> None:
    house = await make_house(slots=8)

    def reply(body: Mapping[str, Any]) -> Any:
        said = body["messages"][-1]["content"]
        return answer(*(f"{said}{n}." for n in range(20)))

    house.server.default = reply

    async def one(number: int) -> None:
        said = f"<{number}>"
        messages = [{"role": "user", "content": said}]
        if number % 2:
            events = await house.program.stream(messages=messages)
            text = text_of(events)
        else:
            told = await house.program.chat(messages=messages)
            text = told["choices"][0]["message"]["content"]
        assert text == "".join(f"{said}{n}." for n in range(20))

    await asyncio.gather(*(one(number) for number in range(30)))


async def test_answers_reach_a_client_as_they_come(house: House) -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    house.server.default = answer("Hel", gates[0], "lo", gates[1], ".")
    seen = b""

    def note(data: bytes) -> None:
        nonlocal seen
        seen += data

    asking = asyncio.create_task(follow(house, note))
    await soon(lambda: text_of(sent(seen)) == "Hel")
    gates[0].set()
    await soon(lambda: text_of(sent(seen)) == "Hello")
    gates[1].set()
    await asking
    assert sent(seen)[-1] == "[DONE]"


async def test_a_client_that_reads_slowly_gets_all(house: House) -> None:
    house.server.default = answer(*(f"{n:05d}" + "x" * 500 for n in range(400)))
    url = house.program.http.make_url(CHAT)
    reader, writer = await asyncio.open_connection(url.host, url.port, limit=4096)
    body = json.dumps({**HELLO, "stream": True}).encode()
    writer.write(
        f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n".encode()
        + body
    )
    seen = b""
    while data := await reader.read(4096):
        seen += data
        if len(seen) < 20_000:
            await asyncio.sleep(0.05)
    writer.close()
    assert seen.endswith(b"0\r\n\r\n")
    assert all(f"{n:05d}x".encode() in seen for n in range(400))
