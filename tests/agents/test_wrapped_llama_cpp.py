"""Home Assistant's own llama.cpp agent behind the queue, where its client is there."""

import asyncio

from homeassistant.components import conversation
from homeassistant.components.conversation import ConversationResult
from homeassistant.config_entries import ConfigSubentryData
from homeassistant.core import HomeAssistant
from homeassistant.helpers import entity_registry as er
from homeassistant.helpers.chat_session import async_get_chat_session
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from tests.agents.conftest import TURN_ON, House, speech
from tests.common import subentry, wrapped_agent
from tests.fake_server import Call, answer

pytest.importorskip("openai", reason="the client of Home Assistant's llama.cpp agent")

WRAPPED = "conversation.wrapped"


@pytest.fixture(autouse=True)
async def _wrapped(hass: HomeAssistant, house: House) -> None:
    """The core integration talks to the same server, and its agent is wrapped."""
    agent = ConfigSubentryData(
        data={"chat_model": "fake-model", "llm_hass_api": ["house"]},
        subentry_type="conversation",
        title="Core agent",
        unique_id=None,
    )
    core = MockConfigEntry(
        domain="llama_cpp",
        data={"base_url": f"{house.server.url}/v1", "streaming": True},
        subentries_data=[agent],
    )
    core.add_to_hass(hass)
    assert await hass.config_entries.async_setup(core.entry_id)
    await hass.async_block_till_done()
    known = er.async_get(hass).async_get("conversation.core_agent")
    assert known is not None
    wrapped = subentry(wrapped_agent(known.id))
    hass.config_entries.async_add_subentry(house.entry, wrapped)
    await hass.async_block_till_done()


async def test_it_streams_calls_tools_and_is_charged_to_who_asks(house: House) -> None:
    gate = asyncio.Event()
    house.server.script(
        answer(Call(TURN_ON, {"name": "Küche"})), answer("It", gate, " is", " on", ".")
    )
    deltas: list[str] = []

    async def pipeline() -> ConversationResult:
        with (
            async_get_chat_session(house.hass, "table") as session,
            conversation.async_get_chat_log(
                house.hass,
                session,
                chat_log_delta_listener=lambda _log, delta: deltas.append(
                    delta.get("content") or ""
                ),
            ),
        ):
            return await house.say("hi", session.conversation_id, agent_id=WRAPPED)

    task = house.hass.async_create_task(pipeline())
    await house.until(lambda: "It" in deltas)
    assert house.household.status().running == 1
    gate.set()
    assert speech(await task).startswith("It is on")
    assert house.api.called() == [(TURN_ON, {"name": "Küche"})]
    (record,) = house.household.records()
    assert record.class_id == "parent/direct/chat"
    assert record.server_id == "server"
    assert record.tokens.uncached > record.tokens.output > 0
    assert record.tokens.cached > 0
    assert house.is_at_rest()


async def test_it_and_ours_never_have_more_at_the_server_than_it_has_slots(
    house: House,
) -> None:
    gate = asyncio.Event()
    house.server.default = answer("one", gate)
    tasks = [
        house.hass.async_create_task(house.say(str(number), agent_id=agent_id))
        for number in range(3)
        for agent_id in (WRAPPED, "conversation.fair_share")
    ]
    await house.until(lambda: len(house.household.status().requests) == 6)
    await house.server.wait_chats(house.chats_before + 2)
    assert house.household.status().waiting == 4
    assert house.server.deferred == 0
    gate.set()
    await asyncio.gather(*tasks)
    assert house.server.peak_running == 2
    assert len(house.household.records()) == 6
