"""Turns that are called off: by the stop button, or by the wake word."""

import asyncio
import random
from typing import Any

from homeassistant.components.conversation import ConversationResult
import pytest

from tests.agents.conftest import TURN_ON, House, is_error, speech
from tests.fake_server import RESET, Call, answer, failure


def begin(house: House, text: str = "hello") -> asyncio.Task[ConversationResult]:
    return house.hass.async_create_task(house.say(text))


async def cancel(task: asyncio.Task[ConversationResult]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.fixture
def unhandled(house: House) -> list[dict[str, Any]]:
    """What the loop complains of: exceptions that nobody retrieved."""
    complaints: list[dict[str, Any]] = []
    house.hass.loop.set_exception_handler(lambda _loop, told: complaints.append(told))
    return complaints


async def test_a_turn_called_off_while_it_answers_lets_go_of_the_server(
    house: House, unhandled: list[dict[str, Any]]
) -> None:
    """See home-assistant/core #125687."""
    gate = asyncio.Event()
    house.server.script(answer("One,", " two", gate, " three"))
    task = begin(house)
    chat = await house.server.wait_chats(house.chats_before + 1)
    await chat.wait_started()
    parent = house.household.node_status
    await house.until(lambda: parent("parent").tokens.output == 2)
    await cancel(task)
    await chat.wait_ended()
    assert chat.closed_by_client
    assert house.is_at_rest()
    assert house.household.node_status("parent").tokens.output == 2
    await house.hass.async_block_till_done()
    assert unhandled == []


async def test_a_turn_called_off_before_the_first_token_lets_go_of_the_server(
    house: House,
) -> None:
    """See llama.cpp #24496."""
    house.server.script(answer(asyncio.Event(), "never"))
    task = begin(house)
    chat = await house.server.wait_chats(house.chats_before + 1)
    await chat.wait_started()
    await cancel(task)
    await chat.wait_ended()
    assert chat.closed_by_client
    assert house.is_at_rest()


async def test_a_turn_called_off_while_it_waits_never_reaches_the_server(
    house: House,
) -> None:
    """See llama.cpp #13262."""
    gate = asyncio.Event()
    house.server.default = answer(gate, "ok")
    running = [begin(house), begin(house)]
    await house.server.wait_chats(house.chats_before + 2)
    waiting = begin(house, "never mind")
    await house.until(lambda: house.household.status().waiting == 1)
    await cancel(waiting)
    assert house.household.status().waiting == 0
    gate.set()
    results = await asyncio.gather(*running)
    assert [speech(result) for result in results] == ["ok", "ok"]
    assert len(house.sent) == 2


async def test_a_turn_called_off_while_a_tool_runs_leaves_nothing_behind(
    house: House, unhandled: list[dict[str, Any]]
) -> None:
    started = asyncio.Event()

    async def never(*_: Any) -> Any:
        started.set()
        await asyncio.Event().wait()

    house.api.tools[TURN_ON].async_call = never
    house.server.script(answer(Call(TURN_ON)))
    task = begin(house)
    async with asyncio.timeout(5):
        await started.wait()
    await cancel(task)
    await house.hass.async_block_till_done()
    assert house.is_at_rest()
    assert unhandled == []


async def test_after_many_turns_that_ended_badly_nothing_is_left(
    house: House, unhandled: list[dict[str, Any]]
) -> None:
    """See LiteLLM #27955."""
    chance = random.Random(1)
    replies = [
        lambda: answer("a", "b", asyncio.Event(), "c"),
        lambda: answer(asyncio.Event()),
        lambda: answer("a", RESET),
        lambda: failure(400, "no"),
        lambda: answer(Call(TURN_ON)),
    ]
    house.server.default = lambda _body: chance.choice(replies)()
    for _ in range(25):
        tasks = [begin(house), begin(house), begin(house)]
        await asyncio.wait(tasks, timeout=chance.choice([0.01, 0.03, 0.06]))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert house.household.status().running == 0
        assert house.household.status().waiting == 0
    house.server.default = answer("fine")
    result = await house.say()
    assert (speech(result), is_error(result)) == ("fine", False)
    assert unhandled == []
