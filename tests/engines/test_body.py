"""What is sent to the server."""

from typing import Any

import aiohttp
import pytest

from custom_components.fair_share.engines.base import (
    ClientFaultError,
    Engine,
    GenerationRequest,
)
from tests.engines.helpers import TOOL, ask, ask_with, deltas_of, engine_for
from tests.fake_server import FakeServer


async def sent(engine: Engine, server: FakeServer, request: GenerationRequest) -> Any:
    """Return the body that reaches the server."""
    await deltas_of(engine, request)
    return server.chats[-1].body


async def test_every_answer_is_streamed_has_a_limit_and_reports_its_usage(
    any_engine: Engine, any_server: FakeServer
) -> None:
    body = await sent(any_engine, any_server, ask(tokens=7, tools=[TOOL]))
    assert body["stream"] is True
    assert body["max_tokens"] == 7
    assert body["stream_options"]["include_usage"] is True
    assert body["model"] == "fake-model"
    assert body["tools"] == [TOOL]


async def test_llama_cpp_is_asked_for_its_progress_and_to_count_along(
    llama: Engine, llama_server: FakeServer
) -> None:
    body = await sent(llama, llama_server, ask())
    assert {"cache_prompt", "return_progress", "timings_per_token"} <= set(body)
    assert body["stream_options"] == {"include_usage": True}


async def test_vllm_is_asked_to_count_along(
    vllm: Engine, vllm_server: FakeServer
) -> None:
    body = await sent(vllm, vllm_server, ask())
    options = {"include_usage": True, "continuous_usage_stats": True}
    assert body["stream_options"] == options


async def test_an_unknown_server_is_sent_only_what_all_servers_know(
    plain: Engine, plain_server: FakeServer
) -> None:
    body = await sent(plain, plain_server, ask())
    known = {"messages", "model", "max_tokens", "stream", "stream_options"}
    assert set(body) == known


async def test_further_parameters_are_passed_on_but_decide_nothing_of_ours(
    any_engine: Engine, any_server: FakeServer
) -> None:
    parameters = {
        "temperature": 0.5,
        "cache_prompt": False,
        "stream": False,
        "n": 3,
        "max_tokens": 9999,
        "max_completion_tokens": 9999,
        "stream_options": None,
    }
    body = await sent(any_engine, any_server, ask(parameters=parameters))
    assert (body["temperature"], body["cache_prompt"]) == (0.5, False)
    assert (body["stream"], body["max_tokens"]) == (True, 50)
    assert not {"n", "max_completion_tokens"} & set(body)


async def test_a_message_that_only_calls_a_tool_has_an_empty_text(
    any_engine: Engine, any_server: FakeServer
) -> None:
    """See llama.cpp #13471: templates break on a content of ``null``."""
    call = {
        "id": "a",
        "type": "function",
        "function": {"name": "on", "arguments": "{}"},
    }
    request = ask_with(
        [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a"},
        ]
    )
    body = await sent(any_engine, any_server, request)
    assert [message["content"] for message in body["messages"]] == ["", ""]
    assert request.messages[0]["content"] is None


async def test_characters_are_sent_as_they_are(
    any_engine: Engine, any_server: FakeServer
) -> None:
    await deltas_of(any_engine, ask("õhtu Cheminée 寝室 🙂"))
    raw = any_server.chats[-1].raw
    assert "õhtu Cheminée 寝室 🙂".encode() in raw
    assert b"\\u" not in raw


async def test_half_a_character_in_a_prompt_does_not_stop_the_request(
    any_engine: Engine, any_server: FakeServer
) -> None:
    body = await sent(any_engine, any_server, ask("a\ud83db"))
    assert body["messages"][0]["content"] == "a?b"


@pytest.mark.parametrize("value", [float("nan"), object()])
async def test_what_is_not_json_is_the_clients_fault(
    any_engine: Engine, value: object
) -> None:
    with pytest.raises(ClientFaultError, match="cannot be written as JSON"):
        await deltas_of(any_engine, ask(parameters={"temperature": value}))


async def test_a_request_may_name_its_model(
    any_engine: Engine, any_server: FakeServer
) -> None:
    body = await sent(any_engine, any_server, ask(model="other"))
    assert body["model"] == "other"
    assert [r.path for r in any_server.requests] == ["/v1/chat/completions"]


async def test_the_key_is_sent_where_there_is_one(
    session: aiohttp.ClientSession, any_engine: Engine, any_server: FakeServer
) -> None:
    await deltas_of(any_engine)
    any_server.api_key = "sk-right"
    await deltas_of(engine_for(session, any_server))
    sent = [chat.headers.get("Authorization") for chat in any_server.chats]
    assert sent == [None, "Bearer sk-right"]


async def test_nothing_keeps_a_llama_cpp_answering_after_we_left(
    llama: Engine, llama_server: FakeServer
) -> None:
    """With this header the server goes on when its client is gone."""
    await deltas_of(llama)
    assert "X-Conversation-Id" not in llama_server.chats[0].headers


async def test_no_connection_is_used_twice(
    any_engine: Engine, any_server: FakeServer
) -> None:
    """Some llama.cpp builds close a connection after a stream without saying so."""
    await deltas_of(any_engine)
    assert {r.headers["Connection"] for r in any_server.requests} == {"close"}
