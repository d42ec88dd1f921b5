"""Every dialog has all its texts, and no text is left of a dialog that is gone."""

import re

from homeassistant.config_entries import ConfigEntry
from homeassistant.core import HomeAssistant
from homeassistant.helpers import device_registry as dr, entity_registry as er
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.fair_share.admission.policies import POLICIES
from custom_components.fair_share.engines.base import EngineKind
from custom_components.fair_share.flows.connect import ERROR_KEYS
from tests.fake_server import FakeServer
from tests.flow_texts import TEXTS, TRANSLATIONS, Shown, record
from tests.flows.drive import (
    SHARE,
    add,
    change,
    filled,
    found,
    go_on,
    only,
    open_rules,
    progress,
    repair,
    shown as values,
    submit,
)
from tests.metadata.source import assigned_errors, calls, text_argument, tree

CONNECTING = ("flows/server_steps.py",)
FILES: dict[str, tuple[str, ...]] = {
    "config": ("flows/household.py", "flows/repair.py", *CONNECTING),
    "config_subentries.server": ("flows/server.py", *CONNECTING),
    "config_subentries.member": ("flows/member.py", "flows/quota.py"),
    "config_subentries.device": ("flows/device.py", "flows/quota.py"),
    "config_subentries.client": ("flows/client.py", "flows/quota.py"),
    "config_subentries.agent": ("flows/agent.py",),
    "config_subentries.ai_task": ("flows/ai_task.py",),
    "config_subentries.wrapped_agent": ("flows/wrapped_agent.py",),
    "options": ("flows/options.py", "flows/workloads.py", "flows/quota.py"),
}
"""The files of each dialog."""

OPTIONAL = re.compile(r"\.(step\.\w+|sections\.\w+)\.description$")
SAID_BY_PROBE = {
    *(f"selector.kind.options.{kind}" for kind in EngineKind),
    "selector.memory.options.unknown",
}
"""Texts that stand in the description of a server, not in a list."""
NOT_YET_OFFERED = {f"selector.policy.options.{policy}" for policy in POLICIES}
"""There are texts for every policy, whether a household can choose it or not."""


async def _found_household(hass: HomeAssistant) -> ConfigEntry:
    """Walk through the whole first dialog, with every question it can ask."""
    async with FakeServer("someone", models=("a", "b")) as fake:
        fake.loading = True
        result = await go_on(hass, await found(hass), {"url": fake.url})
        async with progress(hass):
            fake.loading = False
        result = await go_on(hass, result)
        await go_on(hass, result, filled(values(result)))
        hass.config_entries.flow.async_abort(result["flow_id"])
    async with FakeServer() as fake:
        result = await go_on(hass, await found(hass), {"url": fake.url})
        result = await go_on(hass, result, {})
        result = await go_on(hass, result, {"persons": ["person.parent"]})
        result = await go_on(hass, result, values(result))
    entry: ConfigEntry = result["result"]
    return entry


async def _add_server(hass: HomeAssistant, entry: ConfigEntry) -> None:
    async with FakeServer("someone", models=("a", "b")) as fake:
        fake.loading = True
        result = await submit(hass, await add(hass, entry, "server"), {"url": fake.url})
        async with progress(hass):
            fake.loading = False
        result = await submit(hass, result)
        await submit(hass, result, filled(values(result)))
    async with FakeServer() as fake:
        await submit(hass, await add(hass, entry, "server"), {"url": fake.url})


async def _add_others(hass: HomeAssistant, entry: ConfigEntry, device_id: str) -> None:
    await submit(hass, await add(hass, entry, "agent"), {"answers": {}})
    await submit(hass, await add(hass, entry, "ai_task"), {"answers": {}})
    other = er.async_get(hass).async_get_or_create("conversation", "ollama", "1")
    result = await add(hass, entry, "wrapped_agent")
    await submit(hass, result, {"agent": other.id, "server": "outside"})
    result = await submit(
        hass, await add(hass, entry, "client"), {"name": "Chat", **SHARE}
    )
    await submit(hass, result, {})
    client = only(entry, "client")
    for step in ("settings", "new_key"):
        await submit(hass, await change(hass, entry, client), {"next_step_id": step})
    result = await add(hass, entry, "member")
    await submit(hass, result, {"person": "person.child", **SHARE})
    await submit(
        hass, await add(hass, entry, "device"), {"next_step_id": "other_device"}
    )
    result = await submit(
        hass, await add(hass, entry, "device"), {"next_step_id": "satellite"}
    )
    await submit(hass, result, {"device_id": device_id, **SHARE})


async def _look_at_all_rules(hass: HomeAssistant, entry: ConfigEntry) -> None:
    menus = [()]
    for menu in menus:
        result = await open_rules(hass, entry, *menu)
        menus += [(*menu, option) for option in result.get("menu_options", ())]


@pytest.fixture
async def dialogs(
    hass: HomeAssistant,
    device_registry: dr.DeviceRegistry,
    entity_registry: er.EntityRegistry,
    socket_enabled: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Shown:
    """What all dialogs show, each opened and walked through."""
    monkeypatch.setattr("custom_components.fair_share.flows.connect.LOADING_POLL_S", 0)
    assert await async_setup_component(hass, "homeassistant", {})
    persons = [{"id": name, "name": name.capitalize()} for name in ("parent", "child")]
    assert await async_setup_component(hass, "person", {"person": persons})
    with record() as shown:
        entry = await _found_household(hass)
        other = MockConfigEntry(domain="esphome")
        other.add_to_hass(hass)
        for domain in ("light", "assist_satellite"):
            kitchen = device_registry.async_get_or_create(
                config_entry_id=other.entry_id, identifiers={("esphome", domain)}
            )
            entity_registry.async_get_or_create(
                domain, "esphome", "1", device_id=kitchen.id
            )
        await _add_server(hass, entry)
        await _add_others(hass, entry, kitchen.id)
        for part in list(entry.subentries.values()):
            await change(hass, entry, part)
        await _look_at_all_rules(hass, entry)
        result = await repair(hass, entry)
        choice = {"server": next(iter(entry.subentries))}
        result = await go_on(hass, result, choice)
        hass.config_entries.flow.async_abort(result["flow_id"])
        entry.async_start_reauth(hass, data={"server_id": choice["server"]})
        await hass.async_block_till_done()
    return shown


def _but_optional(keys: set[str]) -> set[str]:
    return {key for key in keys if not OPTIONAL.search(key)}


def _texts(*parts: str) -> set[str]:
    """Return the keys of all texts of all dialogs under these parts."""
    return {
        key
        for key in TEXTS
        for root in FILES
        for part in parts
        if key.startswith(f"{root}.{part}.")
    }


async def test_every_step_field_and_section_has_a_text_and_no_text_is_left_over(
    dialogs: Shown,
) -> None:
    steps = {key for key in dialogs.keys if ".step." in key or ".progress." in key}
    assert _but_optional(steps) == _but_optional(_texts("step", "progress"))


async def test_every_option_of_a_list_has_a_text_and_no_text_is_left_over(
    dialogs: Shown,
) -> None:
    used = {key for key in dialogs.keys if key.startswith("selector.")}
    said = used | SAID_BY_PROBE | NOT_YET_OFFERED
    assert said == {k for k in TEXTS if k.startswith("selector.")}


async def test_every_placeholder_of_a_dialog_is_filled(dialogs: Shown) -> None:
    assert not dialogs.unfilled


@pytest.mark.parametrize("root", FILES)
def test_every_error_has_a_text_and_no_text_is_left_over(root: str) -> None:
    files = FILES[root]
    wanted = {error for path in files for error in assigned_errors(tree(path))}
    wanted |= {key for key in ERROR_KEYS.values() if CONNECTING[0] in files}
    assert wanted == _under(f"{root}.error.")


@pytest.mark.parametrize("root", FILES)
def test_every_way_to_end_has_a_text_and_no_text_is_left_over(root: str) -> None:
    ends = [
        call
        for path in FILES[root]
        for name in ("async_abort", "AbortFlow")
        for call in calls(tree(path), name)
    ]
    assert {text_argument(end, "reason") for end in ends} == _under(f"{root}.abort.")


def _under(prefix: str) -> set[str]:
    return {key.removeprefix(prefix) for key in TEXTS if key.startswith(prefix)}


@pytest.mark.parametrize(
    "kind",
    ["server", "member", "device", "client", "agent", "ai_task", "wrapped_agent"],
)
def test_every_part_of_a_household_can_be_added_and_changed_by_a_named_button(
    kind: str,
) -> None:
    texts = TRANSLATIONS["config_subentries"][kind]
    assert texts["entry_type"]
    assert set(texts["initiate_flow"]) == {"user", "reconfigure"}


def test_no_other_part_has_texts() -> None:
    assert set(TRANSLATIONS["config_subentries"]) == {
        root.removeprefix("config_subentries.") for root in FILES if "." in root
    }
