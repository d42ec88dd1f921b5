"""A household in a Home Assistant of its own, inside this process.

The household is the one that Home Assistant runs: set up from a config entry, with
accounts on disk. Nothing else is set up but what it depends on, and nothing listens.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
import logging
import tempfile
from types import MappingProxyType
from typing import Any

# Before Home Assistant's loader looks for it: the plugin ships a folder of that name.
import custom_components  # noqa: F401  # isort: skip
from aiohttp import ThreadedResolver
from homeassistant import loader
from homeassistant.components.http.config import async_get_and_load_store
from homeassistant.config_entries import (
    SOURCE_USER,
    ConfigEntry,
    ConfigSubentryDataWithId,
)
from homeassistant.core import Context, HomeAssistant
from homeassistant.helpers import frame
from homeassistant.helpers.aiohttp_client import DATA_RESOLVER
from homeassistant.helpers.translation import async_load_integrations
from homeassistant.setup import async_setup_component
from homeassistant.util.hass_dict import HassKey
from pytest_homeassistant_custom_component.common import (  # type: ignore[import-untyped]
    async_test_home_assistant,
)

from custom_components.fair_share.const import (
    CONF_KIND,
    CONF_MEMBER,
    CONF_MEMORY,
    CONF_PERSON_ID,
    CONF_SLOTS,
    CONF_USER_IDS,
    CONF_WEIGHT,
    CONF_WORKLOAD,
    DOMAIN,
    MEMORY_SEPARATE,
    MEMORY_SHARED,
    SUBENTRY_DEVICE,
    SUBENTRY_MEMBER,
    SUBENTRY_SERVER,
)
from custom_components.fair_share.engines.base import EngineKind
from custom_components.fair_share.household.asker import Asker
from custom_components.fair_share.household.runtime import Household
from demo.ports import HOST, free_port

MEMBERS = ("parent", "child")
_SATELLITE = "satellite"
_RESOLVER: HassKey[ThreadedResolver] = HassKey(str(DATA_RESOLVER))
_READY_LIMIT_S = 120.0
_LOOK_S = 0.02


class NotReadyError(Exception):
    """A server did not become ready for the household."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server as the household is told of it.

    ``separate``: its slots have memory of their own, which llama.cpp does not tell.
    ``slots`` has to be declared where the server does not tell it.
    """

    url: str
    kind: EngineKind = EngineKind.LLAMA_CPP
    separate: bool = True
    slots: int | None = None


@dataclass(frozen=True, slots=True)
class Home:
    """The running household of ``MEMBERS``; the first one has a satellite."""

    household: Household

    def member(self, name: str) -> Asker:
        """Return a member who asks for themselves."""
        context = Context(user_id=_user_id(name))
        return self.household.identity.resolve(context, None, None)

    def satellite(self) -> Asker:
        """Return the satellite of the first member."""
        return self.household.identity.resolve(
            Context(), _SATELLITE, "assist_satellite.kitchen"
        )

    def charges(self) -> dict[str, float]:
        """Return what each member has been charged, in weighted tokens."""
        return {name: self.household.node_status(name).charge for name in MEMBERS}


async def until(condition: Callable[[], bool]) -> None:
    """Let everything else go on until the condition holds."""
    while not condition():  # noqa: ASYNC110 - many different things are awaited so
        await asyncio.sleep(_LOOK_S)


@asynccontextmanager
async def running_home(
    servers: Sequence[Server],
    options: Mapping[str, Any] | None = None,
    more: Sequence[ConfigSubentryDataWithId] = (),
) -> AsyncIterator[Home]:
    """Run a household with these servers, all of them ready, and ``more`` parts.

    Raises ``NotReadyError``.
    """
    with tempfile.TemporaryDirectory(prefix="fair-share-bench-") as folder:
        async with _home_assistant(folder) as hass:
            entry = _entry(servers, options or {}, more)
            await hass.config_entries.async_add(entry)
            household: Household = entry.runtime_data
            try:
                async with asyncio.timeout(_READY_LIMIT_S):
                    await until(
                        lambda: len([*household.servers.ready()]) == len(servers)
                    )
            except TimeoutError:
                states = [view.detail for view in household.servers.statuses()]
                raise NotReadyError(f"a server did not get ready: {states}") from None
            yield Home(household)


class _Resolver(ThreadedResolver):
    """Looks names up without asking the house's network, as Home Assistant would."""

    async def real_close(self) -> None:
        """Nothing is open."""


@asynccontextmanager
async def _home_assistant(folder: str) -> AsyncIterator[HomeAssistant]:
    # Otherwise it warns of this very integration, as of every custom one.
    logging.getLogger(loader.__name__).setLevel(logging.ERROR)
    async with async_test_home_assistant(config_dir=folder) as hass:
        # What it was started with says that there are no custom integrations.
        hass.data.pop(loader.DATA_CUSTOM_COMPONENTS)
        hass.data[_RESOLVER] = _Resolver()
        frame.async_setup(hass)
        await async_load_integrations(hass, {"homeassistant"})
        await async_setup_component(hass, "homeassistant", {})
        # It listens only once it is started, which only who needs it does.
        listens = {"server_host": [HOST], "server_port": free_port()}
        await async_setup_component(hass, "http", {"http": listens})
        # Nobody logs in to say that this works; without that it would be taken back.
        (await async_get_and_load_store(hass)).async_cancel_revert()
        try:
            yield hass
        finally:
            for entry in hass.config_entries.async_entries(DOMAIN):
                await hass.config_entries.async_unload(entry.entry_id)
            await hass.async_stop(force=True)


def _entry(
    servers: Sequence[Server],
    options: Mapping[str, Any],
    more: Sequence[ConfigSubentryDataWithId],
) -> ConfigEntry[Any]:
    return ConfigEntry(
        data={},
        discovery_keys=MappingProxyType({}),
        domain=DOMAIN,
        entry_id="household_entry",
        minor_version=1,
        options=dict(options),
        source=SOURCE_USER,
        subentries_data=[
            *(_server(number, each) for number, each in enumerate(servers)),
            *(_member(name) for name in MEMBERS),
            *more,
            subentry(
                _SATELLITE,
                SUBENTRY_DEVICE,
                {
                    "device_id": _SATELLITE,
                    CONF_MEMBER: MEMBERS[0],
                    CONF_WORKLOAD: "voice",
                },
            ),
        ],
        title="Fair Share",
        unique_id=DOMAIN,
        version=1,
    )


def _server(number: int, server: Server) -> ConfigSubentryDataWithId:
    data: dict[str, Any] = {
        "url": server.url,
        CONF_KIND: server.kind.value,
        CONF_MEMORY: MEMORY_SEPARATE if server.separate else MEMORY_SHARED,
    }
    if server.slots is not None:
        data[CONF_SLOTS] = server.slots
    return subentry(f"server_{number}", SUBENTRY_SERVER, data)


def _member(name: str) -> ConfigSubentryDataWithId:
    return subentry(
        name,
        SUBENTRY_MEMBER,
        {
            CONF_PERSON_ID: f"person_{name}",
            CONF_USER_IDS: [_user_id(name)],
            CONF_WEIGHT: 1.0,
        },
    )


def _user_id(name: str) -> str:
    return f"user_{name}"


def subentry(
    subentry_id: str, kind: str, data: Mapping[str, Any]
) -> ConfigSubentryDataWithId:
    """Return a part of the household."""
    return ConfigSubentryDataWithId(
        subentry_id=subentry_id,
        subentry_type=kind,
        title=subentry_id,
        unique_id=subentry_id,
        data=data,
    )
