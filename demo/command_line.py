"""The demo's command line; see docs/demo.md."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from .people import PARENT, PEOPLE
from .state import DEFAULT_FOLDER


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what is asked for; exits with code 2 and a sentence if it is wrong."""
    parser = command_line()
    return _checked(parser, parser.parse_args(arguments))


def command_line() -> argparse.ArgumentParser:
    """Return the options. ``scripts/demo`` lists them too, for before the set-up."""
    members = ", ".join(person.username for person in PEOPLE)
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="Run a Home Assistant in which a household shares one language "
        "model fairly, and print where it is. Ctrl-C stops everything.",
    )
    parser.add_argument("--once", metavar="TEXT", help="ask one question and exit")
    parser.add_argument(
        "--as",
        dest="member",
        help=f"who asks with --once: {members} (if not given: {PARENT.username})",
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
    return parser


def _checked(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace
) -> argparse.Namespace:
    once = arguments.once is not None
    if once and not arguments.once.strip():
        parser.error("there is nothing to ask: --once needs a question")
    if arguments.load and once:
        parser.error("--once and --load are two different things: choose one")
    if arguments.member is not None and not once:
        parser.error("--as goes with --once")
    if arguments.json and not (arguments.load or once):
        parser.error("--json goes with --once or --load")
    if arguments.api_key and not arguments.server:
        parser.error("--api-key goes with --server")
    if arguments.seconds <= 0:
        parser.error("--seconds must be more than 0")
    return arguments
