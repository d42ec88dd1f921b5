"""Several questions in one conversation at once."""

import asyncio

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
