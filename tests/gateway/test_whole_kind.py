"""Faults that users met elsewhere, as whole kinds, through the gateway's door.

What each refers to is in the threads that are named.
"""

import asyncio
import json
from typing import Any

import pytest

from custom_components.fair_share.admission.model import Workload
from custom_components.fair_share.const import GATEWAY_PATH
from custom_components.fair_share.household.watched import ServerState
from tests.fake_replies import Reply, answer, chunk, event, failure, raw
from tests.gateway.conftest import CHILD_KEY, HELLO, House, MakeHouse, sent, soon

OVERFLOW = "the request exceeds the available context size"
TOO_LONG: dict[str, Reply] = {
    "400": failure(400, OVERFLOW, "exceed_context_size_error"),
    "500": failure(500, OVERFLOW, "server_error"),
    "inside": raw(event({"error": {"code": 400, "message": OVERFLOW}})),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", TOO_LONG)
async def test_too_long_is_one_thing_however_it_is_told(
    house: House, kind: str, *, stream: bool
) -> None:
    """See llama.cpp #15780 and #19774: neither tried again nor the server's fault."""
    for _ in range(3):
        house.server.script(TOO_LONG[kind])
        before = len(house.server.chats)
        response = await house.program.post(body={**HELLO, "stream": stream})
        assert response.status == 400
        error = (await response.json())["error"]
        assert error["code"] == "context_length_exceeded"
        assert len(house.server.chats) == before + 1
    (view,) = house.household.servers.statuses()
    assert view.state is ServerState.READY
    await house.program.chat()
    assert house.is_idle


async def test_answers_that_fit_one_by_one_wait_for_memory(
    make_house: MakeHouse,
) -> None:
    """See llama.cpp #23652: together they would use up the pool, and all die."""
    house = await make_house(slots=4, kv_tokens=4000, context_tokens=4000)
    gate = asyncio.Event()
    house.server.default = answer("one", gate, " two")
    asked = [asyncio.create_task(house.program.chat(max_tokens=1792)) for _ in range(3)]
    await soon(lambda: house.server.running == 2)
    await soon(lambda: house.household.status().waiting == 1)
    gate.set()
    told = await asyncio.gather(*asked)
    assert [each["choices"][0]["message"]["content"] for each in told] == (
        ["one two"] * 3
    )
    assert house.server.peak_running == 2


async def test_who_is_full_still_says_how_it_is(make_house: MakeHouse) -> None:
    """See paddler #44."""
    house = await make_house(slots=1)
    gate = asyncio.Event()
    house.server.default = answer(gate, "done")
    asked = [asyncio.create_task(house.program.chat()) for _ in range(3)]
    await soon(lambda: house.household.status().waiting == 2)
    for path in ("health", "models", "props", "version"):
        assert (await house.program.get(f"{GATEWAY_PATH}/{path}")).status == 200
    gate.set()
    await asyncio.gather(*asked)


async def test_every_waiter_gets_a_turn_or_a_word(make_house: MakeHouse) -> None:
    """See llama-swap #887: no end without a word for whoever waits behind others."""
    house = await make_house(slots=1, options={"queue_limit_class": 2})
    gate = asyncio.Event()
    house.server.default = answer("a", gate, "b")
    asked = [
        asyncio.create_task(
            house.program.post(body={**HELLO, "stream": bool(number % 2)})
        )
        for number in range(5)
    ]
    await soon(lambda: sum(task.done() for task in asked) >= 2)
    gate.set()
    responses = await asyncio.gather(*asked)
    statuses = sorted(response.status for response in responses)
    assert statuses == [200, 200, 200, 429, 429]
    for response in responses:
        if response.status == 429:
            assert int(response.headers["Retry-After"]) >= 1
            assert (await response.json())["error"]["code"] == "queue_full"
    assert house.household.node_status("parent").rejected == 2


@pytest.mark.parametrize(
    "priority", [0, -5, 3, 10**30, 0.5, "high", None, True, [], {}, "1"], ids=str
)
async def test_odd_priorities_are_compared_with_no_other(
    house: House, priority: Any
) -> None:
    """See LiteLLM #14817: all of them at once, in one queue."""
    gate = asyncio.Event()
    house.server.default = answer(gate, "done")
    odd = [asyncio.create_task(house.program.chat(priority=priority)) for _ in range(4)]
    usual = [asyncio.create_task(house.program.chat()) for _ in range(4)]
    await soon(lambda: len(house.household.status().requests) == 8)
    gate.set()
    for told in await asyncio.gather(*odd, *usual):
        assert told["choices"][0]["message"]["content"] == "done"
    assert {record.workload for record in house.household.records()} <= {
        Workload.CHAT,
        Workload.BACKGROUND,
    }


async def test_letters_reach_the_server_as_they_are(house: House) -> None:
    """See langchain #32222: escapes cost twice the tokens, and models copy them."""
    words = "õhtu, Cheminée, 寝室 🙂"
    call = {"id": "a", "type": "function", "function": {"name": "x", "arguments": "{}"}}
    await house.program.chat(
        messages=[
            {"role": "user", "content": words},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": json.dumps({"a": words})},
        ]
    )
    assert words in house.server.chats[-1].raw.decode()


async def test_no_answer_is_without_an_end(house: House) -> None:
    """See llama.cpp #10312: whoever names no limit gets one all the same."""
    house.server.default = answer(*["again "] * 5000)
    told = await house.program.chat()
    limit = house.server.chats[-1].body["max_tokens"]
    assert 0 < limit <= 4096
    assert told["choices"][0]["finish_reason"] == "length"
    assert told["usage"]["completion_tokens"] == limit


async def test_no_text_of_one_is_in_the_stream_of_another(house: House) -> None:
    def marked(body: Any) -> Reply:
        mark = body["messages"][-1]["content"]
        return raw(chunk({"content": mark}), chunk({}, "stop"), "data: [DONE]\n\n")

    house.server.default = marked
    child = house.other(CHILD_KEY)

    async def ask(number: int) -> None:
        program = child if number % 2 else house.program
        mark = f"mark {number} of {program.key}"
        response = await program.post(
            body={"messages": [{"role": "user", "content": mark}], "stream": True}
        )
        events = sent(await response.read())
        said = "".join(
            choice["delta"].get("content") or ""
            for each in events
            if isinstance(each, dict)
            for choice in each["choices"]
        )
        assert said == mark

    await asyncio.gather(*map(ask, range(40)))
