"""The files of the activity log on a real disk."""

from datetime import date, timedelta
from pathlib import Path

import pytest

from custom_components.fair_share.household import activity_files
from custom_components.fair_share.household.activity_files import ActivityFiles

TODAY = date(2026, 12, 1)
HEAD = '{"type":"household"}'


@pytest.fixture(name="folder")
def fixture_folder(tmp_path: Path) -> Path:
    return tmp_path / "fair_share"


@pytest.fixture(name="files")
def fixture_files(folder: Path) -> ActivityFiles:
    return ActivityFiles(folder)


@pytest.fixture(name="small")
def fixture_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file holds 100 bytes, all together 350."""
    monkeypatch.setattr(activity_files, "FILE_BYTES", 100)
    monkeypatch.setattr(activity_files, "KEPT_BYTES", 350)


def contents(folder: Path) -> dict[str, list[str]]:
    return {
        path.name: path.read_text().splitlines() for path in sorted(folder.iterdir())
    }


def test_a_day_is_one_file_under_one_header(folder: Path, files: ActivityFiles) -> None:
    files.append(HEAD, ["1", "2"], TODAY)
    files.append(HEAD, ["3"], TODAY)
    assert contents(folder) == {"activity-2026-12-01.jsonl": [HEAD, "1", "2", "3"]}


def test_a_changed_household_is_told_before_what_it_did(
    folder: Path, files: ActivityFiles
) -> None:
    files.append(HEAD, ["1"], TODAY)
    files.append("changed", ["2"], TODAY)
    assert contents(folder)["activity-2026-12-01.jsonl"] == [HEAD, "1", "changed", "2"]


def test_the_next_day_is_another_file(folder: Path, files: ActivityFiles) -> None:
    files.append(HEAD, ["1"], TODAY)
    files.append(HEAD, ["2"], TODAY + timedelta(days=1))
    assert contents(folder) == {
        "activity-2026-12-01.jsonl": [HEAD, "1"],
        "activity-2026-12-02.jsonl": [HEAD, "2"],
    }


def test_a_long_day_has_several_files_each_with_its_header(
    folder: Path, files: ActivityFiles, small: None
) -> None:
    files.append(HEAD, [letter * 39 for letter in "abc"], TODAY)
    files.append(HEAD, ["d" * 39], TODAY)
    assert contents(folder) == {
        "activity-2026-12-01.jsonl": [HEAD, "a" * 39],
        "activity-2026-12-01.2.jsonl": [HEAD, "b" * 39],
        "activity-2026-12-01.3.jsonl": [HEAD, "c" * 39],
        "activity-2026-12-01.4.jsonl": [HEAD, "d" * 39],
    }


def test_all_files_together_stay_within_their_bound(
    folder: Path, files: ActivityFiles, small: None
) -> None:
    for number in range(40):
        files.append(HEAD, [f"{number:039}"], TODAY)
        total = sum(path.stat().st_size for path in folder.iterdir())
        assert total <= 350
    assert f"{39:039}" in contents(folder)["activity-2026-12-01.40.jsonl"]


def test_a_line_longer_than_a_file_is_written_all_the_same(
    folder: Path, files: ActivityFiles, small: None
) -> None:
    files.append(HEAD, ["x" * 150, "y"], TODAY)
    assert contents(folder) == {
        "activity-2026-12-01.jsonl": [HEAD, "x" * 150],
        "activity-2026-12-01.2.jsonl": [HEAD, "y"],
    }


def test_a_file_is_kept_for_seven_days(folder: Path, files: ActivityFiles) -> None:
    for days in range(10):
        files.append(HEAD, ["1"], TODAY + timedelta(days=days))
    assert [*contents(folder)] == [
        f"activity-2026-12-{day:02}.jsonl" for day in range(4, 11)
    ]
    files.prune(TODAY + timedelta(days=30))
    assert contents(folder) == {}


@pytest.mark.parametrize("torn", ["", '{"type":"reque'])
def test_a_line_that_a_killed_process_did_not_finish_is_cut_off(
    folder: Path, torn: str
) -> None:
    ActivityFiles(folder).append(HEAD, ["1"], TODAY)
    path = folder / "activity-2026-12-01.jsonl"
    with path.open("a") as file:
        file.write(torn)
    ActivityFiles(folder).append(HEAD, ["2"], TODAY)
    assert contents(folder)[path.name] == [HEAD, "1", HEAD, "2"]


@pytest.mark.parametrize("torn", ["", "no line ever ended"])
def test_a_file_without_any_whole_line_begins_afresh(folder: Path, torn: str) -> None:
    folder.mkdir()
    path = folder / "activity-2026-12-01.jsonl"
    path.write_text(torn)
    ActivityFiles(folder).append(HEAD, ["1"], TODAY)
    assert contents(folder) == {path.name: [HEAD, "1"]}


def test_nobody_else_may_read_them(folder: Path, files: ActivityFiles) -> None:
    files.append(HEAD, ["1"], TODAY)
    (path,) = folder.iterdir()
    assert path.stat().st_mode & 0o077 == 0
    assert folder.stat().st_mode & 0o077 == 0


def test_other_files_are_left_alone(folder: Path, files: ActivityFiles) -> None:
    folder.mkdir()
    others = {"activity-2026-13-40.jsonl", "activity-x.jsonl", "notes.txt"}
    for name in others:
        (folder / name).write_text("mine")
    files.append(HEAD, ["1"], TODAY)
    files.prune(TODAY + timedelta(days=30))
    files.remove()
    assert set(contents(folder)) == others


def test_all_of_it_can_be_removed(folder: Path, files: ActivityFiles) -> None:
    files.append(HEAD, ["1"], TODAY)
    files.remove()
    assert not folder.exists()
    files.append(HEAD, ["2"], TODAY, create=False)
    assert not folder.exists()


def test_a_file_that_was_deleted_begins_anew_with_the_header(
    folder: Path, files: ActivityFiles
) -> None:
    files.append(HEAD, ["1"], TODAY)
    (folder / "activity-2026-12-01.jsonl").unlink()
    files.append(HEAD, ["2"], TODAY)
    assert contents(folder) == {"activity-2026-12-01.jsonl": [HEAD, "2"]}


def test_what_is_only_named_like_a_file_of_the_log_stops_nothing(
    folder: Path, files: ActivityFiles
) -> None:
    other = folder / "activity-2020-02-02.jsonl"
    other.mkdir(parents=True)
    files.append(HEAD, ["1"], TODAY)
    files.prune(TODAY)
    assert other.is_dir()
    assert (folder / "activity-2026-12-01.jsonl").read_text() == f"{HEAD}\n1\n"
