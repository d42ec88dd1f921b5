"""Runs what the command line asks for; see docs/demo.md."""

import argparse
import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
import signal
import sys

from .command_line import parse
from .errors import DemoError
from .interactive import be_there_to_talk_to
from .load import run_load
from .onboarding import Server
from .once import run_once
from .people import PARENT, find_person
from .progress import say
from .state import DEFAULT_FOLDER, kept_folder, passing_folder

_STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Run the demo and return its exit code."""
    try:
        return asyncio.run(_run(parse()))
    except DemoError as error:
        print(error.explain(), file=sys.stderr)
        return error.exit_code


async def _run(arguments: argparse.Namespace) -> int:
    member = arguments.member
    asker = PARENT if member is None else find_person(member)
    server = (
        Server(arguments.server, arguments.api_key, can_use_tools=True)
        if arguments.server
        else None
    )
    headless = arguments.load or arguments.once is not None
    with (
        _stopped_by_signals() as stopped_by,
        _folder(arguments, headless=headless) as folder,
    ):
        try:
            if arguments.once is not None:
                await run_once(
                    folder, server, asker, arguments.once, as_json=arguments.json
                )
            elif arguments.load:
                await run_load(
                    folder, server, arguments.seconds, as_json=arguments.json
                )
            else:
                await be_there_to_talk_to(folder, server)
        except asyncio.CancelledError:
            if not stopped_by:
                raise
            say("Everything is stopped")
            return 128 + stopped_by[0] if headless else 0
    return 0


@contextmanager
def _folder(arguments: argparse.Namespace, *, headless: bool) -> Iterator[Path]:
    if headless and arguments.state is None:
        with passing_folder() as folder:
            yield folder
    else:
        with kept_folder(
            (arguments.state or DEFAULT_FOLDER).resolve(), fresh=arguments.fresh
        ) as folder:
            yield folder


@contextmanager
def _stopped_by_signals() -> Iterator[list[int]]:
    """Let the first stopping signal cancel the current task; yields which it was."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    received: list[int] = []

    def stop(number: int) -> None:
        if not received and task is not None:
            say("Stopping")
            task.cancel()
        received.append(number)

    for number in _STOPPING_SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        yield received
    finally:
        for number in _STOPPING_SIGNALS:
            loop.remove_signal_handler(number)


if __name__ == "__main__":
    sys.exit(main())
