"""Chat completions through the gateway, whole and streamed."""

from tests.fake_server import Call, Thought, answer
from tests.gateway.conftest import HELLO, House, text_of

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("light", "time")
]


async def test_a_whole_answer_has_openais_shape(house: House) -> None:
    told = await house.program.chat()
    (choice,) = told["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Hello."}
    assert choice["finish_reason"] == "stop"
    assert told["object"] == "chat.completion"
    assert told["model"] == "fake-model"
    assert told["usage"]["completion_tokens"] == 3
    prompt = house.server.count_prompt(house.server.chats[-1].body)
    assert told["usage"]["prompt_tokens"] == prompt
    assert told["usage"]["total_tokens"] == prompt + 3


async def test_a_streamed_answer_has_openais_shape(house: House) -> None:
    *chunks, done = await house.program.stream()
    assert done == "[DONE]"
    assert text_of(chunks) == "Hello."
    assert {each["object"] for each in chunks} == {"chat.completion.chunk"}
    assert len({(each["id"], each["created"], each["model"]) for each in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert [c["choices"][0]["finish_reason"] for c in chunks] == [
        *[None] * (len(chunks) - 1),
        "stop",
    ]


async def test_usage_is_streamed_only_if_it_is_asked_for(house: House) -> None:
    plain = await house.program.stream()
    assert not any("usage" in each for each in plain[:-1])
    *chunks, last, _ = await house.program.stream(
        stream_options={"include_usage": True}
    )
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 3
    assert not any("usage" in each for each in chunks)


async def test_the_server_is_always_asked_to_stream(house: House) -> None:
    await house.program.chat()
    assert house.server.chats[-1].body["stream"] is True


async def test_reasoning_is_told_apart_from_the_answer(house: House) -> None:
    house.server.default = answer(Thought("hm"), "Yes")
    told = await house.program.chat()
    message = told["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("Yes", "hm")
    chunks = await house.program.stream()
    assert text_of(chunks) == "Yes"
    thoughts = [c["choices"][0]["delta"].get("reasoning_content") for c in chunks[:-1]]
    assert "".join(filter(None, thoughts)) == "hm"


async def test_two_calls_of_tools_are_kept_apart(house: House) -> None:
    house.server.default = answer(
        Call("light", {"name": "lamp"}, call_id="a"), Call("time", call_id="b")
    )
    told = await house.program.chat(tools=TOOLS)
    message = told["choices"][0]["message"]
    assert message["content"] is None
    assert told["choices"][0]["finish_reason"] == "tool_calls"
    assert [
        (call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message["tool_calls"]
    ] == [("a", "light", '{"name": "lamp"}'), ("b", "time", "{}")]


async def test_streamed_calls_have_an_index_and_arguments_that_can_be_read(
    house: House,
) -> None:
    house.server.default = answer(
        Call("light", {"name": "lamp"}, call_id="a"), Call("time", call_id="b")
    )
    arguments: dict[int, str] = {}
    names: dict[int, str] = {}
    for chunk in (await house.program.stream(tools=TOOLS))[:-1]:
        for call in chunk["choices"][0]["delta"].get("tool_calls", ()):
            index = call["index"]
            names[index] = names.get(index, "") + call["function"].get("name", "")
            arguments[index] = arguments.get(index, "") + call["function"]["arguments"]
    assert names == {0: "light", 1: "time"}
    assert arguments == {0: '{"name": "lamp"}', 1: "{}"}


async def test_fields_of_the_model_are_passed_on(house: House) -> None:
    await house.program.chat(
        temperature=0.3, seed=7, stop=["x"], min_p=0.1, response_format={"type": "text"}
    )
    body = house.server.chats[-1].body
    assert (body["temperature"], body["seed"], body["stop"]) == (0.3, 7, ["x"])
    assert (body["min_p"], body["response_format"]) == (0.1, {"type": "text"})


async def test_text_of_all_scripts_reaches_the_server_as_it_is(house: House) -> None:
    said = "õhtu Cheminée 寝室 🙂"
    result = {"role": "tool", "tool_call_id": "a", "content": said}
    messages = [*HELLO["messages"], {"role": "user", "content": said}, result]
    await house.program.chat(messages=messages)
    sent = house.server.chats[-1].body["messages"]
    assert [message["content"] for message in sent[1:]] == [said, said]


async def test_the_newer_name_of_the_system_role_is_understood(house: House) -> None:
    messages = [{"role": "developer", "content": "Be brief."}, *HELLO["messages"]]
    await house.program.chat(messages=messages)
    assert house.server.chats[-1].body["messages"][0]["role"] == "system"


async def test_any_model_answers_who_names_none(house: House) -> None:
    for model in ("default", "fair-share", "", None, "fake-model"):
        assert (await house.program.chat(model=model))["model"] == "fake-model"


async def test_answers_are_as_long_as_asked_but_end_some_time(house: House) -> None:
    await house.program.chat(max_tokens=5)
    assert house.server.chats[-1].body["max_tokens"] == 5
    await house.program.chat(max_completion_tokens=6)
    assert house.server.chats[-1].body["max_tokens"] == 6
    await house.program.chat()
    context = house.household.context_limit()
    assert context is not None
    assert house.server.chats[-1].body["max_tokens"] == min(4096, context // 2)
    house.server.default = answer(*(f" {n}" for n in range(20)))
    told = await house.program.chat(max_tokens=5)
    assert told["choices"][0]["finish_reason"] == "length"


async def test_a_text_is_gone_on_with_as_it_is(house: House) -> None:
    response = await house.program.post(
        "/api/fair_share/v1/completions", {"prompt": "Once upon", "max_tokens": 9}
    )
    assert response.status == 200, await response.text()
    told = await response.json()
    assert told["object"] == "text_completion"
    assert told["choices"][0]["text"]
    assert told["choices"][0]["finish_reason"] == "stop"
