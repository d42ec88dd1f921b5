"""What a report of a problem holds, and above all what it does not."""

import asyncio
import json
from types import MappingProxyType
from typing import Any

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import Context, HomeAssistant
from homeassistant.helpers import device_registry as dr
from homeassistant.helpers.json import json_dumps
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.components.diagnostics import (
    get_diagnostics_for_config_entry,
    get_diagnostics_for_device,
)
from pytest_homeassistant_custom_component.typing import ClientSessionGenerator

from custom_components.fair_share.engines.base import ServerFaultError
from custom_components.fair_share.household.runtime import Household
from tests.common import agent, device, household_entry, member, server, set_up
from tests.fake_server import FakeServer, answer
from tests.platforms.conftest import Elapse, Talk, found_device, streaming, until

SECRET = "Zx7Secret"
"""Stands in everything that must not get out."""


@pytest.fixture
async def llama() -> Any:
    """A server that has a key, a model with a telling name and a telling version."""
    async with FakeServer("llama_cpp", slots=2, context_tokens=4096) as fake:
        fake.api_key = f"key{SECRET}"
        fake.models = (f"/home/{SECRET}/model.gguf",)
        yield fake


@pytest.fixture
async def entry(hass: HomeAssistant, llama: FakeServer) -> ConfigEntry[Household]:
    """A household in which everything that can hold a secret holds one."""
    entry = household_entry(
        server(
            llama.url,
            api_key=f"key{SECRET}",
            model=f"/home/{SECRET}/model.gguf",
        ),
        server(f"{llama.url}/{SECRET}", subentry_id="away", api_key=f"key{SECRET}"),
        member(
            "parent",
            user_ids=(f"user_{SECRET}",),
            quota_tokens=10_000,
            person_id=f"person_{SECRET}",
        ),
        device("phone", f"d_{SECRET}", "parent", workload="chat"),
        agent(prompt=f"You are {SECRET}.", llm_hass_api=[SECRET]),
        options={"paused": ["phone"], "unknown": SECRET},
    )
    for subentry_data in entry.subentries.values():
        object.__setattr__(subentry_data, "title", f"Named {SECRET}")
    await set_up(hass, entry)
    return entry


@pytest.fixture
async def busy(
    hass: HomeAssistant, entry: ConfigEntry[Household], llama: FakeServer, talk: Talk
) -> Any:
    """One answered, two running, one waiting, and a server that failed: all secret."""
    household = entry.runtime_data
    automation = Context()
    hass.states.async_set(
        f"automation.{SECRET}", "on", {"friendly_name": SECRET}, context=automation
    )
    llama.default = answer(f"said {SECRET}")
    await talk(f"user_{SECRET}", f"asked {SECRET}")
    await talk(None, f"automated {SECRET}", context=automation)
    gate = asyncio.Event()
    llama.default = answer(f"running {SECRET}", gate, f"more {SECRET}")
    tasks = []
    for running, waits in ((1, 0), (2, 0), (2, 1)):
        asked = talk(f"user_{SECRET}", f"asking {SECRET} {running} {waits}")
        tasks.append(hass.async_create_background_task(asked, "asking"))
        await until(lambda r=running: len(streaming(household)) == r)
        await until(lambda w=waits: household.status().waiting == w)
    household.servers.get("away").report(ServerFaultError(f"detail {SECRET}"))
    household.servers.get("server").detail = f"detail {SECRET}"
    yield
    gate.set()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def told_in_address(entry: ConfigEntry[Household], llama: FakeServer) -> None:
    """Put a user and a password into an address, as no dialog does."""
    away = entry.subentries["away"]
    address = llama.url.replace("http://", f"http://user{SECRET}:pass{SECRET}@")
    secret = MappingProxyType({**away.data, "url": f"{address}/{SECRET}?k={SECRET}"})
    object.__setattr__(away, "data", secret)


@pytest.fixture(autouse=True)
async def _diagnostics(hass: HomeAssistant) -> None:
    assert await async_setup_component(hass, "diagnostics", {})


async def _of_entry(
    hass: HomeAssistant, client: ClientSessionGenerator, entry: ConfigEntry
) -> dict[str, Any]:
    told = await get_diagnostics_for_config_entry(hass, client, entry)
    assert isinstance(told, dict)
    return told


def _without_secrets(told: Any, entry: ConfigEntry, llama: FakeServer) -> bool:
    """Whether nothing planted is in the whole output, nor what it stands for."""
    text = json_dumps(told).casefold()
    names = ("named", "127.0.0.1", "gguf", "model.gguf", "automation.", "hello")
    ids = [*entry.subentries, entry.entry_id]
    hidden = [SECRET, *names, *(f'"{each}"' for each in ids)]
    assert json.loads(text)
    found = [each for each in hidden if each.casefold() in text]
    # Kinds of subentries and requests are words of ours.
    return [each for each in found if each not in ('"server"', '"agent"')] == []


async def test_a_report_holds_no_secret_name_or_text(
    hass: HomeAssistant,
    hass_client: ClientSessionGenerator,
    entry: ConfigEntry[Household],
    llama: FakeServer,
    busy: None,
    told_in_address: None,
) -> None:
    assert SECRET in str([each.as_dict() for each in entry.subentries.values()])
    told = await _of_entry(hass, hass_client, entry)
    assert _without_secrets(told, entry, llama)


@pytest.mark.parametrize("owner", ["parent", "phone", "server", "away"])
async def test_a_report_of_a_device_holds_none_either(
    hass: HomeAssistant,
    hass_client: ClientSessionGenerator,
    device_registry: dr.DeviceRegistry,
    entry: ConfigEntry[Household],
    llama: FakeServer,
    busy: None,
    told_in_address: None,
    owner: str,
) -> None:
    found = found_device(device_registry, entry, owner)
    told = await get_diagnostics_for_device(hass, hass_client, entry, found)
    assert _without_secrets(told, entry, llama)


async def test_a_report_tells_what_a_developer_has_to_know(
    hass: HomeAssistant,
    hass_client: ClientSessionGenerator,
    entry: ConfigEntry[Household],
    busy: None,
) -> None:
    told = await _of_entry(hass, hass_client, entry)
    assert told["settings"]["policy"] == "equal_tokens"
    assert told["paused"] == ["device 1"]
    assert (told["queue"]["waiting"], told["queue"]["running"]) == (1, 2)
    waits = [r for r in told["queue"]["requests"] if r["server"] is None]
    assert [(r["who"], r["reason"]) for r in waits] == [("member 1/direct", "no_slot")]
    servers = {each["who"]: each for each in told["servers"]}
    assert servers["server 1"]["capabilities"]["slots"] == 2
    assert servers["server 1"]["capabilities"]["version"] == "b11669"
    assert servers["server 1"]["placed"][0]["running"] == 2
    assert servers["server 2"]["capabilities"] is None
    parts = {each["who"]: each for each in told["subentries"]}
    assert parts["member 1"]["quota_tokens"] == 10_000
    assert parts["device 1"]["whose"] == "member 1"
    assert parts["server 2"]["has_key"] is True
    accounts = {each["who"]: each for each in told["accounts"]}
    assert accounts["member 1"]["of"] == "household"
    assert accounts["member 1"]["waiting"] == 1
    assert [record["who"] for record in told["records"]] == [
        "member 1/direct",
        "automation 1",
    ]
    assert told["records"][0]["outcome"] == "finished"


async def test_a_report_of_a_member_is_about_that_member_alone(
    hass: HomeAssistant,
    hass_client: ClientSessionGenerator,
    device_registry: dr.DeviceRegistry,
    entry: ConfigEntry[Household],
    busy: None,
) -> None:
    parent = found_device(device_registry, entry, "parent")
    told: Any = await get_diagnostics_for_device(hass, hass_client, entry, parent)
    assert told["subentry"]["who"] == "member 1"
    assert {each["who"] for each in told["accounts"]} == {
        "member 1",
        "member 1/direct",
        "device 1",
    }
    assert len(told["requests"]) == 3
    assert [record["who"] for record in told["records"]] == ["member 1/direct"]


async def test_a_report_of_a_server_is_about_that_server_alone(
    hass: HomeAssistant,
    hass_client: ClientSessionGenerator,
    device_registry: dr.DeviceRegistry,
    entry: ConfigEntry[Household],
    busy: None,
) -> None:
    found = found_device(device_registry, entry, "server")
    told: Any = await get_diagnostics_for_device(hass, hass_client, entry, found)
    assert told["server"]["who"] == "server 1"
    assert (len(told["requests"]), len(told["records"])) == (2, 2)


async def test_a_report_of_the_household_is_about_everybody(
    hass: HomeAssistant,
    hass_client: ClientSessionGenerator,
    device_registry: dr.DeviceRegistry,
    entry: ConfigEntry[Household],
) -> None:
    home = found_device(device_registry, entry, entry.entry_id)
    told: Any = await get_diagnostics_for_device(hass, hass_client, entry, home)
    assert told == await _of_entry(hass, hass_client, entry)
    guests = found_device(device_registry, entry, f"{entry.entry_id}_guest")
    told = await get_diagnostics_for_device(hass, hass_client, entry, guests)
    assert told["accounts"][0]["who"] == "guest"


async def test_who_was_removed_has_no_name_either(
    hass: HomeAssistant,
    hass_client: ClientSessionGenerator,
    entry: ConfigEntry[Household],
    busy: None,
    elapse: Elapse,
) -> None:
    hass.config_entries.async_remove_subentry(entry, "parent")
    await elapse(6)
    told = await _of_entry(hass, hass_client, entry)
    assert told["records"][0]["who"] == "removed"
