"""AI tasks: text, data of a given structure, pictures, tools, and who pays for them."""

import asyncio
import json
from pathlib import Path
import re
from typing import Any

from homeassistant.components import ai_task as core
from homeassistant.components.ai_task.const import DATA_COMPONENT
from homeassistant.components.conversation import Attachment
from homeassistant.core import Context
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import device_registry as dr, entity_registry as er
from homeassistant.helpers.chat_session import async_get_chat_session
from homeassistant.setup import async_setup_component
from homeassistant.util.yaml import parse_yaml
import probatio
import pytest
from pytest_homeassistant_custom_component.common import (
    MockUser,
    async_capture_events,
)

from tests.agents.conftest import LOOK, House
from tests.common import ai_task, member, subentry
from tests.fake_server import DROP, Call, Thought, answer, failure

TASKS = "ai_task.tasks"
PAGE = Path(__file__).parents[2] / "docs" / "ai-tasks.md"
MOOD = {
    "mood": {"selector": {"text": {}}, "required": True, "description": "Ein Wort für"},
    "score": {"selector": {"number": {"min": 0, "max": 10}}},
    "when": {"selector": {"datetime": {}}},
    "tags": {"selector": {"select": {"options": ["a", "b"], "multiple": True}}},
}


@pytest.fixture
def task_data() -> dict[str, Any]:
    """How the entity is set up; tests that want it otherwise have their own."""
    return {}


@pytest.fixture(autouse=True)
async def _tasks(house: House, task_data: dict[str, Any]) -> None:
    """Parent's house has an AI task entity, and Child is a member too."""
    MockUser(id="user_child", name="Child").add_to_hass(house.hass)
    child = member("child", user_ids=("user_child",))
    for part in (child, ai_task(**task_data)):
        house.hass.config_entries.async_add_subentry(house.entry, subentry(part))
    await house.hass.async_block_till_done()


async def generate(
    house: House,
    instructions: str = "two words",
    *,
    user_id: str | None = "user_parent",
    context: Context | None = None,
    **data: Any,
) -> Any:
    """Call the action and return the data, which has to be plain JSON."""
    response = await house.hass.services.async_call(
        "ai_task",
        "generate_data",
        {
            "task_name": "a task",
            "entity_id": TASKS,
            "instructions": instructions,
            **data,
        },
        blocking=True,
        return_response=True,
        context=context or Context(user_id=user_id),
    )
    return json.loads(json.dumps(response, allow_nan=False))["data"]


def classes(house: House) -> list[str]:
    """Return who was charged for each request so far."""
    return [record.class_id for record in house.household.records()]


# ---- text --------------------------------------------------------------------------


async def test_a_task_is_answered_with_text(house: House) -> None:
    house.server.script(answer("Grüße", " und", " mehr"))
    assert await generate(house, "Schreibe Grüße") == "Grüße und mehr"
    system, user = house.sent_messages()
    assert system["content"].endswith("Be brief.")
    assert user["content"].endswith("Schreibe Grüße")
    assert house.sent[0]["max_tokens"] == 64
    assert "response_format" not in house.sent[0]
    assert "Grüße".encode() in house.server.chats[-1].raw
    assert house.is_at_rest()


async def test_an_entity_has_a_device_and_says_what_it_can(house: House) -> None:
    state = house.hass.states.get(TASKS)
    assert state is not None
    features = core.AITaskEntityFeature(state.attributes["supported_features"])
    assert features == (
        core.AITaskEntityFeature.GENERATE_DATA
        | core.AITaskEntityFeature.SUPPORT_ATTACHMENTS
    )
    device = dr.async_get(house.hass).async_get_device_by_identifier(
        ("fair_share", "task"), house.entry.entry_id
    )
    assert device is not None
    assert device.name == "Tasks"


async def test_a_change_holds_for_the_next_task_and_a_removal_at_once(
    house: House,
) -> None:
    entries, entry = house.hass.config_entries, house.entry
    entries.async_update_subentry(
        entry, entry.subentries["task"], data={"prompt": "Be long."}
    )
    await house.hass.async_block_till_done()
    await generate(house)
    assert house.sent_messages()[0]["content"].endswith("Be long.")
    entries.async_remove_subentry(entry, "task")
    await house.hass.async_block_till_done()
    assert er.async_get(house.hass).async_get(TASKS) is None


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (answer(Thought("hm")), "gave no answer"),
        (answer(*[Thought("hm")] * 99), "ran out of room"),
        (answer("Half", DROP), "connection to the language model broke"),
        (failure(400, "nonsense", "invalid_request_error"), "refused this request"),
    ],
)
async def test_what_goes_wrong_is_told_in_a_sentence(
    house: House, said: Any, told: str
) -> None:
    house.server.default = said
    with pytest.raises(HomeAssistantError, match=told):
        await generate(house)
    assert house.is_at_rest()


async def test_a_task_that_is_called_off_lets_go_of_the_server(house: House) -> None:
    house.server.script(answer("One", asyncio.Event(), " two"))
    task = house.hass.async_create_task(generate(house))
    chat = await house.server.wait_chats(house.chats_before + 1)
    await chat.wait_started()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await chat.wait_ended()
    assert chat.closed_by_client
    await house.until(lambda: house.household.status().running == 0)


# ---- data --------------------------------------------------------------------------


async def test_a_task_is_answered_with_data(house: House) -> None:
    house.server.script(answer('{"mood": "schön",', ' "score": 7}'))
    data = await generate(house, structure=MOOD)
    assert data == {"mood": "schön", "score": 7}
    system = house.sent_messages()[0]["content"]
    assert "Be brief." in system
    assert '"maximum": 10' in system
    assert "Ein Wort für" in system


async def test_a_server_is_held_only_to_what_every_grammar_can_say(
    house: House,
) -> None:
    house.server.script(answer('{"mood": "good"}'))
    await generate(house, structure=MOOD)
    assert house.sent[0]["response_format"]["json_schema"]["schema"] == {
        "type": "object",
        "required": ["mood"],
        "properties": {
            "mood": {"type": "string", "description": "Ein Wort für"},
            "score": {"type": "number"},
            "when": {"type": "string"},
            "tags": {
                "type": "array",
                "items": {"type": "string", "enum": ["a", "b"]},
            },
        },
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("good", "not valid JSON"),
        ("[1]", "not a JSON object"),
        ('{"score": 7}', "does not follow the schema"),
        ('{"mood": null}', "does not follow the schema"),
        ('{"mood": "good", "score": 70}', "does not follow the schema"),
        ('{"mood": "good", "score": NaN}', "not valid JSON"),
        ('{"mood": "good", "score": 1e999}', "not valid JSON"),
        ('{"mood": "good", "when": "soon"}', "does not follow the schema"),
        ('{"mood": "good", "tags": ["c"]}', "does not follow the schema"),
        ('{"mood": "good", "colour": "blue"}', "does not follow the schema"),
        ("[" * 5000, "not valid JSON"),
    ],
)
async def test_a_server_that_ignores_the_structure_is_told_once_what_was_wrong(
    house: House, wrong: str, told: str
) -> None:
    house.server.script(answer(wrong), answer('{"mood": "good"}'))
    assert await generate(house, structure=MOOD) == {"mood": "good"}
    roles = [message["role"] for message in house.sent_messages()]
    assert roles == ["system", "user", "assistant", "user"]
    assert house.sent_messages()[2]["content"] == wrong
    assert told in house.sent_messages()[3]["content"]
    assert len(house.sent) == 2


async def test_a_model_that_cannot_is_an_error_and_no_half_valid_data(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.server.default = answer('{"mood": "secret", "score": 70}')
    with pytest.raises(HomeAssistantError) as failed:
        await generate(house, structure=MOOD)
    assert failed.value.translation_key == "not_structured"
    assert "secret" not in str(failed.value)
    assert len(house.sent) == 2
    assert classes(house) == ["parent/direct/background"] * 2
    assert "secret" not in [r.message for r in caplog.records if r.levelno > 10]


async def test_what_may_be_left_out_may_be_null(house: House) -> None:
    house.server.script(answer('{"mood": "good", "score": null, "when": null}'))
    assert await generate(house, structure=MOOD) == {"mood": "good"}
    assert len(house.sent) == 1


async def test_halves_of_characters_in_data_are_replaced(house: House) -> None:
    house.server.script(answer('{"mood": "\\ud83d"}'))
    assert await generate(house, structure=MOOD) == {
        "mood": "\N{REPLACEMENT CHARACTER}"
    }


async def test_data_that_was_cut_off_is_not_asked_for_again(house: House) -> None:
    house.server.default = answer('{"mood": "', *["very "] * 99)
    with pytest.raises(HomeAssistantError, match="ran out of room"):
        await generate(house, structure=MOOD)
    assert len(house.sent) == 1


async def test_a_server_that_cannot_be_held_to_a_structure_is_only_asked_for_it(
    house: House,
) -> None:
    house.server.refuse = {"response_format"}
    house.server.default = answer('{"mood": "good"}')
    assert await generate(house, structure=MOOD) == {"mood": "good"}
    assert "response_format" not in house.sent[-1]
    assert "JSON schema" in house.sent_messages()[0]["content"]


async def test_a_structure_need_not_be_an_object(house: House) -> None:
    """Integrations pass schemas of their own."""
    house.server.script(answer('["1", "2"]'))
    schema = probatio.Schema([probatio.Any(str, probatio.Schema({"x": object}))])
    result = await core.async_generate_data(
        house.hass,
        task_name="t",
        entity_id=TASKS,
        instructions="list",
        structure=schema,
    )
    assert result.data == ["1", "2"]
    sent = house.sent[0]["response_format"]["json_schema"]["schema"]
    assert sent["type"] == "array"


# ---- pictures ----------------------------------------------------------------------


async def look(house: House, path: Path, mime_type: str = "image/png") -> Any:
    """Have a picture looked at, as the action does once it has found the file."""
    tasks = house.hass.data[DATA_COMPONENT].get_entity(TASKS)
    assert tasks is not None
    picture = Attachment("media-source://a", mime_type, path)
    task = core.GenDataTask("look", "what is this?", attachments=[picture])
    with async_get_chat_session(house.hass) as session:
        result = await tasks.internal_async_generate_data(
            session, task, Context(user_id="user_parent")
        )
    return result.data


async def test_a_server_that_sees_gets_the_picture(
    house: House, tmp_path: Path
) -> None:
    house.server.vision = True
    assert await house.hass.config_entries.async_reload(house.entry.entry_id)
    path = tmp_path / "a.png"
    path.write_bytes(b"png")
    house.server.script(answer("A", " cat"))
    assert await look(house, path) == "A cat"
    text, image = house.sent_messages()[-1]["content"]
    assert text["text"].endswith("what is this?")
    assert image["image_url"]["url"] == "data:image/png;base64,cG5n"


async def test_without_a_server_that_sees_it_is_refused_before_it_waits(
    house: House, tmp_path: Path
) -> None:
    gate = asyncio.Event()
    house.server.default = answer("one", gate)
    talks = [house.hass.async_create_task(house.say()) for _ in range(2)]
    await house.server.wait_chats(house.chats_before + 2)
    async with asyncio.timeout(5):
        with pytest.raises(HomeAssistantError, match="cannot look at images"):
            await look(house, tmp_path / "a.png")
    gate.set()
    await asyncio.gather(*talks)
    assert len(house.sent) == 2


async def test_what_is_no_picture_is_refused(house: House, tmp_path: Path) -> None:
    house.server.vision = True
    assert await house.hass.config_entries.async_reload(house.entry.entry_id)
    with pytest.raises(HomeAssistantError, match="only look at images"):
        await look(house, tmp_path / "a.pdf", "application/pdf")


async def test_a_server_that_hears_gets_the_recording(
    house: House, tmp_path: Path
) -> None:
    house.server.audio = True
    assert await house.hass.config_entries.async_reload(house.entry.entry_id)
    path = tmp_path / "a.wav"
    path.write_bytes(b"wav")
    house.server.script(answer("A", " bell"))
    assert await look(house, path, "audio/x-wav") == "A bell"
    _, sound = house.sent_messages()[-1]["content"]
    assert sound["input_audio"] == {"data": "d2F2", "format": "wav"}
    with pytest.raises(HomeAssistantError, match="cannot look at images"):
        await look(house, path)


async def test_without_a_server_that_hears_a_recording_is_refused(
    house: House, tmp_path: Path
) -> None:
    with pytest.raises(HomeAssistantError, match="cannot listen to sound"):
        await look(house, tmp_path / "a.mp3", "audio/mpeg")
    assert house.sent == []


# ---- tools -------------------------------------------------------------------------


async def test_a_task_may_use_the_tools_it_is_given(house: House) -> None:
    house.server.script(
        answer(Call(LOOK, {"name": "Küche"})), answer('{"mood": "warm"}')
    )
    structure = probatio.Schema({probatio.Required("mood"): str})
    result = await core.async_generate_data(
        house.hass,
        task_name="t",
        entity_id=TASKS,
        instructions="how is it there?",
        structure=structure,
        llm_api=house.api,
        context=Context(user_id="user_parent"),
    )
    assert result.data == {"mood": "warm"}
    assert house.api.called() == [(LOOK, {"name": "Küche"})]
    assert [m["role"] for m in house.sent_messages()][1:] == [
        "user",
        "assistant",
        "tool",
    ]
    assert "Küche".encode() in house.server.chats[-1].raw
    assert classes(house) == ["parent/direct/background"] * 2


# ---- who pays ----------------------------------------------------------------------


async def test_each_of_two_callers_at_once_pays_for_their_own_task(
    house: House,
) -> None:
    """See the context that Home Assistant keeps on the entity: the latest caller's."""
    gate = asyncio.Event()
    house.server.default = lambda body: answer(
        gate, *["word"] * (3 if "three" in body["messages"][-1]["content"] else 5)
    )
    tasks = [
        house.hass.async_create_task(generate(house, "three", user_id="user_parent")),
        house.hass.async_create_task(generate(house, "five", user_id="user_child")),
        house.hass.async_create_task(generate(house, "three", user_id="user_parent")),
    ]
    await house.until(lambda: len(house.household.status().requests) == 3)
    gate.set()
    await asyncio.gather(*tasks)
    paid = sorted((r.class_id, r.tokens.output) for r in house.household.records())
    assert paid == [
        ("child/direct/background", 5),
        ("parent/direct/background", 3),
        ("parent/direct/background", 3),
    ]


async def test_a_call_of_nobody_after_one_of_somebody_is_the_guests(
    house: House,
) -> None:
    async def ask(context: Context | None) -> None:
        await core.async_generate_data(
            house.hass,
            task_name="t",
            entity_id=TASKS,
            instructions="hi",
            context=context,
        )

    await ask(Context(user_id="user_parent"))
    await ask(None)
    assert classes(house) == ["parent/direct/background", "guest/direct/background"]


@pytest.mark.parametrize(
    ("domain", "config"),
    [
        (
            "automation",
            {
                "id": "x",
                "alias": "Evening",
                "triggers": [{"trigger": "event", "event_type": "evening"}],
            },
        ),
        ("script", {}),
    ],
)
async def test_a_task_of_an_automation_or_script_is_charged_to_that(
    house: House, domain: str, config: dict[str, Any]
) -> None:
    action = {
        "action": "ai_task.generate_data",
        "data": {"task_name": "t", "entity_id": TASKS, "instructions": "hi"},
        "response_variable": "said",
    }
    if domain == "automation":
        whole: Any = [{**config, "actions": [action]}]
    else:
        whole = {"evening": {"sequence": [action]}}
    assert await async_setup_component(house.hass, domain, {domain: whole})
    house.hass.bus.async_fire("evening")
    if domain == "script":
        await house.hass.services.async_call("script", "evening", blocking=True)
    await house.hass.async_block_till_done()
    assert classes(house) == [f"shared/{domain}.evening/background"]


async def test_the_documented_example_runs(house: House) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    moods = async_capture_events(house.hass, "house_mood")
    house.server.script(answer('{"mood": "busy", "hurry": 7}'))
    script = {"mood": parse_yaml(block)}
    assert await async_setup_component(house.hass, "script", {"script": script})
    await house.hass.services.async_call("script", "mood", blocking=True)
    assert [event.data for event in moods] == [{"mood": "busy"}]


class TestUrgent:
    @pytest.fixture
    def task_data(self) -> dict[str, Any]:
        return {"workload": "chat", "output_tokens": 40, "temperature": 0.5}

    async def test_the_chosen_urgency_holds_whoever_calls(self, house: House) -> None:
        await generate(house)
        await generate(house, user_id=None)
        assert classes(house) == ["parent/direct/chat", "guest/direct/chat"]
        assert house.sent[0]["temperature"] == 0.5
        assert house.sent[0]["max_tokens"] == 40
