"""What is left of the accounts when Home Assistant is killed."""

import asyncio
from pathlib import Path

import pytest

from demo.accounts import Account, member_accounts
from demo.api import Connection
from demo.ask import ask
from demo.embedded_engine import embedded_engine
from demo.home_assistant import errors_in
from demo.household import load_household
from demo.onboarding import Server
from demo.people import PARENT
from demo.running import running_demo

from .demo_process import require_engine

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

_MOST_THAT_MAY_BE_LOST_S = 5.0


async def test_usage_of_more_than_five_seconds_ago_survives_a_kill(
    tmp_path: Path, socket_enabled: None
) -> None:
    require_engine()
    async with embedded_engine(context_tokens=8192) as engine:
        server = Server(engine.url)
        async with running_demo(tmp_path, server) as demo:
            parent_id = demo.household.node_ids[PARENT.username]
            process = demo.home_assistant.process
            async with (await demo.log_in(PARENT)).connect() as connection:
                await ask(connection, "What can you do?")
                charged = await _account(connection, parent_id)
                await _wait_until_remembered(tmp_path)
                await asyncio.sleep(_MOST_THAT_MAY_BE_LOST_S)
                unfinished = asyncio.create_task(ask(connection, "Tell me a story."))
                await _wait_for_more(connection, parent_id, charged)
                process.kill()
                await process.wait()
                await asyncio.gather(unfinished, return_exceptions=True)

        async with running_demo(tmp_path, server) as demo:
            async with (await demo.log_in(PARENT)).connect() as connection:
                found = await _account(connection, parent_id)
                answer = await ask(connection, "Are you still there?")
                after = await _account(connection, parent_id)
            errors = errors_in(demo.home_assistant.log)

    assert charged.charge > 0
    assert found.charge >= charged.charge
    assert found.tokens.all >= charged.tokens.all
    assert not answer.failed
    assert after.charge > found.charge
    assert errors == []


async def _wait_until_remembered(folder: Path) -> None:
    """Wait until Home Assistant has written what was set up, in its own time."""
    while load_household(folder) is None:  # noqa: ASYNC110 - another process writes
        await asyncio.sleep(0.1)


async def _account(connection: Connection, member_id: str) -> Account:
    return (await member_accounts(connection))[member_id]


async def _wait_for_more(
    connection: Connection, member_id: str, before: Account
) -> None:
    """Wait until something new is charged: the next answer is under way."""
    charge = before.charge
    while charge <= before.charge:
        await asyncio.sleep(0.1)
        charge = (await _account(connection, member_id)).charge
