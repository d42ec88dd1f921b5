from pathlib import Path

import pytest

from demo.home_assistant import errors_in

from .demo_process import require_engine, run_demo

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]


@pytest.fixture(autouse=True)
def _engine() -> None:
    require_engine()


def test_a_question_is_answered_and_accounted_for_and_nothing_stays_behind(
    tmp_path: Path,
) -> None:
    run = run_demo("--once", "What can you do?", "--json", "--state", str(tmp_path))

    assert (run.code, run.left_over) == (0, []), run.stderr
    assert run.result.keys() == {
        "answer",
        "member",
        "wait_s",
        "ttft_s",
        "tokens",
        "charge",
        "quota_left",
    }
    assert run.result["answer"]
    assert run.result["member"] == "parent"
    assert run.result["tokens"]["in"] > 0
    assert run.result["tokens"]["out"] > 0
    assert run.result["charge"] > 0
    assert 0 <= run.result["wait_s"] < run.result["ttft_s"]
    assert errors_in(tmp_path / "home-assistant.log") == []


def test_a_busy_household_shares_the_model_and_nothing_waits_in_the_engine(
    tmp_path: Path,
) -> None:
    run = run_demo("--load", "--seconds", "20", "--json", "--state", str(tmp_path))

    assert (run.code, run.left_over) == (0, []), run.stderr
    classes = run.result["classes"]
    assert classes.keys() == {"voice", "chat", "background"}
    assert [row["failed"] for row in classes.values()] == [0, 0, 0], run.stderr
    assert all(row["charge"] > 0 for row in classes.values())
    assert sum(row["share"] for row in classes.values()) == pytest.approx(1, abs=0.01)
    assert classes["voice"]["requests"] > 0
    assert run.result["deferred_in_engine"] == 0
    assert errors_in(tmp_path / "home-assistant.log") == []
    assert run.result["fairness_gap"] <= run.result["bound"]


def test_somebody_unknown_is_told_who_there_is() -> None:
    run = run_demo("--once", "Hello", "--as", "nobody")

    assert run.code == 2
    assert "The members are: parent, child, guest." in run.stderr
    assert run.left_over == []


def test_a_server_that_is_not_there_is_named_as_the_problem() -> None:
    run = run_demo("--once", "Hello", "--server", "http://127.0.0.1:9")

    assert run.code == 1
    assert run.stderr.count("error: ") == 1, run.stderr
    assert run.left_over == []
