"""All that runs during a demo: an engine, Home Assistant, the household in it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
import shutil
from typing import Self

import aiohttp
from yarl import URL

from .api import Api, ApiError
from .embedded_engine import EngineMissingError, embedded_engine
from .errors import DemoError
from .home_assistant import (
    RunningHomeAssistant,
    config_folder,
    running_home_assistant,
    wait_until_unused,
)
from .household import Household, load_household
from .onboarding import Server, onboard, point_at, wait_until_running
from .people import PARENT, Person, log_in
from .ports import free_port
from .progress import say

_SLOTS = 2
_CONTEXT_TOKENS = 8192
_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class RunningDemo:
    """A household that can be talked to."""

    home_assistant: RunningHomeAssistant
    household: Household
    server: Server
    session: aiohttp.ClientSession

    async def log_in(self, person: Person) -> Api:
        """Log in as this person."""
        return await log_in(self.session, self.home_assistant.url, person)


@asynccontextmanager
async def running_demo(
    folder: Path, server: Server | None, *, preferred_port: int = 0
) -> AsyncIterator[RunningDemo]:
    """Start all of it, with its state in this folder; stop all of it on leaving.

    Without a server of the user's own an embedded one is started. Raises ``DemoError``.
    """
    await wait_until_unused(folder)
    saved = load_household(folder)
    if saved is None:
        # Whatever is there was not completed.
        shutil.rmtree(config_folder(folder))
    async with AsyncExitStack() as stack:
        if server is None:
            server = await stack.enter_async_context(_embedded_server(saved))
        say("Starting Home Assistant")
        memory = stack.enter_context(_Memory(folder))
        home_assistant = await stack.enter_async_context(
            running_home_assistant(folder, preferred_port=preferred_port)
        )
        session = await stack.enter_async_context(aiohttp.ClientSession())
        try:
            household = await _household(session, home_assistant.url, saved, server)
            memory.keep(household, home_assistant.storage)
            yield RunningDemo(home_assistant, household, server, session)
        except ApiError as error:
            raise DemoError(
                f"Home Assistant refused: {error}", log=home_assistant.log
            ) from error


class _Memory:
    """Remembers a household for the next run as soon as it would outlive a kill.

    To be left after Home Assistant has stopped, which makes it write what it has.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._watching: asyncio.Task[None] | None = None
        self._save: Callable[[], bool] = lambda: False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._watching is not None:
            self._watching.cancel()
        self._save()

    def keep(self, household: Household, storage: Path) -> None:
        """Save this household when all of it is in Home Assistant's files."""

        def save() -> bool:
            if written := household.is_written(storage):
                household.save(self._folder)
            return written

        self._save = save
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            if self._save():
                return
            await asyncio.sleep(_POLL_S)


@asynccontextmanager
async def _embedded_server(saved: Household | None) -> AsyncIterator[Server]:
    say(f"Starting a language model server: SmolLM2-135M, {_SLOTS} slots")
    # The saved household looks for its server where it was.
    port = free_port((URL(saved.server_url).port or 0) if saved else 0)
    try:
        async with embedded_engine(
            port=port, slots=_SLOTS, context_tokens=_CONTEXT_TOKENS
        ) as engine:
            yield Server(engine.url, declared={"memory": "separate"})
    except EngineMissingError as error:
        raise DemoError(
            f"The embedded language model server cannot be had: {error}. "
            "Use your own with --server URL."
        ) from error


async def _household(
    session: aiohttp.ClientSession, url: str, saved: Household | None, server: Server
) -> Household:
    if saved is None:
        say("Setting up the household: people, a satellite, Fair Share")
        return await onboard(session, url, server)
    api = await log_in(session, url, PARENT)
    async with api.connect() as connection:
        await wait_until_running(connection)
    if server.url == saved.server_url:
        return saved
    return await point_at(api, saved, server)
