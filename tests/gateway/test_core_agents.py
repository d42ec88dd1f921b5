"""Home Assistant's own agents for OpenAI-compatible servers, pointed at the gateway."""

from typing import Any

from homeassistant.components import conversation
from homeassistant.config_entries import SOURCE_USER
from homeassistant.core import Context, HomeAssistant
from homeassistant.data_entry_flow import FlowResultType
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.const import GATEWAY_PATH
from tests.gateway.conftest import CHILD_KEY, KEY, House


@pytest.fixture(autouse=True)
async def _conversation(hass: HomeAssistant, house: House) -> None:
    """Load what all agents need."""
    assert await async_setup_component(hass, "conversation", {})


async def _say(hass: HomeAssistant, agent_id: str) -> str:
    result = await conversation.async_converse(
        hass, "Hello", None, Context(), agent_id=agent_id
    )
    said: str = result.response.speech["plain"]["speech"]
    return said


def _agents(hass: HomeAssistant) -> set[str]:
    return set(hass.states.async_entity_ids("conversation"))


async def _submit(hass: HomeAssistant, result: Any, **user_input: Any) -> Any:
    return await hass.config_entries.flow.async_configure(result["flow_id"], user_input)


async def test_the_llama_cpp_agent_is_set_up_and_charged_to_the_keys_member(
    hass: HomeAssistant, house: House
) -> None:
    before = _agents(hass)
    result: Any = await hass.config_entries.flow.async_init(
        "llama_cpp", context={"source": SOURCE_USER}
    )
    url = str(house.program.http.make_url(GATEWAY_PATH))
    refused = await _submit(hass, result, base_url=url, api_key="fs-wrong")
    assert refused["errors"]
    result = await _submit(hass, result, base_url=url, api_key=CHILD_KEY)
    assert result["step_id"] == "model"
    result = await _submit(hass, result, chat_model="fake-model")
    assert result["type"] is FlowResultType.CREATE_ENTRY, result
    await hass.async_block_till_done()
    (agent_id,) = _agents(hass) - before
    used = house.household.node_status("tablet").charge
    assert (await _say(hass, agent_id)).startswith("Hello")
    assert house.household.node_status("tablet").charge > used > 0
    assert house.household.node_status("parent").charge == 0
    await hass.config_entries.async_unload(result["result"].entry_id)


async def test_the_litellm_agent_is_set_up_and_charged_to_the_keys_member(
    hass: HomeAssistant, house: House
) -> None:
    before = _agents(hass)
    result: Any = await hass.config_entries.flow.async_init(
        "litellm", context={"source": SOURCE_USER}
    )
    url = str(house.program.http.make_url(GATEWAY_PATH))
    refused = await _submit(hass, result, url=url, api_key="fs-wrong")
    assert refused["errors"] == {"base": "invalid_auth"}
    result = await _submit(hass, result, url=url, api_key=KEY)
    assert result["type"] is FlowResultType.CREATE_ENTRY, result
    entry = result["result"]
    result = await hass.config_entries.subentries.async_init(
        (entry.entry_id, "conversation"), context={"source": SOURCE_USER}
    )
    assert result["type"] is FlowResultType.FORM, result
    result = await hass.config_entries.subentries.async_configure(
        result["flow_id"], {"model": "fake-model", "prompt": "Be brief."}
    )
    assert result["type"] is FlowResultType.CREATE_ENTRY, result
    await hass.async_block_till_done()
    (agent_id,) = _agents(hass) - before
    used = house.household.node_status("desktop").charge
    assert (await _say(hass, agent_id)).startswith("Hello")
    assert house.household.node_status("desktop").charge > used
    await hass.config_entries.async_unload(entry.entry_id)
