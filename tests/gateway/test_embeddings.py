"""Embeddings through the gateway."""

from collections.abc import Mapping
from typing import Any

import pytest

from custom_components.fair_share.const import GATEWAY_PATH
from tests.fake_replies import Failure
from tests.gateway.conftest import House

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
