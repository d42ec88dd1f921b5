"""The command that replays a log, on the example that comes with it."""

import json
from pathlib import Path
import sys
from typing import Any

import pytest

from benchmarks import example_log
from benchmarks.__main__ import main
from benchmarks.simulator.activity import read_logs
from benchmarks.simulator.replay import day_of
from benchmarks.terminal import Progress
from custom_components.fair_share.admission.policies import POLICIES

EXAMPLE = Path(__file__).parents[2] / "benchmarks" / "examples" / "evening.jsonl"
ROWS = (*POLICIES, "pass_through")


def ran(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "whatif", *arguments])
    main()


@pytest.fixture(name="part")
def fixture_part(tmp_path: Path) -> Path:
    """The first requests of the example, and a line that was never finished."""
    path = tmp_path / "part.jsonl"
    lines = EXAMPLE.read_text().splitlines()[:40]
    path.write_text("\n".join([*lines, '{"type":"requ']))
    return path


@pytest.fixture(name="said", scope="module")
def fixture_said() -> dict[str, Any]:
    """What the command says of the whole example."""
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("builtins.print", printed.append)
        ran(patch, str(EXAMPLE), "--json")
    result: dict[str, Any] = json.loads("".join(printed))
    return result


def test_every_policy_tells_what_every_member_would_have_got(
    said: dict[str, Any],
) -> None:
    assert tuple(said["policies"]) == ROWS
    members = ["child", "guest", "parent", "shared", "teen"]
    for policy in ROWS:
        assert list(said["policies"][policy]["members"]) == members
        row = said["policies"][policy]["members"]["teen"]
        assert row["tokens"] == row["prompt_tokens"] + row["output_tokens"]
        shares = [
            each["share"] for each in said["policies"][policy]["members"].values()
        ]
        assert sum(shares) == pytest.approx(1)


def test_all_that_was_asked_is_served_under_every_policy(said: dict[str, Any]) -> None:
    asked = {name: row["tokens"] for name, row in said["logged"]["members"].items()}
    for policy in ROWS:
        rows = said["policies"][policy]["members"]
        assert {name: row["tokens"] for name, row in rows.items()} == asked
        assert said["policies"][policy]["refused"] == 0


def test_without_a_queue_voice_waits_for_the_work_of_others(
    said: dict[str, Any],
) -> None:
    straight = said["policies"]["pass_through"]["workloads"]["voice"]
    for policy in POLICIES:
        queued = said["policies"][policy]["workloads"]["voice"]
        assert queued["in_target"] > 2 * straight["in_target"]
        assert queued["wait_p95_s"] < straight["wait_p95_s"] / 10


def test_the_policy_of_the_log_is_replayed_as_it_was(said: dict[str, Any]) -> None:
    replayed = said["policies"][said["policy"]]
    for kind, row in said["logged"]["workloads"].items():
        again = replayed["workloads"][kind]
        assert again["ttft_p95_s"] == pytest.approx(row["ttft_p95_s"], rel=0.5)


def test_the_example_is_what_its_generator_makes(tmp_path: Path) -> None:
    """Arrivals and sizes; how they were served changes with the queue."""
    made = tmp_path / "made.jsonl"
    made.write_text("\n".join(example_log.lines()))

    def asked(path: Path) -> list[tuple[Any, ...]]:
        return sorted(
            (job.job_id, job.prompt_tokens, job.cached_tokens, job.output_tokens)
            for job in day_of(read_logs([path])).jobs
        )

    assert asked(made) == asked(EXAMPLE)
    assert EXAMPLE.stat().st_size < 150_000


def test_the_table_has_every_policy_for_members_and_kinds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], part: Path
) -> None:
    ran(monkeypatch, str(part), "--batch", "128")
    captured = capsys.readouterr()
    for row in ("as logged", *ROWS):
        assert captured.out.count(f"\n{row} ") >= 3
    assert "39 requests on 2 slots" in captured.out
    assert "an unfinished last line was left out" in captured.out
    assert captured.err == ""


def test_a_slower_server_makes_everybody_wait_longer(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    part: Path,
    tmp_path: Path,
) -> None:
    profile = tmp_path / "profile.json"
    profile.write_text('{"decode_s": 0.2}')
    waits = []
    for given in ((), ("--profile", str(profile))):
        ran(monkeypatch, str(part), "--json", *given)
        said = json.loads(capsys.readouterr().out)
        waits.append(said["policies"]["equal_tokens"]["members"]["teen"]["wait_mean_s"])
    assert waits[1] > waits[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no line of type household"),
        ("no\nlog\n", "line 1: not JSON"),
    ],
)
def test_what_is_no_log_is_one_line_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(SystemExit, match=f"whatif: .*{message}"):
        ran(monkeypatch, str(path))


def test_a_log_without_requests_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_text(EXAMPLE.read_text().splitlines()[0])
    with pytest.raises(SystemExit, match="no request in the log was ever worked on"):
        ran(monkeypatch, str(path))


@pytest.mark.parametrize("text", ["[]", "{", '{"decode_s": -1}'])
def test_a_profile_that_is_none_is_named(
    monkeypatch: pytest.MonkeyPatch, part: Path, tmp_path: Path, text: str
) -> None:
    profile = tmp_path / "profile.json"
    profile.write_text(text)
    with pytest.raises(SystemExit, match=r"whatif: .*profile\.json: "):
        ran(monkeypatch, str(part), "--profile", str(profile))


def test_a_batch_has_at_least_a_token(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        ran(monkeypatch, str(EXAMPLE), "--batch", "0")
    assert "--batch is at least 1" in capsys.readouterr().err


def test_progress_is_told_to_terminals_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress("bench") as silent:
        silent.tell("half")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Progress("bench") as shown:
        shown.tell("half")
        shown.tell("too soon after")
    said = capsys.readouterr().err
    assert "bench: half" in said
    assert "too soon" not in said
    assert said.endswith("\r\x1b[K")
