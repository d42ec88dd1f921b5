"""The accounts survive restarts, kills and broken files. These tests use real files."""
# ruff: noqa: ASYNC240 - files of a few bytes in a temporary folder

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
import json
import logging
from pathlib import Path
from typing import Any

from freezegun.api import FrozenDateTimeFactory
from homeassistant.config_entries import ConfigEntryState
from homeassistant.const import EVENT_HOMEASSISTANT_FINAL_WRITE
from homeassistant.core import CoreState, HomeAssistant
from homeassistant.exceptions import ConfigEntryNotReady
from homeassistant.setup import async_setup_component
import pytest
from pytest_homeassistant_custom_component.common import async_fire_time_changed

from custom_components.fair_share.admission.model import QuotaWindow, TokenCount
from custom_components.fair_share.admission.state import LedgerState, NodeState
from custom_components.fair_share.household.ledger import Ledger
from tests.common import ENTRY_ID, household_entry, member

ANNA = NodeState(
    node_id="parent",
    tokens=TokenCount(1200, 300, 450),
    charge=2130.5,
    counter=1065.25,
    virtual_time=900.125,
    requests=7,
    rejected=1,
    preemptions=3,
    window=QuotaWindow.WEEK,
    window_started_at=datetime(2026, 11, 29, 22, 0, tzinfo=UTC),
    used_tokens=1650,
    granted_tokens=500,
    bucket_tokens=12.5,
    bucket_at=datetime(2026, 11, 30, 8, 30, tzinfo=UTC),
)
STATE = LedgerState((ANNA, replace(ANNA, node_id="parent/direct/chat", requests=2)))

type Elapse = Callable[[float], Awaitable[None]]


@pytest.fixture(name="hass_storage")
def fixture_hass_storage() -> dict[str, Any]:
    """Replace the storage in memory: files here are real."""
    return {}


@pytest.fixture(name="hass_config_dir")
def fixture_hass_config_dir(hass_tmp_config_dir: str) -> str:
    return hass_tmp_config_dir


@pytest.fixture(name="file")
def fixture_file(hass: HomeAssistant) -> Path:
    path = Path(hass.config.path(".storage", f"fair_share.{ENTRY_ID}"))
    path.parent.mkdir(exist_ok=True)
    return path


@pytest.fixture(name="elapse")
def fixture_elapse(hass: HomeAssistant, freezer: FrozenDateTimeFactory) -> Elapse:
    """Let so many seconds pass."""

    async def elapse(seconds: float) -> None:
        freezer.tick(seconds)
        async_fire_time_changed(hass)
        await hass.async_block_till_done()

    return elapse


@pytest.fixture(name="books")
def fixture_books() -> dict[str, LedgerState]:
    """The accounts as they are ``now`` in the process."""
    return {"now": STATE}


@pytest.fixture(name="ledger")
def fixture_ledger(hass: HomeAssistant, books: dict[str, LedgerState]) -> Ledger:
    """A ledger that keeps the books."""
    ledger = Ledger(hass, ENTRY_ID)
    ledger.start(lambda: books["now"])
    return ledger


async def stored(hass: HomeAssistant) -> LedgerState | None:
    """Return what a process that started now would find."""
    return await Ledger(hass, ENTRY_ID).async_load()


def charge(books: dict[str, LedgerState], amount: float) -> None:
    books["now"] = LedgerState((replace(ANNA, charge=amount),))


async def test_without_a_file_there_are_no_accounts(
    hass: HomeAssistant, file: Path
) -> None:
    assert await stored(hass) is None


async def test_what_is_written_is_read_again(
    hass: HomeAssistant, file: Path, ledger: Ledger
) -> None:
    ledger.mark_dirty()
    await ledger.async_stop()
    assert await stored(hass) == STATE


async def test_a_killed_process_loses_three_seconds_at_most(
    hass: HomeAssistant,
    file: Path,
    ledger: Ledger,
    books: dict[str, LedgerState],
    elapse: Elapse,
) -> None:
    for second in range(1, 11):  # it is never quiet, as during a long answer
        charge(books, second)
        ledger.mark_dirty()
        await elapse(1)

    found = await stored(hass)

    assert found is not None
    assert found.nodes[0].charge >= 7
    await ledger.async_stop()


async def test_a_burst_of_changes_is_written_once(
    hass: HomeAssistant, file: Path, ledger: Ledger, elapse: Elapse
) -> None:
    for _ in range(1000):
        ledger.mark_dirty()
    await elapse(3)
    first = file.stat().st_mtime_ns
    await elapse(60)
    assert file.stat().st_mtime_ns == first


async def test_what_changed_is_written_when_home_assistant_stops(
    hass: HomeAssistant, file: Path, ledger: Ledger
) -> None:
    ledger.mark_dirty()
    hass.set_state(CoreState.final_write)
    hass.bus.async_fire_internal(EVENT_HOMEASSISTANT_FINAL_WRITE)
    await hass.async_block_till_done()
    assert await stored(hass) == STATE
    await ledger.async_stop()


async def test_a_timer_during_the_stop_does_not_lose_the_change(
    hass: HomeAssistant, file: Path, ledger: Ledger, elapse: Elapse
) -> None:
    ledger.mark_dirty()
    hass.set_state(CoreState.stopping)
    await elapse(3)
    hass.set_state(CoreState.final_write)
    hass.bus.async_fire_internal(EVENT_HOMEASSISTANT_FINAL_WRITE)
    await hass.async_block_till_done()
    assert await stored(hass) == STATE


async def test_nothing_is_written_when_nothing_changed(
    hass: HomeAssistant, file: Path, ledger: Ledger
) -> None:
    await ledger.async_stop()
    assert not file.exists()


async def test_nothing_is_written_after_the_end(
    hass: HomeAssistant, file: Path, ledger: Ledger, elapse: Elapse
) -> None:
    await ledger.async_stop()
    ledger.mark_dirty()
    await elapse(60)
    assert not file.exists()


async def test_a_write_leaves_no_half_file_beside_it(
    hass: HomeAssistant, file: Path, ledger: Ledger
) -> None:
    ledger.mark_dirty()
    await ledger.async_stop()
    assert [path.name for path in file.parent.glob("fair_share*")] == [file.name]


async def test_the_accounts_of_a_removed_household_are_deleted(
    hass: HomeAssistant, file: Path, ledger: Ledger
) -> None:
    ledger.mark_dirty()
    await ledger.async_stop()
    await Ledger(hass, ENTRY_ID).async_remove()
    assert not file.exists()


def envelope(data: object, version: int = 1, minor_version: int = 3) -> str:
    return json.dumps(
        {
            "version": version,
            "minor_version": minor_version,
            "key": f"fair_share.{ENTRY_ID}",
            "data": data,
        }
    )


async def written(hass: HomeAssistant, ledger: Ledger, file: Path) -> dict[str, Any]:
    """Return the data of a file that a ledger wrote."""
    ledger.mark_dirty()
    await ledger.async_stop()
    text = await hass.async_add_executor_job(file.read_text)
    return json.loads(text)["data"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("\0" * 64, id="zeroed"),
        pytest.param('{"version": 1, "da', id="cut"),
        pytest.param("[]", id="a list"),
        pytest.param('{"data": {}}', id="no version"),
        pytest.param(envelope({}), id="no nodes"),
        pytest.param(envelope({"nodes": [{"node_id": "parent"}]}), id="half a node"),
        pytest.param(envelope({"nodes": 5}), id="a number for nodes"),
        pytest.param(envelope({"nodes": [None]}), id="no node"),
        pytest.param(envelope({"nodes": []}, version=2), id="from a later version"),
    ],
)
async def test_a_file_that_cannot_be_understood_is_kept_and_the_accounts_start_afresh(
    hass: HomeAssistant, file: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    file.write_text(text)

    assert await stored(hass) is None

    kept = [path.read_text() for path in file.parent.glob(f"{file.name}.*")]
    assert kept == [text]
    assert not file.exists()
    assert any(
        record.levelno >= logging.WARNING and ENTRY_ID in record.getMessage()
        for record in caplog.records
    )


@pytest.mark.parametrize(
    "broken",
    [
        {"charge": None},
        {"requests": "many"},
        {"window": "fortnight"},
        {"window_started_at": "2026-11-29T22:00:00"},
        {"tokens": [1, 2, 3]},
        {"charge": "nan"},
        {"counter": "inf"},
        {"virtual_time": "-inf"},
        {"used_tokens": -1},
        {"preemptions": -1},
        {"bucket_tokens": "nan"},
        {"bucket_at": "yesterday"},
        {"window_started_at": "0001-01-01T00:00:00+14:00"},
        {"window_started_at": "9999-12-31T23:59:59-12:00"},
    ],
    ids=str,
)
async def test_a_broken_value_makes_the_whole_file_suspect(
    hass: HomeAssistant, file: Path, ledger: Ledger, broken: dict[str, Any]
) -> None:
    data = await written(hass, ledger, file)
    data["nodes"][0].update(broken)
    file.write_text(envelope(data))

    assert await stored(hass) is None
    assert len(list(file.parent.glob(f"{file.name}.unreadable.*"))) == 1


async def test_a_later_minor_version_is_read_and_written_back_as_ours(
    hass: HomeAssistant, file: Path, ledger: Ledger
) -> None:
    data = await written(hass, ledger, file)
    data["nodes"][0]["colour"] = "blue"
    file.write_text(envelope(data, minor_version=7))

    assert await stored(hass) == STATE

    assert json.loads(file.read_text())["minor_version"] == 3
    assert await stored(hass) == STATE


FIRST_NODE = {
    "node_id": "parent",
    "tokens": {"uncached": 1200, "cached": 300, "output": 450},
    "charge": 2130.5,
    "counter": 1065.25,
    "virtual_time": 900.125,
    "requests": 7,
    "rejected": 1,
    "window": "week",
    "window_started_at": "2026-11-29T22:00:00+00:00",
    "used_tokens": 1650,
    "granted_tokens": 500,
}
"""An account as version 1.1 wrote it."""


async def test_accounts_of_the_first_version_are_taken_over_whole(
    hass: HomeAssistant, file: Path
) -> None:
    file.write_text(envelope({"nodes": [FIRST_NODE]}, minor_version=1))
    expected = replace(
        ANNA, preemptions=0, bucket_tokens=0.0, bucket_at=ANNA.window_started_at
    )

    assert await stored(hass) == LedgerState((expected,))

    assert json.loads(file.read_text())["minor_version"] == 3
    assert await stored(hass) == LedgerState((expected,))


@pytest.mark.parametrize("data", [{}, {"nodes": [None]}, {"nodes": [{}]}], ids=str)
async def test_a_file_of_the_first_version_that_makes_no_sense_is_kept(
    hass: HomeAssistant, file: Path, data: dict[str, Any]
) -> None:
    file.write_text(envelope(data, minor_version=1))
    assert await stored(hass) is None
    assert len(list(file.parent.glob(f"{file.name}.unreadable.*"))) == 1


async def test_a_file_that_may_not_be_read_is_not_replaced(
    hass: HomeAssistant, file: Path
) -> None:
    file.mkdir()  # reading it is an error of the system, not of its content
    with pytest.raises(ConfigEntryNotReady):
        await stored(hass)
    assert file.exists()


async def test_a_broken_file_that_cannot_be_kept_is_not_replaced(
    hass: HomeAssistant, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path, _target: Path) -> None:
        raise PermissionError("read-only")

    file.write_text(envelope({}))
    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(ConfigEntryNotReady):
        await stored(hass)
    assert json.loads(file.read_text())["data"] == {}


async def test_a_household_whose_accounts_cannot_be_read_says_so_and_tries_again(
    hass: HomeAssistant,
    file: Path,
    elapse: Elapse,
) -> None:
    assert await async_setup_component(hass, "homeassistant", {})
    file.mkdir()
    entry = household_entry(member("parent", quota_tokens=10))
    entry.add_to_hass(hass)
    await hass.config_entries.async_setup(entry.entry_id)
    assert entry.state is ConfigEntryState.SETUP_RETRY
    assert entry.reason is not None
    assert entry.reason.startswith(f"The accounts in {file} cannot be read: ")

    file.rmdir()
    await elapse(60)
    await hass.async_block_till_done(wait_background_tasks=True)
    assert entry.state is ConfigEntryState.LOADED


async def test_accounts_of_the_second_version_were_never_reset(
    hass: HomeAssistant, file: Path, ledger: Ledger
) -> None:
    data = await written(hass, ledger, file)
    for node in data["nodes"]:
        del node["counted_from"]
    file.write_text(envelope(data, minor_version=2))

    assert await stored(hass) == STATE
    assert json.loads(file.read_text())["minor_version"] == 3


async def test_a_reset_within_its_window_is_read_again(
    hass: HomeAssistant, file: Path, ledger: Ledger, books: dict[str, LedgerState]
) -> None:
    reset = replace(ANNA, counted_from=datetime(2026, 11, 30, 9, 15, tzinfo=UTC))
    books["now"] = LedgerState((reset,))
    ledger.mark_dirty()
    await ledger.async_stop()
    assert await stored(hass) == LedgerState((reset,))
