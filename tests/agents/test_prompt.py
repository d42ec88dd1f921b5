"""What is sent: a beginning that stays, whole history, roles in turn."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from freezegun.api import FrozenDateTimeFactory
from homeassistant.components.conversation import (
    AssistantContent,
    SystemContent,
    ToolResultContent,
    UserContent,
)
from homeassistant.core import HomeAssistant
from homeassistant.helpers import area_registry as ar, device_registry as dr, llm
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.fair_share.agents.prompt import (
    build,
    note_question,
    split_system,
)
from tests.agents.conftest import LOOK, TURN_ON, House, speech
from tests.fake_server import Call, answer

SYSTEM = SystemContent("Be brief.")


def said(text: str) -> AssistantContent:
    return AssistantContent("agent", text)


def called(*call_ids: str, text: str | None = None) -> AssistantContent:
    calls = [llm.ToolInput("look", {"name": "寝室"}, i) for i in call_ids]
    return AssistantContent("agent", text, tool_calls=calls)


def result(call_id: str) -> ToolResultContent:
    return ToolResultContent("agent", call_id, "look", llm.ToolResult({"a": 1}))


def shape(messages: list[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [(m["role"], m["content"]) for m in messages]


async def test_every_request_repeats_all_that_was_said(house: House) -> None:
    """See home-llm #384."""
    house.server.script(answer("Hi Parent."), answer(Call(LOOK)), answer("Rain."))
    first = await house.say("I am Parent")
    second = await house.say("Weather?", first.conversation_id)
    await house.say("And tomorrow?", second.conversation_id)
    messages = house.sent_messages()
    roles = [m["role"] for m in messages]
    assert roles == [
        *("system", "user", "assistant"),
        *("user", "assistant", "tool", "assistant"),
        "user",
    ]
    texts = [m["content"] for m in messages if m["role"] == "assistant"]
    assert texts == ["Hi Parent.", "", "Rain."]


async def test_every_request_begins_with_the_one_before(
    house: House, freezer: FrozenDateTimeFactory
) -> None:
    house.server.script(answer("One."), answer(Call(LOOK)), answer("Two."))
    first = await house.say("one")
    freezer.tick(61)
    await house.say("two", first.conversation_id)
    for before, after in zip(house.sent, house.sent[1:], strict=False):
        assert after["tools"] == before["tools"]
        assert after["messages"][: len(before["messages"])] == before["messages"]


async def test_the_time_is_told_with_the_question_it_belongs_to(
    house: House, freezer: FrozenDateTimeFactory
) -> None:
    house.hass.config.time_zone = "UTC"
    freezer.move_to("2026-11-01 12:00:00+00:00")
    await house.say("what time is it?")
    system, question = house.sent_messages()
    assert "time" not in system["content"]
    assert question["content"].startswith("(Current time is ")
    assert "Today's date is 2026-11-01.)\n\nwhat time is it?" in question["content"]


async def test_tools_are_sorted_by_name(house: House) -> None:
    await house.say()
    names = [tool["function"]["name"] for tool in house.sent[0]["tools"]]
    assert names == sorted(names)
    assert len(names) == 3


async def test_a_tool_without_a_description_is_sent_without_one(house: House) -> None:
    house.api.tools[TURN_ON].description = None
    await house.say()
    sent = {
        tool["function"]["name"]: tool["function"] for tool in house.sent[0]["tools"]
    }
    assert "description" not in sent[TURN_ON]
    assert "description" in sent[LOOK]


async def test_other_scripts_are_sent_as_they_are(house: House) -> None:
    """See langchain #32222."""
    house.api.tools[TURN_ON].result = {"name": "õhtu, Cheminée, 寝室"}
    house.server.script(answer(Call(TURN_ON, {"name": "寝室"})), answer("Cheminée."))
    answered = await house.say("õhtu")
    assert speech(answered) == "Cheminée."
    *_, question, call, tool = house.sent_messages()
    assert question["content"].endswith("õhtu")
    assert call["tool_calls"][0]["function"]["arguments"] == '{"name": "寝室"}'
    assert "õhtu, Cheminée, 寝室" in tool["content"]


class TestWithHomeAssistantsOwnTools:
    @pytest.fixture
    def agent_data(self) -> dict[str, Any]:
        return {"llm_hass_api": ["assist"]}

    async def test_satellites_in_different_areas_share_the_beginning(
        self, hass: HomeAssistant, house: House
    ) -> None:
        for domain in ("llm", "intent", "light"):
            assert await async_setup_component(hass, domain, {})
        hass.states.async_set("light.lamp", "off", {"friendly_name": "Lamp"})
        entry = MockConfigEntry(domain="test")
        entry.add_to_hass(hass)
        for name in ("Kitchen", "Hall"):
            area = ar.async_get(hass).async_create(name)
            satellite = dr.async_get(hass).async_get_or_create(
                config_entry_id=entry.entry_id, identifiers={("test", name)}
            )
            dr.async_get(hass).async_update_device(satellite.id, area_id=area.id)
            await house.say("light", device_id=satellite.id)
        await house.say("light")
        kitchen, hall, nowhere = house.sent
        systems = {body["messages"][0]["content"] for body in house.sent}
        assert len(systems) == 1
        assert kitchen["tools"] == hall["tools"] == nowhere["tools"]
        question = kitchen["messages"][1]["content"]
        assert question.startswith("(You are in area Kitchen and all generic commands")
        assert question.endswith(")\n\nlight")


def test_a_wording_nobody_knows_stays_in_the_system_prompt() -> None:
    assert split_system("Be brief.\nIt is late.") == ("Be brief.\nIt is late.", "")


def test_an_empty_system_prompt_is_not_sent() -> None:
    prompt = build([SystemContent(""), UserContent("hi")], {})
    assert shape(prompt.messages()) == [("user", "hi")]


def test_questions_nobody_answered_become_one_message() -> None:
    contents = [SYSTEM, UserContent("one"), UserContent("two"), said("Three.")]
    assert shape(build(contents, {}).messages()) == [
        ("system", "Be brief."),
        ("user", "one\n\ntwo"),
        ("assistant", "Three."),
    ]


def test_answers_in_a_row_become_one_message() -> None:
    contents = [SYSTEM, UserContent("one"), said("a"), said("b"), called("x")]
    messages = build([*contents, result("x")], {}).messages()
    assert shape(messages)[1:] == [
        ("user", "one"),
        ("assistant", "a\n\nb"),
        ("tool", '{"data":{"a":1},"error":false}'),
    ]
    assert messages[2]["tool_calls"][0]["id"] == "x"


def test_what_the_house_said_first_is_told_with_the_answer_to_it() -> None:
    contents = [SYSTEM, said("The door is open."), UserContent("close it")]
    prompt = build(contents, {2: "It is late."})
    assert shape(prompt.messages())[1:] == [
        ("user", "(You said: The door is open. It is late.)\n\nclose it")
    ]


def test_a_time_that_home_assistant_wrote_earlier_is_not_repeated() -> None:
    system = "Be brief.\nCurrent time is 10:00:00. Today's date is 2026-01-01.\nYes."
    contents = [SystemContent(system), UserContent("one")]
    notes: dict[int, str] = {}
    note_question(contents, notes, datetime(2026, 1, 1, 11, 30, tzinfo=UTC))
    assert notes == {1: "Current time is 11:30:00. Today's date is 2026-01-01."}
    assert build(contents, notes).system[0]["content"] == "Be brief.\nYes."


def test_a_call_without_a_result_was_interrupted() -> None:
    contents = [SYSTEM, UserContent("look"), called("x", "y"), result("x")]
    messages = build([*contents, UserContent("well?")], {}).messages()
    assert [m["role"] for m in messages] == [
        *("system", "user", "assistant", "tool", "tool", "assistant", "user")
    ]
    assert messages[4]["tool_call_id"] == "y"
    assert "interrupted" in messages[4]["content"]


def test_a_result_without_its_call_is_left_out() -> None:
    contents = [SYSTEM, UserContent("look"), said("no"), result("x")]
    assert len(build(contents, {}).messages()) == 3


def test_turns_can_be_left_out_from_the_oldest_on() -> None:
    contents = [SYSTEM, UserContent("1"), said("a"), UserContent("2"), said("b")]
    prompt = build([*contents, UserContent("3")], {})
    assert len(prompt.turns) == 3
    assert [m["content"] for m in prompt.messages(2)] == ["Be brief.", "3"]
