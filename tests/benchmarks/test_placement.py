"""Two unequal servers behind one queue, and what placing by predicted finish brings."""

from argparse import ArgumentParser, Namespace
from dataclasses import replace
import json

import pytest

from benchmarks import placement
from benchmarks.placement import LeastBusy, compare, measure
from benchmarks.simulator.machine import Machine
from benchmarks.simulator.scenario import EVENING
from benchmarks.simulator.several import SeveralFront, run_several
from custom_components.fair_share.admission.model import Settings
from custom_components.fair_share.admission.placement import Placement

SHORT = replace(EVENING, duration_s=120.0)


def ask(*words: str) -> Namespace:
    parser = ArgumentParser()
    placement.add_to(parser.add_subparsers(required=True))
    return parser.parse_args(["placement", *words])


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "LOADS", {"short": SHORT})


@pytest.mark.parametrize("load", placement.LOADS)
def test_answers_are_done_sooner_on_average_where_they_are_predicted_to_be(
    load: str,
) -> None:
    rows = compare(placement.LOADS[load], range(2))
    predicted, least_busy = rows["predicted_finish"], rows["least_busy"]
    assert predicted.completion_mean_s < 0.9 * least_busy.completion_mean_s


@pytest.mark.parametrize("way", [LeastBusy, Placement])
def test_every_request_is_answered_by_one_of_the_servers(way: type[Placement]) -> None:
    machines = {"one": Machine(slots=1), "two": Machine(slots=2)}
    jobs = SHORT.jobs(0)
    front = SeveralFront(SHORT, machines, way(), Settings())
    served = run_several(jobs, machines, front)
    assert sorted(served) == sorted(job.job_id for job in jobs)
    assert sorted(front.places) == sorted(served)
    assert set(front.places.values()) == {"one", "two"}
    assert all(each.ttft_s > 0 for each in served.values())


def test_what_nobody_can_start_is_told() -> None:
    machines = {"one": Machine(slots=0)}
    front = SeveralFront(SHORT, machines, Placement(), Settings())
    with pytest.raises(RuntimeError, match="nobody starts"):
        run_several(SHORT.jobs(0)[:1], machines, front)


def test_a_run_gives_the_same_again() -> None:
    assert measure(SHORT, 1, Placement()) == measure(SHORT, 1, Placement())


def test_json_holds_both_ways_and_their_ratio(
    short: None, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ask("--json", "--runs", "1")
    arguments.run(arguments)
    printed = json.loads(capsys.readouterr().out)
    rows = printed["placement"]["short"]
    ratio = (
        rows["predicted_finish"]["completion_mean_s"]
        / rows["least_busy"]["completion_mean_s"]
    )
    assert printed["completion_ratio"] == {"short": pytest.approx(ratio)}


@pytest.mark.parametrize("form", [[], ["--markdown"]])
def test_the_table_names_both_ways(
    form: list[str], short: None, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ask("--runs", "1", *form)
    arguments.run(arguments)
    printed = capsys.readouterr().out
    assert "least_busy, short" in printed
    assert "predicted_finish, short" in printed
    assert ("of that of the least busy" in printed) is not bool(form)


def test_no_runs_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ask("--runs", "0")
    with pytest.raises(SystemExit):
        arguments.run(arguments)
    assert "at least 1" in capsys.readouterr().err
