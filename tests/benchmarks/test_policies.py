"""The table in which every policy is compared by what each aims at."""

from argparse import ArgumentParser, Namespace
from dataclasses import replace
import json
from pathlib import Path

import pytest

from benchmarks import policies
from benchmarks.policies import BEST, reaches_its_target_best
from benchmarks.simulator.scenario import EVENING
from benchmarks.simulator.targets import Targets
from custom_components.fair_share.admission.policies import POLICIES

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def table() -> dict[str, Targets]:
    played = policies.simulate(EVENING, range(5))
    return {policy: policies.mean(runs) for policy, runs in played.items()}


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_is_best_at_what_it_aims_at(
    table: dict[str, Targets], policy: str
) -> None:
    assert reaches_its_target_best(table, policy)


def test_every_policy_aims_at_something_of_its_own() -> None:
    assert list(BEST) == list(POLICIES)
    assert len({field for field, _ in BEST.values()}) == len(BEST)


def test_to_be_as_good_as_another_is_not_to_be_best() -> None:
    same = Targets(1.0, 1.0, 1.0, 1.0, 1.0)
    table = dict.fromkeys(POLICIES, same)
    assert not any(reaches_its_target_best(table, policy) for policy in POLICIES)


def ask(*words: str) -> Namespace:
    parser = ArgumentParser()
    policies.add_to(parser.add_subparsers(required=True))
    return parser.parse_args(["policies", *words])


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "EVENING", replace(EVENING, duration_s=60.0))


def test_json_holds_the_values_of_every_policy(
    short: None, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ask("--json", "--runs", "2")
    arguments.run(arguments)
    rows = json.loads(capsys.readouterr().out)["policies"]
    assert list(rows) == list(POLICIES)
    for policy in POLICIES:
        assert {field for field, _ in BEST.values()} <= set(rows[policy])


def test_the_plot_and_the_table_for_the_docs_come_together(
    short: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ask("--markdown", "--runs", "1", "--plots", str(tmp_path / "new"))
    arguments.run(arguments)
    heading, rule, *rows = capsys.readouterr().out.splitlines()
    assert heading.startswith("|policy|service gap|")
    assert rule.startswith("|---|---:|")
    assert [row.split("|")[1] for row in rows] == list(POLICIES)
    plot = (tmp_path / "new" / "policies_waits.png").read_bytes()
    assert plot.startswith(PNG)
    assert len(plot) < 80_000


def test_what_cannot_be_simulated_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ask("--runs", "0")
    with pytest.raises(SystemExit):
        arguments.run(arguments)
    assert "at least 1" in capsys.readouterr().err
