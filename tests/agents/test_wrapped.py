"""Agents of other integrations in the queue: in turn, charged, and let go of."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from homeassistant.components import conversation
from homeassistant.components.conversation import ConversationInput, ConversationResult
from homeassistant.core import State
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import entity_registry as er, intent
from homeassistant.helpers.chat_session import async_get_chat_session
import pytest

from custom_components.fair_share.admission.model import Outcome, TokenCount
from tests.agents.conftest import House, is_error, speech
from tests.agents.other_agent import OTHER, OtherAgent, other_integration
from tests.common import subentry, wrapped_agent
from tests.fake_server import DROP, FakeServer, answer

WRAPPED = "conversation.wrapped"


@pytest.fixture
def wrapped_data() -> dict[str, Any]:
    """How the agent is wrapped; tests that want it otherwise have their own."""
    return {}


@pytest.fixture
def other(house: House) -> OtherAgent:
    """The other integration's agent, which asks the same server as the household."""
    return OtherAgent(house.server.url)


@pytest.fixture(autouse=True)
async def known(
    house: House, other: OtherAgent, wrapped_data: dict[str, Any]
) -> AsyncIterator[er.RegistryEntry]:
    """What the registry knows of the other agent, which is wrapped."""
    helper = OtherAgent(house.server.url, "helper")
    async with other_integration(house.hass, other, helper) as known:
        wrapped = subentry(wrapped_agent(known.id, **wrapped_data))
        house.hass.config_entries.async_add_subentry(house.entry, wrapped)
        await house.hass.async_block_till_done()
        yield known


async def ask(
    house: House, text: str = "hello", conversation_id: str | None = None, **more: Any
) -> ConversationResult:
    return await house.say(text, conversation_id, agent_id=WRAPPED, **more)


def state(house: House) -> State:
    state = house.hass.states.get(WRAPPED)
    assert state is not None
    return state


def paid(house: House) -> list[tuple[str, TokenCount, bool]]:
    return [(r.class_id, r.tokens, r.estimated) for r in house.household.records()]


# ---- as before ---------------------------------------------------------------------


async def test_it_answers_as_before(house: House, other: OtherAgent) -> None:
    house.server.script(answer("Good", " morning"))
    result = await ask(house, language="de")
    assert speech(result) == "Good morning"
    (asked,) = other.asked
    assert (asked.text, asked.agent_id, asked.language) == ("hello", OTHER, "de")
    assert asked.context.user_id == "user_parent"
    question, reply = house.contents(result)
    assert (question.content, reply.content) == ("hello", "Good morning")
    assert house.is_at_rest()


async def test_it_can_do_what_the_agent_can(house: House, other: OtherAgent) -> None:
    entity = conversation.async_get_agent(house.hass, WRAPPED)
    assert isinstance(entity, conversation.ConversationEntity)
    assert entity.supported_languages == ["de", "en"]
    assert entity.supports_streaming
    assert state(house).attributes["supported_features"] == 1
    await entity.async_prepare("de")
    assert other.prepared == ["de"]


async def test_its_answer_is_passed_on_while_it_is_written(house: House) -> None:
    gate = asyncio.Event()
    house.server.script(answer("Good", gate, " morning"))
    deltas: list[dict[str, Any]] = []

    async def pipeline() -> ConversationResult:
        with (
            async_get_chat_session(house.hass, "table") as session,
            conversation.async_get_chat_log(
                house.hass,
                session,
                chat_log_delta_listener=lambda _log, delta: deltas.append(delta),
            ),
        ):
            return await ask(house, conversation_id=session.conversation_id)

    task = house.hass.async_create_task(pipeline())
    await house.until(lambda: {"content": "Good"} in deltas)
    assert not task.done()
    gate.set()
    assert speech(await task) == "Good morning"
    assert deltas[-1] == {"content": " morning"}


async def test_it_knows_what_was_said_before(house: House) -> None:
    house.server.script(answer("First."), answer("Second."))
    first = await ask(house, "one")
    await ask(house, "two", first.conversation_id)
    said = [message["content"] for message in house.sent_messages()]
    assert said[1:] == ["one", "First.", "two"]


async def test_two_questions_of_one_conversation_come_after_each_other(
    house: House,
) -> None:
    gate = asyncio.Event()
    house.server.script(answer(gate, "First."), answer("Second."))
    first = house.hass.async_create_task(ask(house, "one", "kitchen table"))
    await house.server.wait_chats(house.chats_before + 1)
    second = house.hass.async_create_task(ask(house, "two", "kitchen table"))
    gate.set()
    results = await asyncio.gather(first, second)
    assert [speech(result) for result in results] == ["First.", "Second."]
    said = [message["content"] for message in house.sent_messages()]
    assert said[1:] == ["one", "First.", "two"]


# ---- in turn, and charged ----------------------------------------------------------


async def test_the_caller_pays_what_the_server_counted(house: House) -> None:
    house.server.script(answer("Good", " morning", cached=2))
    await ask(house)
    prompt = house.server.count_prompt(house.sent[0])
    tokens = TokenCount(prompt - 2, 2, 2)
    assert paid(house) == [("parent/direct/chat", tokens, False)]


async def test_a_satellite_is_charged_to_its_own(house: House) -> None:
    await ask(house, user_id=None, device_id="d_kitchen", satellite_id="a.b")
    assert [class_id for class_id, _, _ in paid(house)] == ["kitchen/voice"]


async def test_two_callers_at_once_pay_each_for_their_own(house: House) -> None:
    gate = asyncio.Event()
    house.server.default = lambda body: answer(
        gate, *["word"] * int(body["messages"][-1]["content"])
    )
    tasks = [
        house.hass.async_create_task(ask(house, "3", user_id="user_parent")),
        house.hass.async_create_task(ask(house, "5", user_id=None)),
    ]
    await house.server.wait_chats(house.chats_before + 2)
    gate.set()
    await asyncio.gather(*tasks)
    assert sorted((who, tokens.output) for who, tokens, _ in paid(house)) == [
        ("guest/direct/chat", 5),
        ("parent/direct/chat", 3),
    ]


async def test_what_nobody_counts_is_estimated(house: House, other: OtherAgent) -> None:
    other.tells = False
    house.server.script(answer("one", " two", " three"))
    await ask(house, "a question of some length, to be sure")
    ((_, tokens, estimated),) = paid(house)
    assert estimated
    assert 10 < tokens.uncached < 200
    assert 1 < tokens.output < 20


async def test_it_waits_until_its_server_has_a_slot(house: House) -> None:
    gate = asyncio.Event()
    house.server.default = answer("one", gate)
    talks = [house.hass.async_create_task(house.say()) for _ in range(2)]
    await house.server.wait_chats(house.chats_before + 2)
    task = house.hass.async_create_task(ask(house))
    await house.until(lambda: house.household.status().waiting == 1)
    assert len(house.sent) == 2
    gate.set()
    await asyncio.gather(*talks, task)
    assert house.server.peak_running == 2


async def test_ours_wait_while_it_has_the_slots(house: House) -> None:
    gate = asyncio.Event()
    house.server.default = answer("one", gate)
    tasks = [house.hass.async_create_task(ask(house)) for _ in range(2)]
    await house.server.wait_chats(house.chats_before + 2)
    talk = house.hass.async_create_task(house.say())
    await house.until(lambda: house.household.status().waiting == 1)
    assert house.server.deferred == 0
    gate.set()
    await asyncio.gather(*tasks, talk)
    assert house.server.peak_running == 2


class TestElsewhere:
    """It uses none of the household's servers."""

    @pytest.fixture(params=["outside", "a_server_that_was_removed"])
    def wrapped_data(self, request: pytest.FixtureRequest) -> dict[str, Any]:
        return {"server": request.param}

    async def test_it_waits_for_no_slot_and_is_charged(self, house: House) -> None:
        house.server.slots = 9
        gate = asyncio.Event()
        house.server.script(answer("one", gate), answer("two"))
        talk = house.hass.async_create_task(house.say())
        await house.server.wait_chats(house.chats_before + 1)
        assert speech(await ask(house, user_id=None)) == "two"
        (record,) = house.household.records()
        assert (record.class_id, record.server_id) == ("guest/direct/chat", "outside")
        assert record.tokens.output == 1
        gate.set()
        await talk


class TestOverQuota:
    @pytest.fixture
    def member_data(self) -> dict[str, Any]:
        return {"quota_tokens": 20}

    async def test_a_used_up_quota_is_told_before_it_is_asked(
        self, house: House, other: OtherAgent
    ) -> None:
        house.server.default = answer(*["word"] * 30)
        assert not is_error(await ask(house))
        result = await ask(house)
        assert is_error(result)
        assert "quota" in speech(result)
        assert len(other.asked) == 1


# ---- whatever happens --------------------------------------------------------------


async def test_a_turn_that_is_called_off_gives_the_slot_back(house: House) -> None:
    house.server.script(answer("One", " two", asyncio.Event()))
    written = asyncio.Event()

    async def pipeline() -> ConversationResult:
        with (
            async_get_chat_session(house.hass, "table") as session,
            conversation.async_get_chat_log(
                house.hass,
                session,
                chat_log_delta_listener=lambda _log, delta: (
                    written.set() if delta.get("content") == " two" else None
                ),
            ),
        ):
            return await ask(house, conversation_id=session.conversation_id)

    task = house.hass.async_create_task(pipeline())
    chat = await house.server.wait_chats(house.chats_before + 1)
    await chat.wait_started()
    await written.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await house.until(house.is_at_rest)
    (record,) = house.household.records()
    assert record.outcome is Outcome.CANCELLED
    assert record.estimated
    assert record.tokens.uncached > 0
    assert record.tokens.output > 0


async def test_a_request_that_somebody_cancels_is_told(house: House) -> None:
    house.server.script(answer("One", asyncio.Event()))
    task = house.hass.async_create_task(ask(house))
    chat = await house.server.wait_chats(house.chats_before + 1)
    await chat.wait_started()
    (request,) = house.household.status().requests
    house.household.queue.cancel(request.request_id)
    result = await task
    assert is_error(result)
    assert speech(result) == "This request was cancelled."
    await house.until(house.is_at_rest)


async def test_an_agent_that_fails_gives_the_slot_back(house: House) -> None:
    house.server.script(answer("One", DROP))
    with pytest.raises(Exception, match="payload"):
        await ask(house)
    assert house.is_at_rest()
    assert house.household.records()[-1].outcome is Outcome.FAILED


async def test_what_the_agent_says_of_its_failure_is_said(
    house: House, other: OtherAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise HomeAssistantError("My service is down")

    monkeypatch.setattr(other, "_async_handle_message", fail)
    result = await ask(house)
    assert is_error(result)
    assert speech(result) == "My service is down"
    assert house.is_at_rest()
    assert house.household.records()[-1].charge == 0


async def test_an_agent_that_keeps_its_own_history_is_charged_by_its_words(
    house: House, other: OtherAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def process(user_input: ConversationInput) -> ConversationResult:
        response = intent.IntentResponse(language="en")
        response.async_set_speech("four words it says")
        return ConversationResult(response, user_input.conversation_id)

    monkeypatch.setattr(other, "async_process", process)
    assert speech(await ask(house)) == "four words it says"
    ((_, tokens, estimated),) = paid(house)
    assert estimated
    assert tokens.uncached > 0
    assert tokens.output > 3


async def test_an_agent_that_is_gone_is_told_and_holds_no_slot(
    house: House, known: er.RegistryEntry
) -> None:
    er.async_get(house.hass).async_remove(known.entity_id)
    await house.hass.async_block_till_done()
    assert state(house).state == "unavailable"
    result = await ask(house)
    assert is_error(result)
    assert "not available right now" in speech(result)
    assert house.household.records() == ()


async def test_an_agent_that_is_away_is_told_and_comes_back(house: House) -> None:
    entries = house.hass.config_entries
    assert await entries.async_unload("other_entry")
    await house.hass.async_block_till_done()
    assert state(house).state == "unavailable"
    assert "not available right now" in speech(await ask(house))
    assert await entries.async_setup("other_entry")
    await house.hass.async_block_till_done()
    assert state(house).state != "unavailable"
    assert not is_error(await ask(house))


async def test_an_agent_that_goes_while_others_wait_for_it_is_told(
    house: House, known: er.RegistryEntry
) -> None:
    gate = asyncio.Event()
    house.server.default = answer("one", gate)
    talks = [house.hass.async_create_task(house.say()) for _ in range(2)]
    await house.server.wait_chats(house.chats_before + 2)
    task = house.hass.async_create_task(ask(house))
    await house.until(lambda: house.household.status().waiting == 1)
    er.async_get(house.hass).async_remove(known.entity_id)
    gate.set()
    await asyncio.gather(*talks)
    assert "not available right now" in speech(await task)
    await house.until(house.is_at_rest)


async def test_an_agent_with_a_new_name_goes_on(
    house: House, other: OtherAgent, known: er.RegistryEntry
) -> None:
    registry = er.async_get(house.hass)
    registry.async_update_entity(known.entity_id, new_entity_id="conversation.new")
    await house.hass.async_block_till_done()
    assert state(house).state != "unavailable"
    assert not is_error(await ask(house))
    assert other.asked[-1].agent_id == "conversation.new"


async def test_an_agent_that_asks_itself_is_stopped(
    house: House, other: OtherAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def process(_: ConversationInput) -> ConversationResult:
        return await house.say("again", "elsewhere", agent_id=WRAPPED)

    monkeypatch.setattr(other, "async_process", process)
    async with asyncio.timeout(5):
        result = await ask(house)
    assert is_error(result)
    assert "asking itself" in speech(result)
    assert house.is_at_rest()


async def test_an_agent_may_ask_another_one_in_the_same_conversation(
    house: House, other: OtherAgent
) -> None:
    """Each is charged for its own answer, and to the same caller."""
    known = er.async_get(house.hass).async_get("conversation.helper")
    assert known is not None
    second = subentry(wrapped_agent(known.id, "second") | {"title": "Second"})
    house.hass.config_entries.async_add_subentry(house.entry, second)
    await house.hass.async_block_till_done()
    other.first = lambda: house.say("in", "table", agent_id="conversation.second")
    house.server.script(answer("In", "ner"), answer("Out", "er", "."))
    assert speech(await ask(house, "out", "table")) == "Outer."
    outputs = [(who, tokens.output) for who, tokens, _ in paid(house)]
    assert outputs == [("parent/direct/chat", 2), ("parent/direct/chat", 3)]


class TestOneSlot:
    """There is one server, which writes one answer at a time."""

    @pytest.fixture
    async def llama(self) -> AsyncIterator[FakeServer]:
        async with FakeServer("llama_cpp", slots=1, context_tokens=4096) as fake:
            yield fake

    @pytest.mark.parametrize(
        "agent_id", ["conversation.fair_share", "conversation.second"]
    )
    async def test_what_it_asks_meanwhile_does_not_wait_for_ever(
        self, house: House, other: OtherAgent, agent_id: str
    ) -> None:
        known = er.async_get(house.hass).async_get("conversation.helper")
        assert known is not None
        second = subentry(wrapped_agent(known.id, "second") | {"title": "Second"})
        house.hass.config_entries.async_add_subentry(house.entry, second)
        await house.hass.async_block_till_done()
        heard: list[str] = []

        async def ask_another() -> None:
            heard.append(speech(await house.say("in", "elsewhere", agent_id=agent_id)))

        other.first = ask_another
        async with asyncio.timeout(5):
            assert not is_error(await ask(house, "out"))
        assert "keeps the language model busy" in heard[0]
        other.first = None
        assert not is_error(await house.say("in", agent_id=agent_id))


async def test_another_urgency_holds_from_the_next_question_on(house: House) -> None:
    wrapped = house.entry.subentries["wrapped"]
    house.hass.config_entries.async_update_subentry(
        house.entry, wrapped, data={**wrapped.data, "workload": "task"}
    )
    await house.hass.async_block_till_done()
    await ask(house)
    assert [class_id for class_id, _, _ in paid(house)] == ["parent/direct/task"]
