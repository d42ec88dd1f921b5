"""The dialogs as a browser sees them: over Home Assistant's own HTTP API."""

from http import HTTPStatus
from typing import Any

from aiohttp.test_utils import TestClient
from homeassistant.core import HomeAssistant
from homeassistant.helpers import device_registry as dr, entity_registry as er
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry, MockUser
from pytest_homeassistant_custom_component.typing import ClientSessionGenerator

from tests.fake_server import FakeServer

FLOW = "/api/config/config_entries/flow"
PART = "/api/config/config_entries/subentries/flow"
OPTIONS = "/api/config/config_entries/options/flow"


@pytest.fixture
async def browser(
    hass: HomeAssistant,
    persons: dict[str, MockUser],
    hass_client: ClientSessionGenerator,
) -> TestClient[Any, Any]:
    """A client that is logged in."""
    # A test's server takes no new paths once it has begun; the real one does.
    for component in ("config", "conversation", "fair_share"):
        assert await async_setup_component(hass, component, {})
    return await hass_client()


async def _post(client: TestClient[Any, Any], path: str, body: object) -> Any:
    response = await client.post(path, json=body)
    answer = await response.json()
    assert response.status == HTTPStatus.OK, answer
    return answer


async def test_a_household_is_founded(
    browser: TestClient[Any, Any], llama: FakeServer
) -> None:
    result = await _post(browser, FLOW, {"handler": "fair_share"})
    step = f"{FLOW}/{result['flow_id']}"
    answers: tuple[dict[str, object], ...] = (
        {"url": llama.url},
        {"memory": "separate"},
        {"persons": ["person.parent"]},
        {"prompt": "Hi", "llm_hass_api": ["assist"]},
    )
    results = [await _post(browser, step, answer) for answer in answers]
    assert [r.get("step_id") for r in results] == ["server", "members", "agent", None]
    assert results[-1]["type"] == "create_entry"
    assert results[-1]["result"]["state"] == "loaded"


@pytest.mark.parametrize("kind", ["server", "member", "agent"])
async def test_a_part_can_be_added(
    browser: TestClient[Any, Any], household: MockConfigEntry, kind: str
) -> None:
    result = await _post(browser, PART, {"handler": [household.entry_id, kind]})
    assert (result["type"], result["step_id"]) == ("form", "user")
    assert result["data_schema"]


@pytest.mark.parametrize("which", ["satellite", "other_device"])
async def test_a_device_can_be_added(
    hass: HomeAssistant,
    browser: TestClient[Any, Any],
    household: MockConfigEntry,
    device_registry: dr.DeviceRegistry,
    entity_registry: er.EntityRegistry,
    which: str,
) -> None:
    other = MockConfigEntry(domain="esphome")
    other.add_to_hass(hass)
    for domain in ("assist_satellite", "light"):
        device = device_registry.async_get_or_create(
            config_entry_id=other.entry_id, identifiers={("esphome", domain)}
        )
        entity_registry.async_get_or_create(
            domain, "esphome", domain, device_id=device.id
        )
    result = await _post(browser, PART, {"handler": [household.entry_id, "device"]})
    assert result["type"] == "menu"
    step = f"{PART}/{result['flow_id']}"
    result = await _post(browser, step, {"next_step_id": which})
    assert (result["type"], result["step_id"]) == ("form", which)


async def test_the_rules_can_be_changed(
    browser: TestClient[Any, Any], household: MockConfigEntry
) -> None:
    result = await _post(browser, OPTIONS, {"handler": household.entry_id})
    assert (result["type"], result["step_id"]) == ("menu", "init")
    step = f"{OPTIONS}/{result['flow_id']}"
    result = await _post(browser, step, {"next_step_id": "workloads"})
    assert (result["type"], result["step_id"]) == ("menu", "workloads")
    result = await _post(browser, step, {"next_step_id": "chat"})
    assert {field["name"]: field.get("type") for field in result["data_schema"]} == {
        "band": None,
        "ttft_target_s": None,
        "age_step_s": None,
        "max_wait_s": None,
        "preemptible": None,
        "expert": "expandable",
        "back_to_usual": None,
    }


async def test_a_rule_that_makes_no_sense_is_shown_with_its_error(
    browser: TestClient[Any, Any], household: MockConfigEntry
) -> None:
    result = await _post(browser, OPTIONS, {"handler": household.entry_id})
    step = f"{OPTIONS}/{result['flow_id']}"
    await _post(browser, step, {"next_step_id": "fairness"})
    wrong = {"policy": "equal_tokens", "background_share_percent": 95}
    result = await _post(browser, step, wrong)
    assert result["errors"] == {"background_share_percent": "share_too_large"}
    result = await _post(browser, step, {**wrong, "background_share_percent": 90})
    assert result["type"] == "create_entry"
