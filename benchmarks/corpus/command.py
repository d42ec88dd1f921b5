"""Replay streams that broke programs elsewhere through gateway and agent.

Each case of ``tests/corpus/cases`` is sent whole, byte by byte, and cut in two at
places all over it. A case is ok if nothing is lost, doubled or invented in any of them,
and nothing stays busy afterwards.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
import json
import sys
from typing import Any

import aiohttp
from homeassistant.core import Context
from homeassistant.helpers import llm
from homeassistant.setup import async_setup_component

from custom_components.fair_share.admission.model import Workload
from custom_components.fair_share.const import (
    CONF_KEY_HASH,
    CONF_MEMBER,
    SUBENTRY_AGENT,
    SUBENTRY_CLIENT,
)
from custom_components.fair_share.engines.base import EngineKind, GenerationRequest
from custom_components.fair_share.household.client_keys import new_key
from custom_components.fair_share.household.generation import Ask
from custom_components.fair_share.household.runtime import Household
from demo.ports import HOST

from ..live.home import MEMBERS, NotReadyError, Server, running_home, subentry, until
from ..terminal import Progress
from .cases import Case, cases, splits
from .doors import Agent, Door, Gateway, LightApi, LightTool
from .upstream import Upstream

_INTERRUPTED = 130
_SLOTS = 2
_IDLE_LIMIT_S = 5.0
_OK = "ok"

type Results = dict[str, dict[str, str]]


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this command to the command line."""
    parser = benchmarks.add_parser("corpus", help=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--markdown", action="store_true", help="print a table for docs"
    )
    parser.set_defaults(run=run, parser=parser)


def run(arguments: argparse.Namespace) -> None:
    """Replay all and print what came of it; fail if anything is not ok."""
    try:
        with Progress("corpus") as progress:
            results = asyncio.run(replay(progress.tell))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except NotReadyError as err:
        sys.exit(f"corpus: {err}")
    if arguments.json:
        print(json.dumps({"cases": results}))
    elif arguments.markdown:
        _print_markdown(results)
    else:
        for name, told in results.items():
            print(f"{name:32}gateway: {told['gateway']}, agent: {told['agent']}")
    if any(each != _OK for told in results.values() for each in told.values()):
        sys.exit(1)


async def replay(tell: Callable[[str], None]) -> Results:
    """Return what came of each case at each door. Raises ``NotReadyError``."""
    results: Results = {}
    async with Upstream().run() as upstream, _doors(upstream) as (household, doors):
        for case in cases():
            tell(case.name)
            results[case.name] = {
                name: await _try(upstream, household, door, case)
                for name, door in doors.items()
            }
    return results


async def _try(upstream: Upstream, household: Household, door: Door, case: Case) -> str:
    upstream.end, upstream.then = case.end, case.then
    for pieces in splits(case.data):
        upstream.pieces = pieces
        wrong = await door.wrong(case)
        if case.error:
            await _answer_well(household)
        if wrong is not None:
            cut = len(pieces[0]) if len(pieces) == len(("begin", "rest")) else 0
            return f"{wrong} (in {len(pieces)} pieces, the first of {cut} bytes)"
    try:
        async with asyncio.timeout(_IDLE_LIMIT_S):
            await until(lambda: not household.status().running)
    except TimeoutError:
        return "a slot stayed busy"
    return _OK


async def _answer_well(household: Household) -> None:
    """Let the server prove that it can: after some faults it would be given a rest."""
    asker = household.identity.resolve(Context(), None, None)
    request = GenerationRequest([{"role": "user", "content": "Hi"}], 4)
    async with household.generate(Ask(asker, Workload.CHAT, request)) as deltas:
        async for _ in deltas:
            pass


@asynccontextmanager
async def _doors(
    upstream: Upstream,
) -> AsyncIterator[tuple[Household, Mapping[str, Door]]]:
    key = new_key()
    parts = [
        subentry(
            "program",
            SUBENTRY_CLIENT,
            {CONF_MEMBER: MEMBERS[0], CONF_KEY_HASH: key.key_hash, "workload": "chat"},
        ),
        subentry(
            "agent",
            SUBENTRY_AGENT,
            {"prompt": "", "workload": "chat", "llm_hass_api": ["corpus"]},
        ),
    ]
    server = Server(upstream.url, EngineKind.OPENAI_COMPATIBLE, slots=_SLOTS)
    async with (
        running_home([server], more=parts) as home,
        aiohttp.ClientSession() as session,
    ):
        hass, tool = home.household.hass, LightTool()
        await async_setup_component(hass, "conversation", {})
        llm.async_register_api(hass, LightApi(hass, tool))
        await hass.http.start()
        assert hass.config.api is not None  # noqa: S101 - the server has started
        url = f"http://{HOST}:{hass.config.api.port}/api/fair_share"
        (agent_id,) = (
            state.entity_id
            for state in hass.states.async_all("conversation")
            if state.entity_id != "conversation.home_assistant"
        )
        yield (
            home.household,
            {
                "gateway": Gateway(session, url, key.key),
                "agent": Agent(hass, agent_id, tool),
            },
        )


def _print_markdown(results: Results) -> None:
    print("|case|what comes|seen at|gateway|agent|\n|---|---|---|---|---|")
    for case in cases():
        told = results[case.name]
        print(
            f"|{case.name.replace('_', ' ')}|{case.about}|{case.source}"
            f"|{told['gateway']}|{told['agent']}|"
        )
