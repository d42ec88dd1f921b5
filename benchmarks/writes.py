"""How much is written: changes of state, and the rows that the recorder makes of them.

The demo's household (a real Home Assistant with its recorder and SQLite, a real engine)
is first left alone, then used by everybody as with ``scripts/demo --load``.
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
import json
import os
from pathlib import Path
import sqlite3
from time import time
from typing import Any

from demo.api import Connection
from demo.errors import DemoError
from demo.load import use_household
from demo.people import PARENT
from demo.running import RunningDemo, running_demo
from demo.state import passing_folder

from .tables import Column, print_table

_DOMAIN = "fair_share"
_WARM_UP_S = 30.0
_COMMITTED_S = 7.0
"""The recorder commits what it has every five seconds."""

_KINDS = {
    "household": "household",
    "member": "members",
    "device": "devices",
    "client": "clients",
    "workload": "kinds of requests",
    "server": "servers",
    "agent": "agents",
}
"""The kinds of devices that entities belong to, and what they are called."""

_COLUMNS = [
    Column("entities", "entities", 0),
    Column("with statistics", "statistics", 0),
    Column("states/min", "states_per_min", 1),
    Column("busiest entity/min", "busiest_per_min", 1),
    Column("rows/h", "rows_per_h", 0),
]


@dataclass(frozen=True, slots=True)
class Row:
    """What the entities of one kind wrote; ``statistics``: in long-term statistics."""

    entities: int
    statistics: int
    states_per_min: float
    busiest_per_min: float
    rows_per_h: float


@dataclass(frozen=True, slots=True)
class Home:
    """The enabled entities by the kind of their device, and those with statistics."""

    kind_of: Mapping[str, str]
    with_statistics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Written:
    """Of each entity: its changes of state in so many seconds, and its rows."""

    seconds: float
    states: Counter[str]
    rows: Counter[str]


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this benchmark to the command line."""
    parser = benchmarks.add_parser("writes", help=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--markdown", action="store_true", help="print for the docs")
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="of load that count (120)"
    )
    parser.add_argument(
        "--idle", type=float, default=60.0, help="seconds without any load (60)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    try:
        rows = asyncio.run(_measure(arguments.idle, arguments.seconds))
    except DemoError as error:
        raise SystemExit(error.explain()) from error
    load_average = os.getloadavg()[0]
    if arguments.json:
        named = {name: asdict(row) for name, row in rows.items()}
        print(json.dumps({"load_average": load_average, "rows": named}))
        return
    print_table("written", rows, _COLUMNS, markdown=arguments.markdown)
    print(f"\nload average {load_average:.1f}")


async def _measure(idle_s: float, load_s: float) -> dict[str, Row]:
    with passing_folder() as folder:
        async with running_demo(folder, None) as demo:
            api = await demo.log_in(PARENT)
            async with api.connect() as connection:
                home = await _home(connection)
                await asyncio.sleep(_WARM_UP_S)  # what follows a start
                idle = await _watch(connection, demo, asyncio.sleep(idle_s))
                load = asyncio.create_task(use_household(demo, _WARM_UP_S + load_s))
                await asyncio.sleep(_WARM_UP_S)
                busy = await _watch(connection, demo, load)
    return {"idle: all": total(home, idle)} | {
        f"load: {name}": row for name, row in by_kind(home, busy).items()
    }


async def _home(connection: Connection) -> Home:
    devices = await connection.command(f"{_DOMAIN}/devices")
    kinds = {device: kind for kind, ids in devices.items() for device in ids}
    entities = await connection.command("config/entity_registry/list")
    statistics = await connection.command("recorder/list_statistic_ids")
    return Home(
        {
            entity["entity_id"]: kinds.get(entity["device_id"], "agent")
            for entity in entities
            if entity["platform"] == _DOMAIN and entity["disabled_by"] is None
        },
        frozenset(each["statistic_id"] for each in statistics),
    )


async def _watch(
    connection: Connection, demo: RunningDemo, activity: Awaitable[object]
) -> Written:
    """Count while this goes on."""
    states: Counter[str] = Counter()

    async def count() -> None:
        async for event in connection.events(
            "subscribe_events", event_type="state_changed"
        ):
            states[event["data"]["entity_id"]] += 1

    counting = asyncio.create_task(count())
    begin = time()
    await activity
    end = time()
    counting.cancel()
    await asyncio.sleep(_COMMITTED_S)
    database = demo.home_assistant.storage.parent / "home-assistant_v2.db"
    rows = await asyncio.to_thread(rows_between, database, begin, end)
    return Written(end - begin, states, rows)


def rows_between(database: Path, begin: float, end: float) -> Counter[str]:
    """Count each entity's rows in the recorder's table of states, by Unix times."""
    uri = f"{database.as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        found = connection.execute(
            "SELECT states_meta.entity_id, count(*) FROM states"
            " JOIN states_meta USING (metadata_id)"
            " WHERE last_updated_ts >= ? AND last_updated_ts < ?"
            " GROUP BY states_meta.entity_id",
            (begin, end),
        )
        return Counter(dict(found.fetchall()))


def by_kind(home: Home, written: Written) -> dict[str, Row]:
    """Return a row for each kind of devices that is there, and one for all."""
    rows = {
        title: _row(home, written, {e for e, k in home.kind_of.items() if k == kind})
        for kind, title in _KINDS.items()
    }
    return {title: row for title, row in rows.items() if row.entities} | {
        "all": total(home, written)
    }


def total(home: Home, written: Written) -> Row:
    """Return the row of all entities."""
    return _row(home, written, set(home.kind_of))


def _row(home: Home, written: Written, entities: set[str]) -> Row:
    states = [written.states[entity] for entity in entities]
    return Row(
        entities=len(entities),
        statistics=len(home.with_statistics & entities),
        states_per_min=60 * sum(states) / written.seconds,
        busiest_per_min=60 * max(states, default=0) / written.seconds,
        rows_per_h=3600 * sum(written.rows[e] for e in entities) / written.seconds,
    )
