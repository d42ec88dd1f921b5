"""Turning a fresh Home Assistant into a household with Fair Share.

Everything is done over the APIs that the frontend uses, in the order in which somebody
at a browser would do it.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import aiohttp

from .api import Api, Connection, Json
from .flows import CONFIG_FLOW, SUBENTRY_FLOW, run_flow
from .household import Household
from .people import CHILD, GUEST, PARENT, create_owner, create_user, log_in
from .pipelines import add_pipeline, prefer_agent

_CHILD_QUOTA_TOKENS = 20_000
SUMMARY_TOKENS = 200
_ANSWER_TOKENS = 160
_SPOKEN_TOKENS = 60
_PROMPT = "You are the assistant of a household. Answer kindly and briefly."
_SUMMARY_PROMPT = "You summarise texts for a household in a few sentences."
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Server:
    """The language model server to use.

    ``can_use_tools``: its model is good enough to be given the house to control.
    ``declared`` is what it does not tell of itself and the household has to say.
    """

    url: str
    api_key: str | None = None
    can_use_tools: bool = False
    declared: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> Json:
        """The answer to a dialog that asks for a server."""
        return {"url": self.url} | ({"api_key": self.api_key} if self.api_key else {})


async def onboard(
    session: aiohttp.ClientSession, url: str, server: Server
) -> Household:
    """Set everything up. Raises ``DemoError`` or ``ApiError``."""
    await create_owner(session, url, PARENT)
    api = await log_in(session, url, PARENT)
    async with api.connect() as connection:
        await wait_until_running(connection)
        await create_user(connection, CHILD)
        await create_user(connection, GUEST)
        await _move_light_to_kitchen(connection)
        await run_flow(api, CONFIG_FLOW, "kitchen_satellite", {})
        entry_id = await _add_integration(api, server)
        return await _complete(api, connection, entry_id, server)


async def wait_until_running(connection: Connection) -> None:
    """Wait until Home Assistant has started all its parts."""
    while True:
        if (await connection.command("get_config"))["state"] == "RUNNING":
            return
        await asyncio.sleep(_POLL_S)


async def point_at(api: Api, household: Household, server: Server) -> Household:
    """Change the address of the household's server."""
    await run_flow(
        api,
        SUBENTRY_FLOW,
        [household.entry_id, "server"],
        {"reconfigure": server.address, "server": dict(server.declared)},
        subentry_id=household.server_id,
    )
    return replace(household, server_url=server.url)


async def _add_integration(api: Api, server: Server) -> str:
    talk: Json = {"prompt": _PROMPT}
    if server.can_use_tools:
        talk["llm_hass_api"] = ["assist"]
    step = await run_flow(
        api,
        CONFIG_FLOW,
        "fair_share",
        {
            "user": server.address,
            "server": dict(server.declared),
            "members": {"persons": ["person.parent"]},
            "agent": talk,
        },
    )
    entry_id: str = step["result"]["entry_id"]
    return entry_id


async def _complete(
    api: Api, connection: Connection, entry_id: str, server: Server
) -> Household:
    await _add_child(api, entry_id)
    subentries = await _subentries(connection, entry_id)
    parent_id = _find(subentries, "member", PARENT.name)
    device_id = await _satellite_device(connection)
    await _add_satellite(api, entry_id, device_id, parent_id)
    agent_id = _find(subentries, "agent")
    await _shorten_answers(api, entry_id, agent_id, server)
    summaries_id = await _add_summaries(api, connection, entry_id)
    agent_entity_id = await _entity_of(connection, agent_id)
    await prefer_agent(connection, agent_entity_id)
    return Household(
        entry_id=entry_id,
        server_id=next(
            i for i, s in subentries.items() if s["subentry_type"] == "server"
        ),
        server_url=server.url,
        node_ids={
            PARENT.username: parent_id,
            CHILD.username: _find(subentries, "member", CHILD.name),
            GUEST.username: "guest",
        },
        satellite_device_id=device_id,
        agent_entity_id=agent_entity_id,
        summaries_pipeline_id=await add_pipeline(
            connection, await _entity_of(connection, summaries_id)
        ),
    )


async def _subentries(connection: Connection, entry_id: str) -> dict[str, Json]:
    found = await connection.command(
        "config_entries/subentries/list", entry_id=entry_id
    )
    return {subentry["subentry_id"]: subentry for subentry in found}


def _find(
    subentries: dict[str, Json], subentry_type: str, title: str | None = None
) -> str:
    return next(
        subentry_id
        for subentry_id, subentry in subentries.items()
        if subentry["subentry_type"] == subentry_type
        and title in (None, subentry["title"])
    )


async def _add_child(api: Api, entry_id: str) -> None:
    share = {
        "person": "person.child",
        "weight": 1,
        "quota": {"quota_tokens": _CHILD_QUOTA_TOKENS, "quota_window": "day"},
        "limits": {},
    }
    await run_flow(api, SUBENTRY_FLOW, [entry_id, "member"], {"user": share})


async def _add_satellite(
    api: Api, entry_id: str, device_id: str, member_id: str
) -> None:
    share = {
        "device_id": device_id,
        "member": member_id,
        "workload": "voice",
        "weight": 1,
        "quota": {"quota_window": "day"},
        "limits": {"output_tokens": _SPOKEN_TOKENS},
    }
    await run_flow(
        api,
        SUBENTRY_FLOW,
        [entry_id, "device"],
        {"user": {"next_step_id": "satellite"}, "satellite": share},
    )


async def _shorten_answers(
    api: Api, entry_id: str, agent_id: str, server: Server
) -> None:
    # A small model does not know when to stop.
    agent: Json = {
        "prompt": _PROMPT,
        "workload": "chat",
        "answers": {"output_tokens": _ANSWER_TOKENS},
    }
    if server.can_use_tools:
        agent["llm_hass_api"] = ["assist"]
    await run_flow(
        api,
        SUBENTRY_FLOW,
        [entry_id, "agent"],
        {"reconfigure": agent},
        subentry_id=agent_id,
    )


async def _add_summaries(api: Api, connection: Connection, entry_id: str) -> str:
    agent: Json = {
        "name": "Summaries",
        "prompt": _SUMMARY_PROMPT,
        "workload": "background",
        "answers": {"output_tokens": SUMMARY_TOKENS},
    }
    await run_flow(api, SUBENTRY_FLOW, [entry_id, "agent"], {"user": agent})
    subentries = await _subentries(connection, entry_id)
    return _find(subentries, "agent", agent["name"])


async def _entity_of(connection: Connection, subentry_id: str) -> str:
    """Return the conversation entity of an agent as soon as it is there."""
    while True:
        for entity in await connection.command("config/entity_registry/list"):
            if entity["config_subentry_id"] == subentry_id and entity[
                "entity_id"
            ].startswith("conversation."):
                entity_id: str = entity["entity_id"]
                return entity_id
        await asyncio.sleep(_POLL_S)


async def _satellite_device(connection: Connection) -> str:
    for device in await connection.command("config/device_registry/list"):
        if device["name"] == "Kitchen satellite":
            device_id: str = device["id"]
            return device_id
    raise LookupError("the kitchen satellite made no device")


async def _move_light_to_kitchen(connection: Connection) -> None:
    await connection.command(
        "config/entity_registry/update",
        entity_id="light.kitchen_light",
        area_id="kitchen",
    )
