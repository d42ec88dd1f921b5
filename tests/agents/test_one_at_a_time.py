"""Several questions in one conversation at once."""

import asyncio
from typing import Any

from homeassistant.components.conversation import async_get_chat_log
from homeassistant.helpers.chat_session import async_get_chat_session

from tests.agents.conftest import TURN_ON, House, speech
from tests.fake_server import Call, answer


async def test_a_second_question_waits_and_knows_the_first_ones_answer(
    house: House,
) -> None:
    """See notebooklm-py #616."""
    gate = asyncio.Event()
    house.server.script(answer(gate, "First."), answer("Second."))
    first = house.hass.async_create_task(house.say("one", "kitchen table"))
    await house.server.wait_chats(house.chats_before + 1)
    second = house.hass.async_create_task(house.say("two", "kitchen table"))
    gate.set()
    results = await asyncio.gather(first, second)
    assert [speech(result) for result in results] == ["First.", "Second."]
    texts = [m["content"].split("\n")[-1] for m in house.sent_messages()[1:]]
    assert texts == ["one", "First.", "two"]


async def test_questions_of_different_conversations_do_not_wait(house: House) -> None:
    gate = asyncio.Event()
    house.server.script(answer(gate, "First."), answer("Second."))
    first = house.hass.async_create_task(house.say("one", "kitchen table"))
    await house.server.wait_chats(house.chats_before + 1)
    assert speech(await house.say("two", "garden")) == "Second."
    gate.set()
    assert speech(await first) == "First."


async def test_a_tool_may_ask_the_agent_in_the_same_conversation(house: House) -> None:
    tool = house.api.tools[TURN_ON]
    call = tool.async_call

    async def asking(*args: object) -> object:
        await house.say("inner", "kitchen table")
        return await call(*args)

    tool.async_call = asking
    house.server.script(answer(Call(TURN_ON)), answer("Inner."), answer("Outer."))
    async with asyncio.timeout(5):
        assert speech(await house.say("outer", "kitchen table")) == "Outer."


async def test_conversations_that_ask_each_other_do_not_wait_for_ever(
    house: House,
) -> None:
    tool = house.api.tools[TURN_ON]
    call = tool.async_call
    next_ones = ["garden", "kitchen table"]

    async def asking(*args: object) -> object:
        await house.say("inner", next_ones.pop(0))
        return await call(*args)

    tool.async_call = asking
    calls = [answer(Call(TURN_ON, {}, f"call_{number}")) for number in range(2)]
    house.server.script(*calls, answer("One."), answer("Two."), answer("Three."))
    async with asyncio.timeout(5):
        assert speech(await house.say("outer", "kitchen table")) == "Three."


async def test_two_conversations_that_each_ask_the_other_do_not_wait_for_ever(
    house: House,
) -> None:
    tool = house.api.tools[TURN_ON]
    call = tool.async_call
    both = asyncio.Barrier(2)

    async def asking(api: object, tool_input: Any, *args: object) -> object:
        await both.wait()
        await house.say("inner", tool_input.tool_args["name"])
        return await call(api, tool_input, *args)

    def reply(body: Any) -> Any:
        said = body["messages"][-1]["content"].split("\n")[-1]
        return {
            "ask garden": answer(Call(TURN_ON, {"name": "garden"})),
            "ask kitchen": answer(Call(TURN_ON, {"name": "kitchen"})),
        }.get(said, answer("Done."))

    tool.async_call = asking
    house.server.default = reply
    async with asyncio.timeout(5):
        results = await asyncio.gather(
            house.say("ask garden", "kitchen"), house.say("ask kitchen", "garden")
        )
    assert [speech(result) for result in results] == ["Done.", "Done."]


async def test_of_two_voice_pipelines_in_one_conversation_no_word_is_lost(
    house: House,
) -> None:
    """A pipeline opens the chat log before it asks the agent."""
    gate = asyncio.Event()
    opened: list[str] = []

    async def pipeline(text: str) -> Any:
        with (
            async_get_chat_session(house.hass, first.conversation_id) as session,
            async_get_chat_log(house.hass, session),
        ):
            opened.append(text)
            return await house.say(text, first.conversation_id)

    first = await house.say("zero")
    house.server.script(answer(gate, "First."), answer("Second."))
    one = house.hass.async_create_task(pipeline("one"))
    await house.server.wait_chats(house.chats_before + 2)
    two = house.hass.async_create_task(pipeline("two"))
    await house.until(lambda: opened == ["one", "two"])
    gate.set()
    results = await asyncio.gather(one, two)
    assert [speech(result) for result in results] == ["First.", "Second."]
    texts = [m["content"].split("\n")[-1] for m in house.sent_messages()[1:]]
    assert texts[-3:] == ["one", "First.", "two"]
    said = [content.content for content in house.contents(results[1])]
    assert said[2:] == ["one", "First.", "two", "Second."]
