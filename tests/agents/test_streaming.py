"""Every way in which servers stream an answer, from the wire to what is said."""

from typing import Any

from homeassistant.components import conversation
from homeassistant.helpers.chat_session import ChatSession
import pytest

from tests.agents.conftest import TURN_ON, House, is_error, speech
from tests.fake_server import (
    DONE,
    DROP,
    RESET,
    Thought,
    answer,
    chunk,
    event,
    raw,
    usage_chunk,
)

ROLE = chunk({"role": "assistant"})
STOP = chunk({}, "stop")


def text(piece: str) -> str:
    return chunk({"content": piece})


async def test_an_answer_is_spoken_and_kept(house: House) -> None:
    house.server.script(answer("Good", " morning"))
    result = await house.say()
    assert speech(result) == "Good morning"
    assert not is_error(result)
    question, reply = house.contents(result)
    assert (question.role, question.content) == ("user", "hello")
    assert (reply.role, reply.content) == ("assistant", "Good morning")
    assert reply.agent_id == "conversation.fair_share"
    assert house.is_at_rest()


async def test_an_answer_is_passed_on_while_it_is_written(house: House) -> None:
    house.server.script(answer(Thought("hm"), "Good", " morning"))
    deltas: list[dict[str, Any]] = []
    with conversation.async_get_chat_log(
        house.hass,
        ChatSession("table"),
        chat_log_delta_listener=lambda _log, delta: deltas.append(delta),
    ):
        await house.say(conversation_id="table")
    assert deltas == [
        {"role": "assistant"},
        {"thinking_content": "hm"},
        {"content": "Good"},
        {"content": " morning"},
    ]


async def test_a_usage_chunk_without_choices_first_or_last_is_no_crash(
    house: House,
) -> None:
    """See LiteLLM #30761, LiteLLM #36553, openai-style clients elsewhere."""
    empty = event({"choices": []})
    house.server.script(
        raw(empty, ROLE, text("hi"), STOP, usage_chunk(5, 1), DONE),
    )
    assert speech(await house.say()) == "hi"
    status = house.household.node_status("parent")
    assert (status.tokens.prompt, status.tokens.output) == (5, 1)


@pytest.mark.parametrize(
    "pings",
    [
        (":\n\n",),
        (": ping\n",),
        ("event: ping\ndata: {}\n\n",),
        (":", " pi", "ng\n", "\n"),
    ],
)
async def test_keep_alives_are_not_part_of_an_answer(
    house: House, pings: tuple[str, ...]
) -> None:
    """See openai-python #2722, continue #13144."""
    house.server.script(raw(*pings, ROLE, text("a"), *pings, text("b"), STOP, DONE))
    assert speech(await house.say()) == "ab"


@pytest.mark.parametrize("ending", [RESET, DROP])
async def test_of_an_answer_that_breaks_off_what_came_is_kept_and_that_it_broke_is_said(
    house: House, ending: Any
) -> None:
    """See LiteLLM #33404, vLLM #52852."""
    house.server.script(answer("One,", " two,", " three", ending))
    result = await house.say()
    assert speech(result).startswith("One, two, three… The answer was cut off")
    assert house.contents(result)[-1].content == speech(result)
    assert house.household.node_status("parent").tokens.output == 3
    assert house.is_at_rest()


async def test_what_is_held_back_when_an_answer_breaks_off_is_kept_too(
    house: House,
) -> None:
    house.server.script(answer("See {", RESET))
    assert speech(await house.say()).startswith("See {… The answer was cut off")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("It is warm.", "It is warm. The answer was"),
        ("It is warm. ", "It is warm. The answer was"),
        ("It is ", "It is … The answer was"),
        ("暖かい。", "暖かい。 The answer was"),
    ],
)
async def test_that_an_answer_broke_off_is_a_sentence_of_its_own(
    house: House, said: str, told: str
) -> None:
    house.server.script(answer(*said, RESET))
    assert speech(await house.say()).startswith(told)


async def test_an_answer_that_breaks_off_in_a_thought_is_told(house: House) -> None:
    house.server.script(answer(Thought("hm"), RESET))
    result = await house.say()
    assert is_error(result)
    assert speech(result).startswith("The answer was cut off")


async def test_a_body_that_ends_without_a_finish_is_an_answer_that_was_cut(
    house: House,
) -> None:
    house.server.script(raw(ROLE, text("One,"), text(" two")))
    assert speech(await house.say()).startswith("One, two… The answer was cut off")
    assert house.is_at_rest()


@pytest.mark.parametrize(
    "ending", [(STOP,), (DONE,), (STOP, DONE)], ids=["finish", "done", "both"]
)
async def test_a_finish_or_done_completes_an_answer(
    house: House, ending: tuple[str, ...]
) -> None:
    """See CLIProxyAPI #5028, vllm-mlx #628."""
    house.server.script(raw(ROLE, text("whole"), *ending))
    assert speech(await house.say()) == "whole"


async def test_characters_split_anywhere_arrive_whole(house: House) -> None:
    """See LiteLLM #18842, llama.cpp #28926."""
    body = (ROLE + text("õ한🙂") + STOP + DONE).encode()
    start = body.index("õ".encode())
    for cut in range(start, start + len("õ한🙂".encode()) + 1):
        house.server.script(raw(body[:cut], body[cut:]))
        assert speech(await house.say()) == "õ한🙂"


async def test_text_in_the_chunk_that_finishes_is_not_lost(house: House) -> None:
    """See vLLM #35705."""
    house.server.script(raw(ROLE, text("almost"), chunk({"content": " all"}, "stop")))
    assert speech(await house.say()) == "almost all"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_reasoning_is_kept_as_thought_and_never_spoken(
    house: House, field: str
) -> None:
    """See vLLM #27755, LiteLLM #20246."""
    house.server.script(answer(Thought("secret", field), "Hello"))
    result = await house.say()
    assert speech(result) == "Hello"
    reply = house.contents(result)[-1]
    assert (reply.content, reply.thinking_content) == ("Hello", "secret")
    assert house.household.node_status("parent").tokens.output == 2


@pytest.mark.parametrize(
    "pieces",
    [
        ("<thi", "nk>sec", "ret</th", "ink>", "Hello"),
        ('<think mode="x">secret</think>\n\nHello',),
        ("<think>secret", "</think>Hello"),
    ],
)
async def test_thinking_in_tags_is_never_spoken(
    house: House, pieces: tuple[str, ...]
) -> None:
    """See home-assistant/core #147541."""
    house.server.script(answer(*pieces))
    assert speech(await house.say()) == "Hello"


async def test_thinking_that_is_never_closed_is_no_answer(house: House) -> None:
    house.server.script(answer("<think>", "secret"))
    result = await house.say()
    assert is_error(result)
    assert speech(result) == "The language model gave no answer. Please try again."


@pytest.mark.parametrize(
    "pieces",
    [
        ("secret", "</think>", "\n\nHello"),
        ("sec", "ret</th", "ink>Hel", "lo"),
        ("<think>sec</think>", "ret", "</think>Hello"),
        (f'{{"name": "{TURN_ON}", "arguments": {{}}}}', "</think>", "Hello"),
    ],
)
async def test_thinking_that_only_its_end_shows_is_taken_back(
    house: House, pieces: tuple[str, ...]
) -> None:
    house.server.script(answer(*pieces))
    result = await house.say()
    assert speech(result) == "Hello"
    said = [getattr(content, "content", "") for content in house.contents(result)]
    assert [text for text in said if text] == ["hello", "Hello"]
    assert house.api.called() == []
    await house.say("and now?", result.conversation_id)
    assert [m["role"] for m in house.sent_messages()[1:]] == [
        "user",
        "assistant",
        "user",
    ]
    assert house.sent_messages()[-2]["content"] == "Hello"


async def test_nothing_after_thinking_that_only_its_end_shows_is_no_answer(
    house: House,
) -> None:
    house.server.script(answer("secret", "</think>"))
    result = await house.say()
    assert is_error(result)
    assert speech(result) == "The language model gave no answer. Please try again."


async def test_text_in_parts_is_spoken_and_thoughts_in_parts_are_not(
    house: House,
) -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "secret"}]},
        {"type": "text", "text": "Hello"},
    ]
    house.server.script(raw(ROLE, chunk({"content": parts}), STOP, DONE))
    assert speech(await house.say()) == "Hello"


async def test_an_error_before_the_first_word_in_a_line_of_its_own_is_tried_again(
    house: House,
) -> None:
    """See llama.cpp #14566."""
    error = 'error: {"code": 500, "message": "boom"}\n\n'
    house.server.script(raw(ROLE, error), answer("fine"))
    assert speech(await house.say()) == "fine"
    assert len(house.sent) == 2


async def test_an_overflow_inside_the_stream_is_too_long_and_not_tried_again(
    house: House,
) -> None:
    """See llama.cpp #15780."""
    error = {"code": 400, "message": "no", "type": "exceed_context_size_error"}
    house.server.script(raw(ROLE, event({"error": error})))
    assert speech(await house.say()).startswith("This is too long")
    assert len(house.sent) == 1
    assert house.household.status().servers[0].usable


async def test_an_error_inside_the_stream_is_told(house: House) -> None:
    """See llama.cpp #14566."""
    error = event({"error": {"code": 500, "message": "boom", "type": "server_error"}})
    house.server.script(raw(ROLE, text("One,"), text(" two"), error))
    assert speech(await house.say()).startswith("One, two… The answer was cut off")
    assert house.is_at_rest()


async def test_an_answer_without_role_and_with_null_is_an_answer(house: House) -> None:
    house.server.script(raw(chunk({"content": None}), text("yes"), STOP, DONE))
    assert speech(await house.say()) == "yes"


async def test_usage_is_asked_for_and_counted_when_it_does_not_come(
    house: House,
) -> None:
    """See llama.cpp #12102, vLLM #7299."""
    house.server.script(answer("one", " two", usage=False))
    await house.say()
    assert house.sent[0]["stream_options"]["include_usage"] is True
    tokens = house.household.node_status("parent").tokens
    assert (tokens.output, tokens.prompt > 0) == (2, True)


async def test_the_end_of_an_answer_is_never_held_back(house: House) -> None:
    house.server.script(answer("It ends with", " {"))
    assert speech(await house.say()) == "It ends with {"


async def test_an_empty_answer_is_told(house: House) -> None:
    house.server.script(answer())
    result = await house.say()
    assert is_error(result)
    assert speech(result) == "The language model gave no answer. Please try again."


async def test_thinking_that_leaves_no_room_for_an_answer_is_told(
    house: House,
) -> None:
    """See home-assistant/core #180078."""
    house.server.script(answer(Thought("a"), Thought("b"), finish="length"))
    result = await house.say()
    assert is_error(result)
    assert speech(result).startswith("The language model ran out of room")
    assert house.household.node_status("parent").tokens.output == 2
    assert house.contents(result)[-1].content == speech(result)
