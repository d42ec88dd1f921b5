"""What becomes of ten answers when a server fails in the middle of them.

The first server is killed and stays away, is stopped for three seconds and continued,
or is killed and started again; with this one server, and with a second one beside it.
Afterwards it is there again, and slots and accounts are looked at.
"""

import argparse
import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from math import isclose
import os
import signal
from typing import Any

from custom_components.fair_share.admission.model import Workload
from custom_components.fair_share.const import CONF_PATIENCE, CONF_WORKLOADS
from custom_components.fair_share.household.runtime import Household
from demo.embedded_engine import EmbeddedEngine

from ..tables import Column, print_table
from .home import MEMBERS, Home, Server, running_home, until
from .prompts import Prompts
from .served import Served, follow
from .settings import Machine, add_engine_options, add_run_options, check
from .sides import Queued, client_of

_STREAMS = 10
_SLOTS = 4
_CONTEXT = 1024
_PROMPT_TOKENS = 60
_OUTPUT_TOKENS = 120
_BEGUN_PIECES = 15
_STOPPED_S = 3.0
_PATIENCE_S = 10.0
_HUNG_AFTER_S = 120.0
_SETTLE_S = 20.0
_WORKLOADS = (
    Workload.BACKGROUND,
    Workload.BACKGROUND,
    Workload.CHAT,
    Workload.CHAT,
)
_FAULTS = ("kill", "stop_continue", "restart")
_COUNTS = {1: "one_server", 2: "two_servers"}
_COLUMNS = (
    Column("streams", "streams", 0),
    Column("whole", "whole", 0),
    Column("clear error", "clear_error", 0),
    Column("unclear error", "unclear_error", 0),
    Column("hung", "hung", 0),
    Column("leaked slots", "leaked_slots", 0),
    Column("wrong accounts", "wrong_accounts", 0),
    Column("longest s", "longest_s", 1),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One fault, all runs together.

    ``whole``: every token that was asked for came and was counted, in one text with an
    end. ``clear_error``: a typed refusal or failure. ``hung``: neither, long after the
    fault. ``leaked_slots`` could not be used any more afterwards. ``wrong_accounts``:
    runs in which a node's charge was not the sum of those below it, or the household's
    not the sum of all requests'.
    """

    streams: int
    whole: int
    clear_error: int
    unclear_error: int
    hung: int
    leaked_slots: int
    wrong_accounts: int
    longest_s: float


@dataclass(frozen=True, slots=True)
class Result:
    """All faults by name."""

    rows: dict[str, Row]
    load_average: float

    def as_json(self) -> dict[str, Any]:
        """Return the machine-readable form: faults only."""
        return {name: asdict(row) for name, row in self.rows.items()}

    def print(self) -> None:
        """Print the table."""
        print_table("fault", self.rows, _COLUMNS)
        print(f"load average before {self.load_average:.2f}")


@dataclass(frozen=True, slots=True)
class _Seen:
    """One run of one fault."""

    answers: tuple[Served, ...]
    unclear: int
    hung: int
    leaked: int
    accounts_exact: bool


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this benchmark to the command line."""
    parser = benchmarks.add_parser("faults", help=__doc__.splitlines()[0])
    parser.add_argument(
        "--fault", choices=_FAULTS, action="append", help="only this one, repeatable"
    )
    add_run_options(parser, what="so many runs, counted together")
    add_engine_options(parser, threads="of all engines together")
    parser.set_defaults(measure=measure, parser=parser)


async def measure(arguments: argparse.Namespace, tell: Callable[[str], None]) -> Result:
    """Have all faults happen. Raises what ``run`` of the command catches."""
    check(arguments, "runs", "threads")
    load = os.getloadavg()[0]
    machine = Machine.from_arguments(arguments)
    runs = 1 if arguments.quick else arguments.runs
    seen: dict[str, list[_Seen]] = {}
    for number in range(runs):
        for servers, count in _COUNTS.items():
            for fault in arguments.fault or _FAULTS:
                name = f"{fault}_{count}"
                tell(f"run {number + 1} of {runs}, {name}")
                trial = _Trial(machine, fault, servers, number)
                seen.setdefault(name, []).append(await trial.run())
    return Result({name: _row(runs_of) for name, runs_of in seen.items()}, load)


class _Trial:
    """Ten answers, a fault in the middle of them, and what is left afterwards."""

    def __init__(self, machine: Machine, fault: str, servers: int, seed: int) -> None:
        # Engines whose threads outnumber the cores wait for each other more than they
        # compute: all of them together have what one has.
        self._machine = replace(machine, threads=max(1, machine.threads // servers))
        self._fault = fault
        self._servers = servers
        self._seed = seed
        self._answers: list[Served] = []
        self._unclear = 0

    async def run(self) -> _Seen:
        """Run it once."""
        async with AsyncExitStack() as stack:
            engines = [await self._start(stack) for _ in range(self._servers)]
            victim = engines[0]
            servers = [Server(engine.url) for engine in engines]
            async with client_of(servers[0]) as client:
                prompts = await Prompts.for_engine(client, self._seed)
            patience = {each.value: {CONF_PATIENCE: _PATIENCE_S} for each in Workload}
            home = await stack.enter_async_context(
                running_home(servers, {CONF_WORKLOADS: patience})
            )
            tasks = self._ask(home, prompts)
            await until(lambda: self._in_the_middle() or all(t.done() for t in tasks))
            if self._fault == "stop_continue":
                await _stop_and_continue(victim)
            else:
                os.kill(victim.pid, signal.SIGKILL)
            if self._fault == "restart":
                await self._start(stack, victim)
            _, hung = await asyncio.wait(tasks, timeout=_HUNG_AFTER_S)
            for task in hung:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._fault == "kill":
                await self._start(stack, victim)
            leaked = await self._leaked(home, prompts)
            return _Seen(
                tuple(self._answers),
                self._unclear,
                len(hung),
                leaked,
                accounts_exact(home.household),
            )

    async def _start(
        self, stack: AsyncExitStack, old: EmbeddedEngine | None = None
    ) -> EmbeddedEngine:
        """Start a server, where the ``old`` one listened if there was one."""
        port = int(old.url.rpartition(":")[2]) if old else 0
        return await stack.enter_async_context(
            self._machine.engine(slots=_SLOTS, context=_CONTEXT, port=port)
        )

    def _ask(self, home: Home, prompts: Prompts) -> list[asyncio.Task[None]]:
        """Have every member ask for chats and for background work."""
        tasks = []
        for number in range(_STREAMS):
            member = MEMBERS[number % len(MEMBERS)]
            workload = _WORKLOADS[number % len(_WORKLOADS)]
            served = Served(workload, member, _PROMPT_TOKENS, fresh=True)
            self._answers.append(served)
            tasks.append(asyncio.create_task(self._follow(home, prompts, served)))
        return tasks

    async def _follow(self, home: Home, prompts: Prompts, served: Served) -> None:
        request = prompts.fresh(_PROMPT_TOKENS, _OUTPUT_TOKENS)
        opened = Queued(home).open(served.workload, served.member, request)
        try:
            await follow(opened, served)
        except Exception:  # noqa: BLE001 - whatever it is, nobody could tell a client
            self._unclear += 1

    def _in_the_middle(self) -> bool:
        return any(len(each.times) >= _BEGUN_PIECES for each in self._answers)

    async def _leaked(self, home: Home, prompts: Prompts) -> int:
        """Return how many slots can't be used, with as many requests as there are."""
        household, slots = home.household, _SLOTS * self._servers
        most = 0

        def all_run() -> bool:
            nonlocal most
            most = max(most, household.status().running)
            return most == slots

        ready = asyncio.timeout(_SETTLE_S)
        try:
            async with ready:
                await until(
                    lambda: (
                        len([*household.servers.ready()]) == self._servers
                        and household.status().running
                        == household.status().waiting
                        == 0
                    )
                )
        except TimeoutError:
            return slots
        # A server that failed gets one request at a time until it has answered one.
        await asyncio.gather(*self._speak(home, prompts, slots, 1))
        tasks = self._speak(home, prompts, slots, 4 * _OUTPUT_TOKENS)
        try:
            async with asyncio.timeout(_SETTLE_S):
                await until(all_run)
        except TimeoutError:
            pass
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return slots - most

    def _speak(
        self, home: Home, prompts: Prompts, commands: int, output: int
    ) -> list[asyncio.Task[None]]:
        """Have so many voice commands answered at once."""
        return [
            asyncio.create_task(
                follow(
                    Queued(home).open(
                        Workload.VOICE,
                        MEMBERS[0],
                        prompts.fresh(_PROMPT_TOKENS, output),
                    ),
                    Served(Workload.VOICE, MEMBERS[0], _PROMPT_TOKENS),
                )
            )
            for _ in range(commands)
        ]


async def _stop_and_continue(engine: EmbeddedEngine) -> None:
    os.kill(engine.pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(_STOPPED_S)
    finally:
        os.kill(engine.pid, signal.SIGCONT)


def accounts_exact(household: Household) -> bool:
    """Whether every charge is the sum of those below it, and of all requests."""
    nodes = [
        household.node_status(each.node_id)
        for each in household.queue.export_state().nodes
    ]
    below: dict[str, float] = {}
    for node in nodes:
        if node.parent_id is not None:
            below[node.parent_id] = below.get(node.parent_id, 0.0) + node.charge
    total = sum(record.charge for record in household.records())
    (root,) = (node for node in nodes if node.parent_id is None)
    sums = [
        (node.charge, below[node.node_id]) for node in nodes if node.node_id in below
    ]
    return all(
        isclose(charge, expected, abs_tol=1e-6)
        for charge, expected in (*sums, (root.charge, total))
    )


def _row(runs: Iterable[_Seen]) -> Row:
    runs = list(runs)
    answers = [served for run in runs for served in run.answers]
    return Row(
        streams=len(answers),
        whole=sum(served.whole_with(_OUTPUT_TOKENS) for served in answers),
        clear_error=sum(served.error is not None for served in answers),
        unclear_error=sum(run.unclear for run in runs),
        hung=sum(run.hung for run in runs),
        leaked_slots=sum(run.leaked for run in runs),
        wrong_accounts=sum(not run.accounts_exact for run in runs),
        longest_s=max(
            (each.ended_s or each.asked_s) - each.asked_s for each in answers
        ),
    )
