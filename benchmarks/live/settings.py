"""How the benchmarks before real servers are run."""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from demo.embedded_engine import EmbeddedEngine, embedded_engine

_BATCH_OF_THE_ENGINE = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """What the embedded engine may use. ``batch`` 0: as the engine comes (2048/512)."""

    threads: int = 2
    batch: int = _BATCH_OF_THE_ENGINE

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> Machine:
        """Return what was asked for on the command line."""
        return cls(arguments.threads, arguments.batch)

    @asynccontextmanager
    async def engine(
        self, *, slots: int, context: int, unified: bool = False, port: int = 0
    ) -> AsyncIterator[EmbeddedEngine]:
        """Run an engine with so many tokens of context in each slot.

        ``unified``: all slots share so many. Raises ``EngineMissingError``.
        """
        async with embedded_engine(
            port=port,
            slots=slots,
            context_tokens=context if unified else slots * context,
            unified=unified,
            threads=self.threads,
            batch_tokens=self.batch,
        ) as engine:
            yield engine


def add_engine_options(
    parser: argparse.ArgumentParser, *, threads: str = "of each engine"
) -> None:
    """Add what ``Machine`` wants to know."""
    usual = Machine()
    parser.add_argument("--threads", type=int, default=usual.threads, help=threads)
    parser.add_argument(
        "--batch",
        type=int,
        default=usual.batch,
        help="tokens of prompts an engine computes in one go (its -b and -ub); "
        "by default as it comes, 2048 and 512",
    )


def add_run_options(
    parser: argparse.ArgumentParser, *, what: str = "medians of so many runs"
) -> None:
    """Add how often, and how the result is printed."""
    parser.add_argument("--runs", type=int, default=3, help=f"{what}, by default 3")
    parser.add_argument(
        "--quick", action="store_true", help="one short run, to see that it works"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def check(arguments: argparse.Namespace, *names: str) -> None:
    """End with a usage message where a number is not more than 0."""
    parser: Any = arguments.parser
    for name in names:
        if getattr(arguments, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} has to be more than 0")
