"""Embeddings through the gateway."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from custom_components.fair_share.const import GATEWAY_PATH
from tests.fake_replies import Failure
from tests.gateway.conftest import House, soon

PATH = f"{GATEWAY_PATH}/embeddings"
EMBEDDINGS = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -0.5]}],
    "usage": {"prompt_tokens": 9, "total_tokens": 9},
}


@pytest.fixture
def told(house: House, monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """What the server is asked; it answers with ``EMBEDDINGS``."""
    asked: list[Mapping[str, Any]] = []

    async def embed(fields: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append(fields)
        return EMBEDDINGS

    engine = house.household.servers.get("server").engine
    monkeypatch.setattr(engine, "embed", embed)
    return asked


async def test_they_are_passed_on_and_charged_as_background_work(
    house: House, told: list[Mapping[str, Any]]
) -> None:
    body = {"input": ["Hello", "there"], "model": "default", "user": "x"}
    response = await house.program.post(PATH, body)
    assert response.status == 200
    assert await response.json() == EMBEDDINGS
    assert told == [{"input": ["Hello", "there"]}]
    record = house.household.records()[-1]
    assert record.class_id == "desktop/background"
    assert record.tokens.uncached == 9
    assert house.household.node_status("parent").charge == record.charge > 0


@pytest.mark.parametrize(
    "given", [None, "", [], [1, "x"], {"a": 1}, 5, [[1], "x"], [None]]
)
async def test_what_is_no_text_is_refused(
    house: House, told: list[Mapping[str, Any]], given: object
) -> None:
    response = await house.program.post(PATH, {"input": given} if given else {})
    assert response.status == 400
    assert (await response.json())["error"]["param"] == "input"
    assert told == []


async def test_tokens_are_taken_too(
    house: House, told: list[Mapping[str, Any]]
) -> None:
    for given in ([1, 2, 3], [[1, 2], [3]]):
        assert (await house.program.post(PATH, {"input": given})).status == 200
    assert len(told) == 2


async def test_an_unknown_model_is_told(
    house: House, told: list[Mapping[str, Any]]
) -> None:
    response = await house.program.post(PATH, {"input": "x", "model": "other"})
    assert response.status == 404
    assert told == []


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (404, '{"error": {"message": "no", "code": 404}}', "refused"),
        (500, '{"error": {"message": "no", "code": 500}}', "server_failed"),
        (200, '{"object": "list"}', "server_failed"),
        (200, '{"data": [1000000000000000000000000000000]}', "server_failed"),
        (200, '{"data": ["\\ud800"]}', "server_failed"),
        (200, "no JSON", "server_failed"),
    ],
)
async def test_what_is_no_answer_becomes_an_error(
    house: House, status: int, body: str, code: str
) -> None:
    house.server.override = {"/v1/embeddings": Failure(status, body)}
    response = await house.program.post(PATH, {"input": "x"})
    told = await response.json()
    assert response.status in (400, 502)
    assert told["error"]["code"] == code
    assert house.is_idle


async def test_the_model_that_is_named_is_asked(
    house: House, told: list[Mapping[str, Any]]
) -> None:
    response = await house.program.post(PATH, {"input": "x", "model": "fake-model"})
    assert response.status == 200
    assert told == [{"input": "x", "model": "fake-model"}]


async def test_a_long_list_is_asked_for_bit_by_bit(
    house: House, told: list[Mapping[str, Any]]
) -> None:
    texts = [f"text {number}" for number in range(70)]
    response = await house.program.post(PATH, {"input": texts})
    answer = await response.json()
    assert [each["input"] for each in told] == [texts[:32], texts[32:64], texts[64:]]
    assert [each["index"] for each in answer["data"]] == [0, 1, 2]
    assert answer["usage"] == {"prompt_tokens": 27, "total_tokens": 27}
    assert house.household.records()[-1].tokens.uncached == 27


async def test_who_leaves_pays_what_may_have_been_read(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Mapping[str, Any]] = []

    async def embed(fields: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append(fields)
        if len(asked) > 1:
            await asyncio.Event().wait()
        return EMBEDDINGS

    engine = house.household.servers.get("server").engine
    monkeypatch.setattr(engine, "embed", embed)
    task = asyncio.create_task(house.program.post(PATH, {"input": ["word"] * 40}))
    await soon(lambda: len(asked) == 2)
    task.cancel()
    await soon(lambda: house.is_idle)
    record = house.household.records()[-1]
    assert record.estimated
    assert record.tokens.uncached > 9
