"""What becomes of the calls that models make, well-formed or not."""

from typing import Any

import pytest

from tests.agents.conftest import BROKEN, LOOK, TURN_ON, House, is_error, speech
from tests.fake_server import DONE, RESET, Call, answer, chunk, raw

LAMP = {"name": "lamp"}
ROLE = chunk({"role": "assistant"})


def fragment(index: int, arguments: str, **head: Any) -> str:
    function = {"arguments": arguments}
    if "name" in head:
        function["name"] = head.pop("name")
    return chunk({"tool_calls": [{"index": index, **head, "function": function}]})


def calls_end() -> str:
    return chunk({}, "tool_calls") + DONE


def tool_messages(house: House) -> list[str]:
    """Return what the model was told of its calls in the latest request."""
    return [m["content"] for m in house.sent_messages() if m["role"] == "tool"]


async def test_a_call_is_made_and_its_result_goes_back_to_the_model(
    house: House,
) -> None:
    house.server.script(answer("Let me see.", Call(TURN_ON, LAMP)), answer("It is on."))
    result = await house.say("turn on the lamp")
    assert speech(result) == "It is on."
    assert house.api.called() == [(TURN_ON, LAMP)]
    assert house.sent_messages()[-2:] == [
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": TURN_ON, "arguments": '{"name": "lamp"}'},
                }
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "call_1",
            "content": '{"data":{"done":true},"error":false}',
        },
    ]
    roles = [content.role for content in house.contents(result)]
    assert roles == ["user", "assistant", "tool_result", "assistant"]


async def test_a_message_that_only_calls_has_an_empty_text(house: House) -> None:
    """See llama.cpp #13471: templates break on a null."""
    house.server.script(answer(Call(TURN_ON, LAMP)), answer("Done."))
    await house.say()
    assert house.sent_messages()[-2]["content"] == ""


async def test_the_later_requests_of_a_turn_keep_its_place(house: House) -> None:
    house.server.script(answer(Call(TURN_ON, LAMP)), answer("Done."))
    await house.say()
    records = house.household.records()
    assert [r.class_id for r in records] == ["parent/direct/chat"] * 2
    assert house.household.node_status("parent").requests == 2


async def test_the_server_is_free_while_a_tool_runs(house: House) -> None:
    running: list[int] = []
    tool = house.api.tools[TURN_ON]
    tool.async_call = _noting(house, running, tool.async_call)
    house.server.script(answer(Call(TURN_ON, LAMP)), answer("Done."))
    await house.say()
    assert running == [0]


def _noting(house: House, running: list[int], call: Any) -> Any:
    async def noting(*args: Any) -> Any:
        running.append(house.household.status().running)
        return await call(*args)

    return noting


async def test_parallel_calls_numbered_alike_are_two(house: House) -> None:
    """See ollama #15457, vercel/ai #14277."""
    house.server.script(
        raw(
            ROLE,
            fragment(0, '{"name": "lamp"}', id="a", name=TURN_ON),
            fragment(0, '{"name": "radio"}', id="b", name=TURN_ON),
            calls_end(),
        ),
        answer("Both."),
    )
    assert speech(await house.say()) == "Both."
    assert house.api.called() == [(TURN_ON, LAMP), (TURN_ON, {"name": "radio"})]


async def test_two_calls_that_want_the_same_both_run(house: House) -> None:
    """See llama_index #22464."""
    house.server.script(
        answer(Call(TURN_ON, LAMP, "a"), Call(TURN_ON, LAMP, "b")), answer("Twice.")
    )
    assert speech(await house.say()) == "Twice."
    assert house.api.called() == [(TURN_ON, LAMP)] * 2
    assert len(tool_messages(house)) == 2


async def test_one_call_sent_twice_runs_once(house: House) -> None:
    head = {"id": "a", "name": TURN_ON}
    house.server.script(
        raw(
            ROLE,
            fragment(0, '{"name": "lamp"}', **head),
            fragment(1, '{"name": "lamp"}', **head),
            calls_end(),
        ),
        answer("Once."),
    )
    assert speech(await house.say()) == "Once."
    assert house.api.called() == [(TURN_ON, LAMP)]


async def test_the_last_piece_of_arguments_in_the_finish_is_not_lost(
    house: House,
) -> None:
    """See vLLM #35705."""
    last = {"tool_calls": [{"index": 0, "function": {"arguments": '"lamp"}'}}]}
    house.server.script(
        raw(
            ROLE,
            fragment(0, '{"name": ', id="a", name=TURN_ON),
            chunk(last, "tool_calls"),
            DONE,
        ),
        answer("On."),
    )
    assert speech(await house.say()) == "On."
    assert house.api.called() == [(TURN_ON, LAMP)]


async def test_a_call_without_arguments_has_none(house: House) -> None:
    """See haystack #9408."""
    house.server.script(
        raw(ROLE, fragment(0, "", id="a", name=LOOK), calls_end()), answer("Looked.")
    )
    assert speech(await house.say()) == "Looked."
    assert house.api.called() == [(LOOK, {})]


async def test_broken_arguments_are_told_to_the_model_which_may_correct_them(
    house: House,
) -> None:
    """See home-llm #364."""
    house.server.script(
        raw(ROLE, fragment(0, '{"name": lamp', id="a", name=TURN_ON), calls_end()),
        answer(Call(TURN_ON, LAMP)),
        answer("It is on."),
    )
    assert speech(await house.say()) == "It is on."
    assert house.api.called() == [(TURN_ON, LAMP)]
    assert "not a valid JSON object" in tool_messages(house)[0]


@pytest.mark.parametrize("arguments", ['{"name": lamp', "[1]", '"lamp"', "nonsense"])
async def test_arguments_that_stay_broken_end_in_an_apology(
    house: House, arguments: str
) -> None:
    broken = raw(ROLE, fragment(0, arguments, id="a", name=TURN_ON), calls_end())
    house.server.script(*[broken] * 5)
    result = await house.say()
    assert speech(result) == "Sorry, I could not work out how to do that."
    assert is_error(result)
    assert len(house.sent) == 3
    assert house.api.called() == []
    assert house.is_at_rest()


@pytest.mark.parametrize("text", ["", "Sure. "])
async def test_a_call_that_is_cut_by_the_limit_is_not_asked_for_again(
    house: House, text: str
) -> None:
    cut = fragment(0, '{"name": "la', id="a", name=TURN_ON)
    house.server.script(
        raw(ROLE, chunk({"content": text}), cut, chunk({}, "length"), DONE)
    )
    result = await house.say()
    assert speech(result).startswith(f"{text}The language model ran out of room")
    assert len(house.sent) == 1


async def test_a_whole_call_at_the_limit_is_made(house: House) -> None:
    house.server.script(answer(Call(TURN_ON, LAMP), finish="length"), answer("On."))
    assert speech(await house.say()) == "On."
    assert house.api.called() == [(TURN_ON, LAMP)]


async def test_a_printed_call_without_an_object_of_arguments_is_reported(
    house: House,
) -> None:
    house.server.script(answer(f'{TURN_ON}("lamp")'), answer("Sorry."))
    assert speech(await house.say()) == "Sorry."
    assert house.api.called() == []


async def test_a_name_without_its_provider_is_understood(house: House) -> None:
    """See home-llm #366."""
    house.server.script(answer(Call("HassTurnOn", LAMP)), answer("It is on."))
    assert speech(await house.say()) == "It is on."
    assert house.api.called() == [(TURN_ON, LAMP)]


@pytest.mark.parametrize("name", ["light.turn_on", "TurnOn", "", "HassTurnOff"])
async def test_an_unknown_tool_is_told_to_the_model(house: House, name: str) -> None:
    """See home-assistant/core #158155."""
    house.server.script(answer(Call(name, LAMP)), answer("I can't do that."))
    assert speech(await house.say()) == "I can't do that."
    assert house.api.called() == []
    assert '"error":true' in tool_messages(house)[0]


async def test_a_good_call_beside_an_unknown_one_is_made(house: House) -> None:
    house.server.script(
        answer(Call("Nothing", {}, "a"), Call(TURN_ON, LAMP, "b")), answer("Partly.")
    )
    assert speech(await house.say()) == "Partly."
    assert house.api.called() == [(TURN_ON, LAMP)]
    assert len(tool_messages(house)) == 2


async def test_a_tool_that_fails_tells_the_model(house: House) -> None:
    house.server.script(answer(Call(BROKEN)), answer("The fuse is blown."))
    assert speech(await house.say()) == "The fuse is blown."
    assert "The fuse is blown" in tool_messages(house)[0]


async def test_nothing_more_to_say_after_a_call_is_success(house: House) -> None:
    """See home-assistant/core #180078."""
    house.server.script(answer(Call(TURN_ON, LAMP)), answer())
    result = await house.say()
    assert speech(result) == "Done"
    assert not is_error(result)


async def test_nothing_to_say_after_a_call_that_failed_is_no_success(
    house: House,
) -> None:
    house.server.script(answer(Call(BROKEN)), answer())
    result = await house.say()
    assert is_error(result)
    assert speech(result) == "The language model gave no answer. Please try again."


async def test_the_same_call_over_and_over_is_stopped(house: House) -> None:
    """See pi #9637."""
    house.server.default = answer(Call(TURN_ON, LAMP))
    result = await house.say()
    assert speech(result).startswith("I stopped, because I kept doing the same")
    assert len(house.sent) == 3
    assert len(house.api.calls) == 2
    assert house.household.node_status("parent").tokens.output == 3
    assert house.is_at_rest()


async def test_ever_new_calls_are_stopped_after_ten_answers(house: House) -> None:
    house.server.script(
        *[answer(Call(LOOK, {"name": str(i)})) for i in range(12)],
    )
    result = await house.say()
    assert speech(result).startswith("I stopped after 10 steps")
    assert len(house.sent) == 10
    assert len(house.api.calls) == 9
    assert house.is_at_rest()


async def test_a_turn_that_fails_after_a_call_stays_in_the_history(
    house: House,
) -> None:
    house.server.script(answer(Call(TURN_ON, LAMP)), answer("The la", RESET))
    result = await house.say("turn on the lamp")
    assert speech(result).startswith("The la… The answer was cut off")
    await house.say("and now?", result.conversation_id)
    roles = [m["role"] for m in house.sent_messages()]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


async def test_a_call_of_an_answer_that_breaks_off_is_not_made(house: House) -> None:
    house.server.script(answer(Call(TURN_ON, LAMP), RESET), answer(Call(LOOK), RESET))
    result = await house.say()
    assert is_error(result)
    assert house.api.called() == []


@pytest.mark.parametrize(
    "printed",
    [
        f'{{"name": "{TURN_ON}", "arguments": {{"name": "lamp"}}}}',
        f'<tool_call>{{"name": "{TURN_ON}", "arguments": {{"name": "lamp"}}}}</tool',
        f'```json\n{{"name": "{TURN_ON}", "parameters": {{"name": "lamp"}}}}\n```',
        f'[TOOL_CALLS][{{"name": "{TURN_ON}", "arguments": {{"name": "lamp"}}}}]',
        f'{TURN_ON}(name="lamp")',
    ],
)
async def test_a_call_printed_as_text_is_made_and_not_spoken(
    house: House, printed: str
) -> None:
    """See home-llm #301, home-assistant/core #142559."""
    pieces = [printed[at : at + 4] for at in range(0, len(printed), 4)]
    house.server.script(answer("Sure. ", *pieces), answer("It is on."))
    result = await house.say()
    assert house.api.called() == [(TURN_ON, LAMP)]
    texts = [getattr(content, "content", None) for content in house.contents(result)]
    assert texts == ["hello", "Sure. ", None, "It is on."]


@pytest.mark.parametrize(
    "printed",
    [
        '{"name": "HassExplode", "arguments": {}}',
        '<tool_call>{"name": "HassTurnOn", "arguments": {}}</tool_call>',
        f'{{"name": "{TURN_ON}", "arguments": {{',
        "<tool_call>something else",
    ],
)
async def test_a_printed_call_that_is_none_of_ours_is_reported_and_not_spoken(
    house: House, printed: str
) -> None:
    house.server.script(answer(*printed), answer("Sorry."))
    result = await house.say()
    assert speech(result) == "Sorry."
    assert house.api.called() == []
    assert "error" in tool_messages(house)[0]
    assert house.contents(result)[1].content is None


async def test_a_model_that_only_prints_unknown_calls_ends_in_an_apology(
    house: House,
) -> None:
    house.server.default = answer('{"name": "HassExplode", "arguments": {}}')
    assert speech(await house.say()) == "Sorry, I could not work out how to do that."
    assert house.is_at_rest()


class TestWithoutTools:
    @pytest.fixture
    def agent_data(self) -> dict[str, Any]:
        return {}

    async def test_no_tools_are_sent(self, house: House) -> None:
        await house.say()
        assert "tools" not in house.sent[0]

    async def test_a_call_although_nothing_is_offered_is_told_to_the_model(
        self, house: House
    ) -> None:
        house.server.script(answer(Call(TURN_ON, LAMP)), answer("I have no tools."))
        assert speech(await house.say()) == "I have no tools."
