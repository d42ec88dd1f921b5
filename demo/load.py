"""A busy household for a while: who gets how much of the one language model."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
import json
from pathlib import Path

from rich.live import Live

from .accounts import fairness
from .api import Connection
from .bookkeeper import Bookkeeper
from .clients import Client, chat, speak, summarise
from .metrics import DeferredWatch
from .onboarding import Server
from .people import CHILD, GUEST, PARENT, Person
from .progress import say
from .report import LoadReport
from .running import RunningDemo, running_demo
from .table import console, load_table
from .tally import Tally

_SUMMARIES_OUTSTANDING = 6
_SHOW_INTERVAL_S = 1.0


async def run_load(
    folder: Path, server: Server | None, duration_s: float, *, as_json: bool
) -> None:
    """Let everybody use the model for so long and say what they got.

    Raises ``DemoError``.
    """
    async with running_demo(folder, server) as demo:
        say(
            f"{duration_s:.0f} s of load: {_SUMMARIES_OUTSTANDING} summaries at a time "
            "(guest), a chat (child), questions in the kitchen (parent)"
        )
        report = await use_household(demo, duration_s)
    if as_json:
        print(json.dumps(report.as_json()))
    else:
        _print(report)


async def use_household(demo: RunningDemo, duration_s: float) -> LoadReport:
    """Let everybody use the model for so long; return what they got."""
    household = demo.household
    voice = Tally("voice", household.node_ids[PARENT.username])
    talk = Tally("chat", household.node_ids[CHILD.username])
    background = Tally("background", household.node_ids[GUEST.username], greedy=True)
    deferred = DeferredWatch(demo.session, demo.server)
    async with AsyncExitStack() as stack:

        async def connect(person: Person) -> Connection:
            api = await demo.log_in(person)
            return await stack.enter_async_context(api.connect())

        parent, child, guest = [await connect(p) for p in (PARENT, CHILD, GUEST)]
        books = await Bookkeeper(parent, (voice, talk, background)).begin()
        device, pipeline = (
            household.satellite_device_id,
            household.summaries_pipeline_id,
        )
        await _for_a_while(
            duration_s,
            deferred.run(),
            _show(books),
            speak(Client(parent, voice, books, device_id=device)),
            chat(Client(child, talk, books)),
            summarise(
                Client(guest, background, books, pipeline_id=pipeline),
                _SUMMARIES_OUTSTANDING,
            ),
        )
        await books.refresh()
        gap, bound = await fairness(parent)
    return LoadReport(books.tallies, gap, bound, deferred.maximum)


async def _for_a_while(
    duration_s: float, *activities: Coroutine[None, None, None]
) -> None:
    """Let all of this go on for so long, then cancel it."""
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(duration_s), asyncio.TaskGroup() as tasks:
                for activity in activities:
                    tasks.create_task(activity)
    except ExceptionGroup as group:
        raise _first(group) from group


def _first(error: Exception) -> Exception:
    return _first(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error


async def _show(books: Bookkeeper) -> None:
    screen = console(to_stderr=True)
    if not screen.is_terminal:
        return
    with Live(console=screen, auto_refresh=False, transient=True) as live:
        while True:
            await books.refresh()
            table = load_table(books.tallies, "The household so far")
            live.update(table, refresh=True)
            await asyncio.sleep(_SHOW_INTERVAL_S)


def _print(report: LoadReport) -> None:
    table = load_table(report.tallies, "What each class got", report.entitled())
    console().print(table)
    deferred = report.deferred_in_engine
    print(
        f"Fairness gap: {report.fairness_gap:,.0f} weighted tokens, "
        f"bound: {report.bound:,.0f}. Most requests ever waiting inside the engine: "
        f"{'it does not tell' if deferred is None else deferred}."
    )
