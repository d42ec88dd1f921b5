"""Real servers, with and without the queue: ``scripts/bench live NAME [--json]``."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
import json
import sys
from typing import Any, Protocol

from custom_components.fair_share.engines.base import EngineError
from demo.embedded_engine import EngineMissingError

from ..terminal import Progress
from . import faults, household, memory, prefill, vllm
from .home import NotReadyError

_INTERRUPTED = 130


class Result(Protocol):
    """What a benchmark found out."""

    def as_json(self) -> dict[str, Any]:
        """Return the machine-readable form."""
        ...

    def print(self) -> None:
        """Print it for a person."""
        ...


type Measure = Callable[[argparse.Namespace, Callable[[str], None]], Awaitable[Result]]


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add all of them to the command line."""
    parser = benchmarks.add_parser("live", help=__doc__.splitlines()[0])
    parts = parser.add_subparsers(required=True, metavar="NAME")
    for part in (household, prefill, memory, faults, vllm):
        part.add_to(parts)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Measure and print; end with a clear message where there is no engine."""
    measure: Measure = arguments.measure
    try:
        with Progress(arguments.parser.prog.partition(" ")[2]) as progress:
            result = asyncio.run(_measure(measure, arguments, progress.tell))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except (EngineMissingError, EngineError, NotReadyError) as err:
        sys.exit(f"{arguments.parser.prog}: {err}")
    if arguments.json:
        print(json.dumps(result.as_json()))
    else:
        result.print()


async def _measure(
    measure: Measure, arguments: argparse.Namespace, tell: Callable[[str], None]
) -> Result:
    return await measure(arguments, tell)
