"""The conversation entity: what Home Assistant sees of an agent."""

import logging
from pathlib import Path
from typing import Any

from homeassistant.components import conversation
from homeassistant.components.conversation import Attachment, trace
from homeassistant.components.conversation.chat_log import UserContent
from homeassistant.core import HomeAssistant
from homeassistant.helpers import device_registry as dr
from homeassistant.helpers.chat_session import ChatSession
import pytest

from tests.agents.conftest import AGENT, API, LOOK, House, is_error, speech
from tests.common import agent, subentry
from tests.fake_server import Call, answer


def features(house: House, agent_id: str = AGENT) -> int:
    state = house.hass.states.get(agent_id)
    assert state is not None
    number = state.attributes["supported_features"]
    assert isinstance(number, int)
    return number


async def test_an_agent_answers_in_any_language_and_streams(house: House) -> None:
    """See hass-agent-llm #1."""
    entity = conversation.async_get_agent(house.hass, AGENT)
    assert isinstance(entity, conversation.ConversationEntity)
    assert entity.supported_languages == "*"
    assert entity.supports_streaming


async def test_an_agent_has_a_device_of_its_own(house: House) -> None:
    device = dr.async_get(house.hass).async_get_device_by_identifier(
        ("fair_share", "agent"), house.entry.entry_id
    )
    assert device is not None
    assert (device.name, device.entry_type) == ("Fair Share", "service")
    assert device.via_device_id is not None


async def test_only_an_agent_with_tools_controls_the_house(house: House) -> None:
    control = conversation.ConversationEntityFeature.CONTROL
    assert features(house) == control
    house.hass.config_entries.async_update_subentry(
        house.entry, house.entry.subentries["agent"], data={"prompt": "Be long."}
    )
    await house.hass.async_block_till_done()
    assert features(house) == 0
    await house.say()
    assert house.sent_messages()[0]["content"] == "Be long."


async def test_an_agent_that_is_added_answers_at_once(house: House) -> None:
    new = subentry(agent("second", prompt="Be funny.") | {"title": "Clown"})
    house.hass.config_entries.async_add_subentry(house.entry, new)
    await house.hass.async_block_till_done()
    assert speech(await house.say(agent_id="conversation.clown"))
    assert house.sent_messages()[0]["content"] == "Be funny."


async def test_an_agent_that_is_removed_is_gone(house: House) -> None:
    house.hass.config_entries.async_remove_subentry(house.entry, "agent")
    await house.hass.async_block_till_done()
    assert house.hass.states.get(AGENT) is None


async def test_an_agent_is_renamed_with_its_subentry(house: House) -> None:
    house.hass.config_entries.async_update_subentry(
        house.entry, house.entry.subentries["agent"], title="Butler"
    )
    await house.hass.async_block_till_done()
    device = dr.async_get(house.hass).async_get_device_by_identifier(
        ("fair_share", "agent"), house.entry.entry_id
    )
    assert device is not None
    assert device.name == "Butler"


async def test_the_household_unloads_with_its_agents(house: House) -> None:
    assert await house.hass.config_entries.async_unload(house.entry.entry_id)
    state = house.hass.states.get(AGENT)
    assert state is not None
    assert state.state == "unavailable"


async def test_what_speaks_through_a_satellite_is_charged_to_its_owner_as_voice(
    house: House,
) -> None:
    await house.say(user_id=None, device_id="d_kitchen")
    assert [r.class_id for r in house.household.records()] == ["kitchen/voice"]


async def test_what_nobody_knows_is_a_guests(house: House) -> None:
    await house.say(user_id=None)
    (record,) = house.household.records()
    assert record.class_id == "guest/direct/chat"


async def test_the_trace_tells_the_tokens(house: House) -> None:
    house.server.script(answer("one", " two", cached=3))
    await house.say()
    (latest,) = trace.async_get_traces()[-1:]
    details = [event["data"] for event in latest.as_dict()["events"]]
    (stats,) = [data["stats"] for data in details if data and "stats" in data]
    prompt = house.server.count_prompt(house.sent[0])
    assert stats == {
        "input_tokens": prompt,
        "cached_input_tokens": 3,
        "output_tokens": 2,
    }


async def test_tools_that_are_gone_are_told(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.hass.config_entries.async_update_subentry(
        house.entry, house.entry.subentries["agent"], data={"llm_hass_api": ["gone"]}
    )
    await house.hass.async_block_till_done()
    result = await house.say()
    assert is_error(result)
    assert house.sent == []


TORN = "a\ud800b"
"""With half a character in it."""
TORN_TEMPLATE = r'Be {{ "a\ud800b" }}.'


async def test_half_a_character_in_what_is_said_is_replaced(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    first = await house.say("hello")
    result = await house.say(TORN, first.conversation_id)
    assert speech(result) == "Hello from the fake"
    assert house.sent_messages()[-1]["content"].endswith("a\ufffdb")
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR or r.exc_info]


async def test_half_a_character_in_a_prompt_is_replaced(house: House) -> None:
    data = dict(house.entry.subentries["agent"].data) | {"prompt": TORN_TEMPLATE}
    house.hass.config_entries.async_update_subentry(
        house.entry, house.entry.subentries["agent"], data=data
    )
    await house.hass.async_block_till_done()
    result = await house.say("hello", extra_system_prompt=f"Now {TORN}")
    assert speech(result) == "Hello from the fake"
    assert house.sent_messages()[0]["content"].count("a\ufffdb") == 2


async def test_half_a_character_in_the_result_of_a_tool_is_replaced(
    house: House,
) -> None:
    house.api.tools[LOOK].result = {"seen": [TORN], TORN: 1}
    house.server.script(answer(Call(LOOK)), answer("Seen."))
    assert speech(await house.say("look")) == "Seen."
    assert house.sent_messages()[-1]["content"].count("a\ufffdb") == 2


async def test_an_agent_with_tools_that_asks_hears_the_answer(house: House) -> None:
    house.server.script(answer("Which lamp?"))
    assert (await house.say("on")).continue_conversation


class TestWithoutTools:
    @pytest.fixture
    def agent_data(self) -> dict[str, Any]:
        return {}

    async def test_the_sentence_after_a_question_may_be_a_command_to_the_house(
        self, house: House
    ) -> None:
        house.server.script(answer("How are you?"))
        result = await house.say("hello")
        assert speech(result) == "How are you?"
        assert not result.continue_conversation


class TestWithSettings:
    @pytest.fixture
    def agent_data(self) -> dict[str, Any]:
        return {
            "llm_hass_api": [API],
            "output_tokens": 100.0,
            "temperature": 0.5,
            "model": "another-model",
            "workload": "task",
        }

    @pytest.fixture
    def member_data(self) -> dict[str, Any]:
        return {"output_tokens": 40}

    async def test_settings_and_limits_go_to_the_server(self, house: House) -> None:
        await house.say()
        (body,) = house.sent
        assert body["max_tokens"] == 40
        assert body["temperature"] == 0.5
        assert body["model"] == "another-model"
        assert house.household.records()[0].class_id == "parent/direct/task"


class TestPictures:
    async def _show(
        self, house: House, path: Path, mime_type: str = "image/png"
    ) -> conversation.ConversationResult:
        picture = Attachment("media-source://a", mime_type, path)
        session = ChatSession("table")
        with conversation.async_get_chat_log(house.hass, session) as chat_log:
            chat_log.async_add_user_content(UserContent("what is this?", [picture]))
            return await house.say("what is this?", "table")

    async def test_a_server_that_sees_gets_them(
        self, hass: HomeAssistant, house: House, tmp_path: Path
    ) -> None:
        house.server.vision = True
        assert await hass.config_entries.async_reload(house.entry.entry_id)
        path = tmp_path / "a.png"
        path.write_bytes(b"png")
        assert not is_error(await self._show(house, path))
        text, image = house.sent_messages()[-1]["content"]
        assert text["text"].endswith("what is this?")
        assert image["image_url"]["url"] == "data:image/png;base64,cG5n"

    async def test_a_server_that_does_not_see_is_told_before_anything_is_sent(
        self, house: House, tmp_path: Path
    ) -> None:
        """See home-assistant/core #180168."""
        result = await self._show(house, tmp_path / "a.png")
        assert speech(result) == "The language model cannot look at images."
        assert house.sent == []

    @pytest.mark.parametrize(
        ("name", "mime_type", "sentence"),
        [
            (
                "a.pdf",
                "application/pdf",
                "I can only look at images and listen to sound (WAV or MP3).",
            ),
            ("gone.png", "image/png", "The attached file could not be read."),
        ],
    )
    async def test_what_is_no_picture_or_gone_is_told(
        self,
        hass: HomeAssistant,
        house: House,
        tmp_path: Path,
        name: str,
        mime_type: str,
        sentence: str,
    ) -> None:
        house.server.vision = True
        assert await hass.config_entries.async_reload(house.entry.entry_id)
        result = await self._show(house, tmp_path / name, mime_type)
        assert speech(result) == sentence
