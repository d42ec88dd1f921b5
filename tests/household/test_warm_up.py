"""Reading ahead how spoken questions begin, before anybody asks one."""

import asyncio
from collections.abc import Mapping
from typing import Any

from homeassistant.components import conversation
from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.fair_share.household.runtime import Household
from tests.common import agent, household_entry, member, server, set_up, until
from tests.fake_server import DROP, FakeServer, answer, failure

from .conftest import Asking, Pass, say

AGENT = "conversation.fair_share"
QUIET_S = 3.0

pytestmark = pytest.mark.usefixtures("fake")


def _ahead(fake: FakeServer) -> list[Mapping[str, Any]]:
    """Return the requests that had something read ahead."""
    chats = [chat.body for chat in fake.chats if chat.body["max_tokens"] == 1]
    return [body for body in chats if body["messages"][-1]["content"] == "."]


async def _home(
    hass: HomeAssistant, *fakes: FakeServer, workload: str = "voice"
) -> MockConfigEntry:
    assert await async_setup_component(hass, "homeassistant", {})
    entry = household_entry(
        *(server(fake.url, subentry_id=f"server{i}") for i, fake in enumerate(fakes)),
        member("parent", user_ids=("user_parent",)),
        agent(workload=workload),
    )
    await set_up(hass, entry)
    return entry


async def _ended(hass: HomeAssistant, fake: FakeServer, count: int) -> None:
    await until(lambda: len(_ahead(fake)) >= count and not fake.running)
    await hass.async_block_till_done(wait_background_tasks=False)


async def test_a_server_that_comes_up_reads_the_opening_of_a_voice_agent(
    hass: HomeAssistant, fake: FakeServer, passes: Pass
) -> None:
    entry = await _home(hass, fake)
    await passes(QUIET_S)
    await _ended(hass, fake, 1)
    (body,) = _ahead(fake)
    assert body["messages"][0]["role"] == "system"
    assert "Be brief." in body["messages"][0]["content"]
    household: Household = entry.runtime_data
    await until(lambda: household.status().running == 0)
    shared = household.node_status("shared")
    assert shared.tokens.prompt == fake.count_prompt(body)


async def test_an_opening_that_is_there_is_not_read_again(
    hass: HomeAssistant, fake: FakeServer, passes: Pass
) -> None:
    await _home(hass, fake)
    await passes(QUIET_S)
    await _ended(hass, fake, 1)
    await passes(2 * QUIET_S)
    await passes(3 * QUIET_S)
    assert len(_ahead(fake)) == 1


async def test_the_opening_of_an_agent_that_is_only_written_to_is_not_read(
    hass: HomeAssistant, fake: FakeServer, passes: Pass
) -> None:
    await _home(hass, fake, workload="chat")
    await passes(QUIET_S)
    assert not _ahead(fake)


async def test_each_of_two_idle_servers_reads_it(
    hass: HomeAssistant, fake: FakeServer, passes: Pass
) -> None:
    async with FakeServer("llama_cpp") as other:
        await _home(hass, fake, other)
        await passes(QUIET_S)
        await _ended(hass, fake, 1)
        await _ended(hass, other, 1)
    assert len(_ahead(fake)) == len(_ahead(other)) == 1


async def test_a_server_that_was_away_reads_it_again(
    hass: HomeAssistant, fake: FakeServer, passes: Pass
) -> None:
    entry = await _home(hass, fake)
    await passes(QUIET_S)
    await _ended(hass, fake, 1)
    await fake.stop()
    watched = entry.runtime_data.servers.get("server0")
    await passes(61)
    await until(lambda: watched.state.value == "unreachable")
    await fake.start()
    await passes(70)
    await until(lambda: watched.state.value == "ready")
    await passes(80)
    await _ended(hass, fake, 2)


async def test_what_a_question_made_the_server_throw_out_is_read_when_it_is_idle(
    hass: HomeAssistant, fake: FakeServer, passes: Pass
) -> None:
    entry = await _home(hass, fake)
    await passes(QUIET_S)
    await _ended(hass, fake, 1)
    # The server holds 4096 tokens; this is more.
    fake.script(answer("ok"), answer("ok"))
    for words in ("long " * 3000, "other " * 3000):
        await say(entry.runtime_data, words)
    await passes(2 * QUIET_S)
    await _ended(hass, fake, 2)


async def test_a_satellite_that_listens_has_it_read_at_once(
    hass: HomeAssistant, fake: FakeServer
) -> None:
    await _home(hass, fake, workload="chat")
    await conversation.async_prepare_agent(hass, AGENT, "en")
    await _ended(hass, fake, 1)


async def test_nothing_is_read_ahead_while_somebody_waits(
    hass: HomeAssistant, fake: FakeServer, asking: Asking
) -> None:
    entry = await _home(hass, fake, workload="chat")
    household: Household = entry.runtime_data
    gate = asyncio.Event()
    fake.script(answer("a", gate), answer("b", gate), answer("c"))
    asked = [asking(household, text) for text in ("one", "two", "three")]
    await until(lambda: household.status().waiting == 1)
    await conversation.async_prepare_agent(hass, AGENT, "en")
    await hass.async_block_till_done(wait_background_tasks=False)
    assert not _ahead(fake)
    gate.set()
    assert sorted(await asyncio.gather(*asked)) == ["a", "b", "c"]


async def test_a_question_stops_what_is_read_ahead(
    hass: HomeAssistant, fake: FakeServer, passes: Pass
) -> None:
    entry = await _home(hass, fake)
    household: Household = entry.runtime_data
    fake.script(answer(asyncio.Event(), "never"), answer("ok"))
    before = len(fake.chats)
    await passes(QUIET_S)
    reading = await fake.wait_chats(before + 1)
    assert await say(household) == "ok"
    await reading.wait_ended()
    assert reading.closed_by_client
    await until(lambda: household.status().running == 0)


@pytest.mark.parametrize(
    "reply",
    [
        failure(400, "exceeds the context", "exceed_context_size_error"),
        answer(DROP),
    ],
)
async def test_what_fails_is_not_tried_for_ever(
    hass: HomeAssistant, fake: FakeServer, passes: Pass, reply: Any
) -> None:
    entry = await _home(hass, fake)
    fake.default = reply
    for number in range(1, 5):
        await passes(number * QUIET_S)
        await until(lambda: bool(_ahead(fake)))
        await until(lambda: entry.runtime_data.status().running == 0)
    assert 1 <= len(_ahead(fake)) <= 3


async def test_a_household_that_is_unloaded_reads_nothing_any_more(
    hass: HomeAssistant, fake: FakeServer, passes: Pass
) -> None:
    entry = await _home(hass, fake)
    assert await hass.config_entries.async_unload(entry.entry_id)
    await passes(QUIET_S)
    assert not _ahead(fake)
