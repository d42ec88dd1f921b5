"""Households for tests: config entries and their subentries in few words."""

import asyncio
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from homeassistant.config_entries import ConfigSubentry, ConfigSubentryDataWithId
from homeassistant.core import HomeAssistant
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.fair_share.const import (
    CONF_KEY_HASH,
    CONF_KEY_HINT,
    CONF_KIND,
    CONF_MEMBER,
    CONF_PERSON_ID,
    CONF_USER_IDS,
    CONF_WEIGHT,
    DOMAIN,
    SHARED_ID,
    SUBENTRY_AGENT,
    SUBENTRY_AI_TASK,
    SUBENTRY_CLIENT,
    SUBENTRY_DEVICE,
    SUBENTRY_MEMBER,
    SUBENTRY_SERVER,
    SUBENTRY_WRAPPED_AGENT,
)
from custom_components.fair_share.household.client_keys import hash_of

ENTRY_ID = "household_entry"


def household_entry(
    *subentries: ConfigSubentryDataWithId, options: dict[str, Any] | None = None
) -> MockConfigEntry:
    """Return a household with these subentries, not yet added to Home Assistant."""
    return MockConfigEntry(
        domain=DOMAIN,
        entry_id=ENTRY_ID,
        title="Fair Share",
        unique_id=DOMAIN,
        options=options,
        subentries_data=subentries,
    )


async def set_up(hass: HomeAssistant, entry: MockConfigEntry) -> None:
    """Add a household to Home Assistant and let it start."""
    entry.add_to_hass(hass)
    assert await hass.config_entries.async_setup(entry.entry_id)
    await hass.async_block_till_done()


def member(
    subentry_id: str, *, user_ids: tuple[str, ...] = (), **data: Any
) -> ConfigSubentryDataWithId:
    """Return a member; the person's id is the subentry's with ``person_`` before."""
    person_id = f"person_{subentry_id}"
    return ConfigSubentryDataWithId(
        subentry_id=subentry_id,
        subentry_type=SUBENTRY_MEMBER,
        title=subentry_id.capitalize(),
        unique_id=person_id,
        data={
            CONF_PERSON_ID: person_id,
            CONF_USER_IDS: list(user_ids),
            CONF_WEIGHT: 1.0,
            **data,
        },
    )


def device(
    subentry_id: str, device_id: str, member_id: str = SHARED_ID, **data: Any
) -> ConfigSubentryDataWithId:
    """Return a device of a member, or a shared one."""
    return ConfigSubentryDataWithId(
        subentry_id=subentry_id,
        subentry_type=SUBENTRY_DEVICE,
        title=subentry_id.capitalize(),
        unique_id=f"device:{device_id}",
        data={"device_id": device_id, CONF_MEMBER: member_id, **data},
    )


def client(
    subentry_id: str, key: str, member_id: str = SHARED_ID, **data: Any
) -> ConfigSubentryDataWithId:
    """Return a client of the gateway with this key."""
    return ConfigSubentryDataWithId(
        subentry_id=subentry_id,
        subentry_type=SUBENTRY_CLIENT,
        title=subentry_id.capitalize(),
        unique_id=None,
        data={
            CONF_MEMBER: member_id,
            "workload": "chat",
            CONF_KEY_HASH: hash_of(key),
            CONF_KEY_HINT: key[-4:],
            **data,
        },
    )


def server(
    url: str, *, subentry_id: str = "server", kind: str = "llama_cpp", **data: Any
) -> ConfigSubentryDataWithId:
    """Return a server at this address."""
    return ConfigSubentryDataWithId(
        subentry_id=subentry_id,
        subentry_type=SUBENTRY_SERVER,
        title=f"fake-model ({url.removeprefix('http://')})",
        unique_id=url,
        data={"url": url, CONF_KIND: kind, "model": "fake-model", **data},
    )


def agent(subentry_id: str = "agent", **data: Any) -> ConfigSubentryDataWithId:
    """Return a conversation agent; without ``llm_hass_api`` it has no tools."""
    return ConfigSubentryDataWithId(
        subentry_id=subentry_id,
        subentry_type=SUBENTRY_AGENT,
        title="Fair Share",
        unique_id=None,
        data={"prompt": "Be brief.", "workload": "chat", "output_tokens": 64, **data},
    )


def ai_task(subentry_id: str = "task", **data: Any) -> ConfigSubentryDataWithId:
    """Return an AI task entity."""
    return ConfigSubentryDataWithId(
        subentry_id=subentry_id,
        subentry_type=SUBENTRY_AI_TASK,
        title="Tasks",
        unique_id=None,
        data={"prompt": "Be brief.", "output_tokens": 64, **data},
    )


def wrapped_agent(
    agent_id: str, subentry_id: str = "wrapped", **data: Any
) -> ConfigSubentryDataWithId:
    """Return an agent of another integration, by its id in the entity registry."""
    return ConfigSubentryDataWithId(
        subentry_id=subentry_id,
        subentry_type=SUBENTRY_WRAPPED_AGENT,
        title="Wrapped",
        unique_id=f"wrapped:{agent_id}",
        data={"agent": agent_id, "server": "server", "workload": "chat", **data},
    )


def subentry(data: ConfigSubentryDataWithId) -> ConfigSubentry:
    """Return what ``async_add_subentry`` wants."""
    return ConfigSubentry(
        data=MappingProxyType(dict(data["data"])),
        subentry_id=data["subentry_id"],
        subentry_type=data["subentry_type"],
        title=data["title"],
        unique_id=data["unique_id"],
    )


async def until(condition: Callable[[], bool], *, limit_s: float = 30.0) -> None:
    """Let everything else go on until the condition holds; fail after ``limit_s``."""
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110 - many different things are awaited so
            await asyncio.sleep(0.005)
