"""The demo's command line; see docs/demo.md."""

import argparse
import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
import signal
import sys

from .errors import DemoError
from .interactive import be_there_to_talk_to
from .load import run_load
from .onboarding import Server
from .once import run_once
from .people import PEOPLE, find_person
from .progress import say
from .state import DEFAULT_FOLDER, kept_folder, passing_folder

_STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Run the demo and return its exit code."""
    try:
        return asyncio.run(_run(_parse()))
    except DemoError as error:
        print(error.explain(), file=sys.stderr)
        return error.exit_code


def _parse() -> argparse.Namespace:
    members = ", ".join(person.username for person in PEOPLE)
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="Run a Home Assistant in which a household shares one language "
        "model fairly, and print where it is. Ctrl-C stops everything.",
    )
    parser.add_argument("--once", metavar="TEXT", help="ask one question and exit")
    parser.add_argument(
        "--as", dest="member", default="parent", help=f"who asks: {members}"
    )
    parser.add_argument(
        "--load", action="store_true", help="let the whole household use it for a while"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long --load lasts"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the result as one JSON object"
    )
    parser.add_argument("--server", metavar="URL", help="use this server, not our own")
    parser.add_argument("--api-key", metavar="KEY", help="the key of that server")
    parser.add_argument(
        "--state", type=Path, metavar="DIR", help=f"where it is kept ({DEFAULT_FOLDER})"
    )
    parser.add_argument("--fresh", action="store_true", help="forget earlier runs")
    return _checked(parser, parser.parse_args())


def _checked(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace
) -> argparse.Namespace:
    if arguments.load and arguments.once is not None:
        parser.error("--once and --load are two different things: choose one")
    if arguments.json and not (arguments.load or arguments.once is not None):
        parser.error("--json goes with --once or --load")
    if arguments.api_key and not arguments.server:
        parser.error("--api-key goes with --server")
    if arguments.seconds <= 0:
        parser.error("--seconds must be more than 0")
    return arguments


async def _run(arguments: argparse.Namespace) -> int:
    asker = find_person(arguments.member)
    server = (
        Server(arguments.server, arguments.api_key, can_use_tools=True)
        if arguments.server
        else None
    )
    headless = arguments.load or arguments.once is not None
    with _stopped_by_signals() as stopped_by, _folder(arguments, headless) as folder:
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
def _folder(arguments: argparse.Namespace, headless: bool) -> Iterator[Path]:  # noqa: FBT001
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
