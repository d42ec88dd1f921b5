"""How what was written is counted."""

from collections import Counter
from pathlib import Path
import sqlite3

from benchmarks.writes import Home, Written, by_kind, rows_between

HOME = Home(
    {
        "sensor.child_state": "member",
        "sensor.child_tokens": "member",
        "sensor.queue_depth": "household",
        "conversation.fair_share": "agent",
    },
    frozenset({"sensor.child_tokens", "sensor.queue_depth", "sensor.of_others"}),
)


def test_what_is_written_is_put_down_to_the_kind_of_device() -> None:
    written = Written(
        30.0,
        Counter({"sensor.child_state": 6, "sensor.child_tokens": 2, "light.other": 9}),
        Counter({"sensor.child_state": 5, "light.other": 9}),
    )
    rows = by_kind(HOME, written)
    assert set(rows) == {"household", "members", "agents", "all"}
    members = rows["members"]
    assert (members.entities, members.statistics) == (2, 1)
    assert (members.states_per_min, members.busiest_per_min) == (16.0, 12.0)
    assert members.rows_per_h == 600.0
    assert rows["household"].states_per_min == 0
    assert rows["all"].entities == 4
    assert rows["all"].states_per_min == 16.0


def test_rows_are_counted_in_the_recorders_tables(tmp_path: Path) -> None:
    database = tmp_path / "home-assistant_v2.db"
    with sqlite3.connect(database) as connection:
        connection.executescript(
            """
            CREATE TABLE states_meta (metadata_id INTEGER, entity_id TEXT);
            CREATE TABLE states
                (entity_id CHAR(0), metadata_id INTEGER, last_updated_ts REAL);
            INSERT INTO states_meta VALUES (1, 'sensor.a'), (2, 'sensor.b');
            INSERT INTO states (metadata_id, last_updated_ts)
                VALUES (1, 9.9), (1, 10.0), (2, 11.0), (1, 12.5), (1, 20.0);
            """
        )
    connection.close()
    assert rows_between(database, 10.0, 20.0) == {"sensor.a": 2, "sensor.b": 1}
