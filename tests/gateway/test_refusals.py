"""What is refused, and how it is told."""

import asyncio
from typing import Any

import pytest

from custom_components.fair_share.const import GATEWAY_PATH
from tests.common import client, member
from tests.fake_server import DROP, RESET, answer, event, failure, raw
from tests.gateway.conftest import CHAT, HELLO, KEY, House, MakeHouse, soon, text_of

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def shown(*parts: Any) -> list[Any]:
    """Return messages with these parts."""
    return [{"role": "user", "content": [*parts]}]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [1]}, "messages[0].role"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": shown("x")}, "messages[0].content"),
        ({"messages": shown({"type": "text"})}, "messages[0].content"),
        ({"messages": shown({"type": "dance"})}, "messages[0].content"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": "x"}, "stream_options"),
        ({"tools": {}}, "tools"),
        ({"tools": [1]}, "tools"),
        ({"model": 5}, "model"),
        ({"stop": 5}, "stop"),
        ({"stop": [5]}, "stop"),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"service_tier": "platinum"}, "service_tier"),
    ],
)
async def test_a_field_that_is_wrong_is_named(
    house: House, body: dict[str, Any], param: str
) -> None:
    asked = len(house.server.chats)
    status, error = await house.program.refused(**body)
    assert (status, error["param"]) == (400, param)
    assert error["type"] == "invalid_request_error"
    assert len(house.server.chats) == asked
    assert house.is_idle


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b"\xff", b"[" * 100_000])
async def test_what_is_no_json_object_is_refused(house: House, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    response = await house.program.http.post(CHAT, data=body, headers=headers)
    assert response.status == 400
    assert (await response.json())["error"]["message"]


async def test_other_content_and_too_much_of_it_is_refused(house: House) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    response = await house.program.http.post(CHAT, data={"a": "b"}, headers=headers)
    assert response.status == 415
    headers["Content-Type"] = "application/json"
    much = b" " * (16 * 1024 * 1024 + 1)
    response = await house.program.http.post(CHAT, data=much, headers=headers)
    assert (response.status, (await response.json())["error"]["code"]) == (
        413,
        "too_large",
    )


async def test_an_unknown_model_is_told(house: House) -> None:
    status, error = await house.program.refused(model="gpt-4o")
    assert (status, error["code"], error["param"]) == (404, "model_not_found", "model")


async def test_what_no_server_can_see_or_hear_is_refused_before_it_waits(
    house: House,
) -> None:
    for part, code in (
        (PICTURE, "no_vision"),
        ({"type": "input_audio", "input_audio": {"data": "AA"}}, "no_audio"),
        (
            {"type": "image_url", "image_url": {"url": "http://192.168.0.1/x.png"}},
            "unsupported_image",
        ),
        ({"type": "image_url", "image_url": "file:///etc/passwd"}, "unsupported_image"),
    ):
        asked = len(house.server.chats)
        status, error = await house.program.refused(messages=shown(part))
        assert (status, error["code"]) == (400, code)
        assert len(house.server.chats) == asked


async def test_pictures_reach_a_server_that_sees(make_house: MakeHouse) -> None:
    house = await make_house(vision=True)
    await house.program.chat(messages=shown({"type": "text", "text": "?"}, PICTURE))
    (message,) = house.server.chats[-1].body["messages"]
    assert message["content"] == [{"type": "text", "text": "?"}, PICTURE]


async def test_too_much_text_is_told_as_openai_does(house: House) -> None:
    words = " ".join("word" for _ in range(9000))
    status, error = await house.program.refused(
        messages=[{"role": "user", "content": words}]
    )
    assert (status, error["code"]) == (400, "context_length_exceeded")


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (failure(400, "no such thing", "invalid_request_error"), 400, "refused"),
        (failure(500, "boom", "server_error"), 502, "server_failed"),
        (
            failure(400, "exceeds the available context size", "x"),
            400,
            "context_length_exceeded",
        ),
        (
            failure(500, "exceeds the available context size", "x"),
            400,
            "context_length_exceeded",
        ),
        (raw(event({"error": {"message": "boom", "code": 500}})), 502, "server_failed"),
    ],
)
async def test_what_the_server_says_before_an_answer_becomes_a_status(
    house: House, reply: Any, status: int, code: str
) -> None:
    house.server.default = reply
    for stream in (False, True):
        told, error = await house.program.refused(stream=stream)
        assert (told, error["code"]) == (status, code)
        assert "boom" not in error["message"]
    assert house.is_idle


@pytest.mark.parametrize("end", [RESET, DROP])
async def test_an_answer_that_breaks_off_ends_with_an_error_and_no_end(
    house: House, end: Any
) -> None:
    # It can't be gone on with: a tool was under way.
    house.server.default = answer("Hel", end)
    events = await house.program.stream(response_format={"type": "json_object"})
    assert text_of(events[:-1]) == "Hel"
    assert events[-1]["error"]["code"]
    assert "[DONE]" not in events
    finishes = [e["choices"][0]["finish_reason"] for e in events if "choices" in e]
    assert not any(finishes)
    assert house.is_idle


async def test_an_error_inside_a_stream_is_told_there(house: House) -> None:
    house.server.default = raw(
        event({"choices": [{"delta": {"content": "Hel"}}]}),
        event({"error": {"message": "secret words", "code": 500}}),
    )
    events = await house.program.stream(response_format={"type": "json_object"})
    assert text_of(events[:-1]) == "Hel"
    assert "secret" not in events[-1]["error"]["message"]
    assert house.is_idle


async def test_a_full_queue_says_when_to_come_again(make_house: MakeHouse) -> None:
    house = await make_house(client("desktop", KEY, queued=1), slots=1)
    gate = asyncio.Event()
    house.server.default = answer("Hel", gate, "lo")
    running = asyncio.create_task(house.program.chat())
    await soon(lambda: house.server.running == 1)
    waiting = asyncio.create_task(house.program.chat())
    await soon(lambda: house.household.status().waiting == 1)
    response = await house.program.post()
    assert response.status == 429
    assert int(response.headers["Retry-After"]) >= 1
    assert (await response.json())["error"]["code"] == "queue_full"
    health = await house.program.get(f"{GATEWAY_PATH}/health")
    assert health.status == 200
    assert (await house.program.get(f"{GATEWAY_PATH}/models")).status == 200
    gate.set()
    await asyncio.gather(running, waiting)
    assert house.household.node_status("desktop").rejected == 1


async def test_a_used_up_quota_says_when_it_starts_again(
    make_house: MakeHouse,
) -> None:
    house = await make_house(
        client("desktop", KEY, "parent"), members=(member("parent", quota_tokens=1),)
    )
    await (await house.program.post()).read()
    response = await house.program.post()
    assert response.status == 429
    assert 1 <= int(response.headers["Retry-After"]) <= 86_400
    assert (await response.json())["error"]["code"] == "insufficient_quota"


async def test_a_household_that_stops_says_so(house: House) -> None:
    await house.hass.config_entries.async_unload(house.entry.entry_id)
    assert (await house.program.post()).status == 404


async def test_other_methods_and_paths_are_refused(house: House) -> None:
    assert (await house.program.get(CHAT)).status == 405
    assert (await house.program.get(f"{GATEWAY_PATH}/files")).status == 404
    response = await house.program.post(CHAT, HELLO)
    assert response.status == 200
