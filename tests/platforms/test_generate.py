"""The action that has the model answer: for whom, how urgently, in which shape."""

from collections.abc import Mapping
import json
from typing import Any

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import Context, HomeAssistant
from homeassistant.exceptions import HomeAssistantError, Unauthorized
from homeassistant.helpers import device_registry as dr
import pytest
from pytest_homeassistant_custom_component.common import MockUser
import voluptuous as vol

from custom_components.fair_share.const import CONF_USER_IDS
from custom_components.fair_share.household.runtime import Household
from tests.fake_server import FakeServer, Thought, answer, failure
from tests.platforms.conftest import Elapse, found_device

MOOD = {
    "mood": {"selector": {"text": {}}, "required": True, "description": "One word"},
    "score": {"selector": {"number": {"min": 0, "max": 10}}},
}


async def generate(
    hass: HomeAssistant, *, context: Context | None = None, **data: Any
) -> dict[str, Any]:
    """Call the action, and check that its response is plain JSON."""
    response = await hass.services.async_call(
        "fair_share",
        "generate",
        {"prompt": "two words", **data},
        blocking=True,
        return_response=True,
        context=context,
    )
    return json.loads(json.dumps(response, allow_nan=False))


def sent(llama: FakeServer, number: int = -1) -> Mapping[str, Any]:
    """Return the body of a request that the server got."""
    body: Mapping[str, Any] = llama.chats[number].body
    return body


@pytest.fixture
def child(
    hass: HomeAssistant, entry: ConfigEntry, hass_read_only_user: MockUser
) -> Context:
    """Child's own account, which is no administrator's."""
    subentry = entry.subentries["child"]
    users = [hass_read_only_user.id]
    hass.config_entries.async_update_subentry(
        entry, subentry, data={**subentry.data, CONF_USER_IDS: users}
    )
    return Context(user_id=hass_read_only_user.id)


@pytest.fixture
def devices(
    entry: ConfigEntry, device_registry: dr.DeviceRegistry
) -> Mapping[str, str]:
    """The ids of the devices that people choose from a list."""
    identifiers = {
        "parent": "parent",
        "child": "child",
        "phone": "phone",
        "guest": "household_entry_guest",
        "shared": "household_entry_shared",
        "household": "household_entry",
        "server": "server",
    }
    return {
        name: found_device(device_registry, entry, identifier).id
        for name, identifier in identifiers.items()
    }


# ---- for whom ----------------------------------------------------------------------


async def test_the_answer_comes_with_what_it_cost(
    hass: HomeAssistant,
    llama: FakeServer,
    household: Household,
    devices: Mapping[str, str],
) -> None:
    llama.default = answer("Good", " morning", cached=1)

    response = await generate(hass, device_id=devices["child"])

    request_id = response.pop("request_id")
    assert response == {
        "text": "Good morning",
        "data": None,
        "complete": True,
        "member": "Child",
        "workload": "task",
        "tokens": 5,
        "prompt_tokens": 3,
        "cached_tokens": 1,
        "output_tokens": 2,
        "wait_s": 0,
    }
    assert household.records()[-1].request_id == request_id
    assert household.records()[-1].class_id == "child/direct/task"


@pytest.mark.parametrize(
    ("device", "class_id"),
    [
        ("parent", "parent/direct/task"),
        ("phone", "phone/chat"),  # as its device usually asks
        ("guest", "guest/direct/task"),
        ("shared", "shared/fair_share.generate/task"),
    ],
)
async def test_who_is_named_pays(
    hass: HomeAssistant,
    household: Household,
    devices: Mapping[str, str],
    device: str,
    class_id: str,
) -> None:
    await generate(hass, device_id=devices[device])
    assert household.records()[-1].class_id == class_id


async def test_the_kind_of_request_can_be_chosen(
    hass: HomeAssistant, household: Household, devices: Mapping[str, str]
) -> None:
    response = await generate(hass, device_id=devices["child"], workload="voice")
    assert response["workload"] == "voice"
    assert household.records()[-1].class_id == "child/direct/voice"


async def test_without_a_name_whoever_calls_pays(
    hass: HomeAssistant, household: Household, child: Context
) -> None:
    assert (await generate(hass, context=child))["member"] == "Child"
    assert household.node_status("child").requests == 1


async def test_an_automation_pays_as_itself_and_has_time(
    hass: HomeAssistant, household: Household
) -> None:
    hass.states.async_set("automation.night", "on", {"friendly_name": "Good night"})
    state = hass.states.get("automation.night")
    assert state is not None
    response = await generate(hass, context=state.context)
    assert response["workload"] == "background"
    record = household.records()[-1]
    assert record.class_id == "shared/automation.night/background"


async def test_a_child_cannot_spend_the_share_of_others(
    hass: HomeAssistant,
    household: Household,
    devices: Mapping[str, str],
    child: Context,
) -> None:
    with pytest.raises(Unauthorized, match="your own share"):
        await generate(hass, context=child, device_id=devices["parent"])
    assert not household.records()
    response = await generate(hass, context=child, device_id=devices["child"])
    assert response["member"] == "Child"


async def test_an_administrator_can_spend_every_share(
    hass: HomeAssistant, hass_admin_user: MockUser, devices: Mapping[str, str]
) -> None:
    context = Context(user_id=hass_admin_user.id)
    response = await generate(hass, context=context, device_id=devices["child"])
    assert response["member"] == "Child"


@pytest.mark.parametrize("device", ["household", "server"])
async def test_what_is_neither_member_nor_device_has_no_share(
    hass: HomeAssistant, devices: Mapping[str, str], device: str
) -> None:
    with pytest.raises(HomeAssistantError, match="is not a member or device"):
        await generate(hass, device_id=devices[device])


@pytest.mark.usefixtures("entry")
async def test_a_device_that_does_not_exist_is_a_mistake(hass: HomeAssistant) -> None:
    with pytest.raises(HomeAssistantError, match="nowhere is not a member or device"):
        await generate(hass, device_id="nowhere")


# ---- what is sent ------------------------------------------------------------------


@pytest.mark.usefixtures("entry")
async def test_instructions_and_length_reach_the_model(
    hass: HomeAssistant, llama: FakeServer
) -> None:
    await generate(hass, instructions="Speak like a pirate.", max_tokens=7)
    assert sent(llama)["messages"] == [
        {"role": "system", "content": "Speak like a pirate."},
        {"role": "user", "content": "two words"},
    ]
    assert sent(llama)["max_tokens"] == 7
    assert "response_format" not in sent(llama)


@pytest.mark.usefixtures("entry")
async def test_an_answer_that_is_too_long_is_told_to_be_incomplete(
    hass: HomeAssistant, llama: FakeServer
) -> None:
    llama.default = answer("a", "b", "c")
    response = await generate(hass, max_tokens=2)
    assert (response["text"], response["complete"]) == ("ab", False)


@pytest.mark.usefixtures("entry")
async def test_reasoning_is_no_part_of_the_answer(
    hass: HomeAssistant, llama: FakeServer
) -> None:
    llama.default = answer(Thought("hm"), "yes")
    assert (await generate(hass))["text"] == "yes"
    llama.default = answer("well then</think>no")
    assert (await generate(hass))["text"] == "no"


# ---- data --------------------------------------------------------------------------


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize(
    "text",
    [
        '{"mood": "good", "score": 7}',
        '```json\n{"mood": "good", "score": 7}\n```',
        'Here it is:\n```\n{"mood": "good", "score": 7}```',
    ],
)
async def test_an_answer_can_be_data(
    hass: HomeAssistant, llama: FakeServer, text: str
) -> None:
    llama.default = answer(text)
    response = await generate(hass, structure=MOOD)
    assert response["data"] == {"mood": "good", "score": 7}
    wanted = sent(llama)["response_format"]["json_schema"]["schema"]
    assert wanted["required"] == ["mood"]
    assert wanted["properties"]["mood"] == {
        "type": "string",
        "description": "One word",
    }
    assert "JSON schema" in sent(llama)["messages"][0]["content"]


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("good", "not valid JSON"),
        ("[1]", "not a JSON object"),
        ('{"score": 7}', "does not follow the schema"),
        ('{"mood": "good", "score": 70}', "does not follow the schema"),
        ('{"mood": "good", "colour": "blue"}', "does not follow the schema"),
    ],
)
async def test_the_model_may_correct_itself_once(
    hass: HomeAssistant, llama: FakeServer, wrong: str, told: str
) -> None:
    llama.script(answer(wrong))
    llama.script(answer('{"mood": "good"}'))
    response = await generate(hass, structure=MOOD)
    assert response["data"] == {"mood": "good"}
    assert response["output_tokens"] == 2
    roles = [message["role"] for message in sent(llama)["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert told in sent(llama)["messages"][-1]["content"]


async def test_a_model_that_cannot_is_a_clear_error(
    hass: HomeAssistant, llama: FakeServer, household: Household
) -> None:
    llama.default = answer("no")
    with pytest.raises(HomeAssistantError, match="the wanted structure"):
        await generate(hass, structure=MOOD)
    assert len(household.records()) == 2


@pytest.mark.usefixtures("entry")
async def test_a_server_that_cannot_be_held_to_a_shape_is_only_asked_for_it(
    hass: HomeAssistant, llama: FakeServer
) -> None:
    llama.refuse = {"response_format"}
    llama.default = answer('{"mood": "good"}')
    response = await generate(hass, structure=MOOD)
    assert response["data"] == {"mood": "good"}
    assert "response_format" not in sent(llama)


@pytest.mark.parametrize(
    "data",
    [
        {"structure": {}},
        {"structure": {"mood": {"selector": {"nonsense": {}}}}},
        {"structure": {"mood": "text"}},
        {"prompt": ""},
        {"max_tokens": 0},
        {"workload": "hurry"},
        {"temperature": 1},
    ],
)
async def test_nonsense_is_refused_before_anything_is_asked(
    hass: HomeAssistant, household: Household, data: dict[str, Any]
) -> None:
    with pytest.raises(vol.Invalid):
        await generate(hass, **data)
    assert not household.records()


# ---- no answer ---------------------------------------------------------------------


async def test_a_used_up_quota_is_told(
    hass: HomeAssistant,
    llama: FakeServer,
    devices: Mapping[str, str],
    elapse: Elapse,
) -> None:
    llama.default = answer(*["word"] * 120)
    with pytest.raises(HomeAssistantError, match="quota is used up"):
        await generate(hass, device_id=devices["parent"])
    with pytest.raises(HomeAssistantError, match=r"quota .*used up"):
        await generate(hass, device_id=devices["parent"])


@pytest.mark.usefixtures("entry")
async def test_a_server_that_refuses_is_told(
    hass: HomeAssistant, llama: FakeServer
) -> None:
    llama.default = failure(400, "nonsense", "invalid_request_error")
    with pytest.raises(HomeAssistantError, match="refused this request"):
        await generate(hass)


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize(
    ("said", "told"),
    [
        (answer(Thought("hm")), "gave no answer"),
        (answer(*[Thought("hm")] * 9), "ran out of room"),
    ],
)
async def test_silence_is_an_error(
    hass: HomeAssistant, llama: FakeServer, said: Any, told: str
) -> None:
    llama.default = said
    with pytest.raises(HomeAssistantError, match=told):
        await generate(hass, max_tokens=8)
