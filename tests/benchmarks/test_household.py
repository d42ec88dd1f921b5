"""The household before one home server, and the command that prints it."""

from argparse import ArgumentParser, Namespace
from dataclasses import replace
import json
from pathlib import Path

import pytest

from benchmarks import household
from benchmarks.household import CACHE_LOST, Row
from benchmarks.simulator.household_run import ours, play
from benchmarks.simulator.machine import HOME_TIMES, Machine
from benchmarks.simulator.scenario import HOUSEHOLD, Client, Flow, Scenario
from custom_components.fair_share.admission.model import (
    PreemptionRules,
    Settings,
    Workload,
)
from custom_components.fair_share.admission.policies import POLICIES

PLAIN = ("pass_through", "round_robin", "strict_priority", "vtc")
RULES = PreemptionRules(while_reading=True)
SHORT = replace(HOUSEHOLD, duration_s=200.0)


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    machine = Machine()
    played = household.simulate(SHORT, machine, RULES, [0])
    return {name: household.measure(runs, machine) for name, runs in played.items()}


def test_the_server_is_as_fast_as_the_scenario_says() -> None:
    def decode_s(answers: int) -> float:
        return HOME_TIMES.step_s(prefill_tokens=0, decoding=answers, context_tokens=0)

    prefill_s = HOME_TIMES.step_s(prefill_tokens=512, decoding=0, context_tokens=0)
    assert 1 / decode_s(1) == pytest.approx(40, rel=0.02)
    assert 4 / decode_s(4) == pytest.approx(118, rel=0.02)
    assert 512 / prefill_s == pytest.approx(800, rel=0.02)


def test_every_queue_has_a_row(rows: dict[str, Row]) -> None:
    forgetful = {policy + CACHE_LOST for policy in POLICIES}
    assert set(rows) == {*PLAIN, *POLICIES} | forgetful


@pytest.mark.parametrize("policy", POLICIES)
def test_commands_are_answered_at_once_while_the_server_is_overloaded(
    rows: dict[str, Row], policy: str
) -> None:
    ours = rows[policy]
    for name in PLAIN:
        assert ours.voice_ttft_p50_s < 0.2 * rows[name].voice_ttft_p50_s
    assert ours.voice_ttft_p50_s <= 0.4
    assert ours.preemptions > 0
    assert ours.recomputed_tokens == 0
    assert ours.tokens_per_s >= 0.99 * rows["pass_through"].tokens_per_s


@pytest.mark.parametrize("policy", POLICIES)
def test_nobody_waits_longer_than_promised(rows: dict[str, Row], policy: str) -> None:
    for name in (policy, policy + CACHE_LOST):
        for waits in rows[name].waits.values():
            assert waits.bound_s is not None
            assert waits.longest_s <= waits.bound_s
        assert rows[name].rejected == 0


def test_who_promises_nothing_has_no_bound(rows: dict[str, Row]) -> None:
    assert {rows[name].starvation_bound_s for name in PLAIN} == {None}


def test_a_server_that_forgets_has_to_read_again(rows: dict[str, Row]) -> None:
    for policy in POLICIES:
        lost = rows[policy + CACHE_LOST]
        assert lost.recomputed_tokens > 0
        assert lost.tokens_per_s < rows[policy].tokens_per_s


LONG = Flow(Client("teen", Workload.BACKGROUND), 1.0, (100, 100), (900, 900), end_s=1.0)
COMMAND = Flow(
    Client("child", Workload.VOICE), 1.0, (50, 50), (10, 10), start_s=5.0, end_s=6.0
)


def command_ttft_s(background: int, *, abort_s: float) -> float:
    """Return how long a command takes that interrupts one of several answers."""
    scenario = Scenario(6.0, [LONG] * background + [COMMAND])
    settings = Settings(preemption=PreemptionRules())
    machine = Machine(slots=background, abort_s=abort_s)
    played = play(scenario, 0, machine, ours(settings))
    assert played.run.preemptions == 1
    (voice,) = played.of(Workload.VOICE)
    return voice.ttft_s


def test_an_interrupted_answer_leaves_its_slot_a_moment_later() -> None:
    at_once = command_ttft_s(2, abort_s=0.0)
    assert command_ttft_s(2, abort_s=1.0) == pytest.approx(at_once + 1.0, abs=0.1)


def test_where_nothing_else_runs_there_is_no_moment_to_wait_for() -> None:
    assert command_ttft_s(1, abort_s=1.0) == command_ttft_s(1, abort_s=0.0)


def ask(*words: str) -> Namespace:
    parser = ArgumentParser()
    household.add_to(parser.add_subparsers(required=True))
    return parser.parse_args(["household", *words])


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(household, "HOUSEHOLD", replace(HOUSEHOLD, duration_s=90.0))


def test_json_holds_the_values_of_every_row(
    short: None, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ask("--json", "--runs", "1")
    arguments.run(arguments)
    rows = json.loads(capsys.readouterr().out)["rows"]
    for name in (*PLAIN, *POLICIES):
        assert {
            "voice_ttft_p50_s",
            "voice_ttft_p95_s",
            "chat_ttft_p95_s",
            "background_done_p50_s",
            "tokens_per_s",
            "longest_wait_s",
            "starvation_bound_s",
        } <= set(rows[name])


def test_the_plot_and_the_table_come_together(
    short: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ask("--runs", "1", "--spare-readers", "--plots", str(tmp_path))
    arguments.run(arguments)
    heading, first, *_ = capsys.readouterr().out.splitlines()
    assert heading.startswith("queue")
    assert first.split()[0] == "pass_through"
    plot = (tmp_path / "household_waits.png").read_bytes()
    assert plot.startswith(b"\x89PNG")
    assert len(plot) < 80_000


def test_another_server_is_simulated_from_its_measured_step_times(
    short: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    profile = tmp_path / "profile.json"
    profile.write_text('{"prefill_token_s": 0.0001}')
    arguments = ask("--json", "--runs", "1", "--profile", str(profile))
    arguments.run(arguments)
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert rows["pass_through"]["voice_ttft_p95_s"] < 5.0


@pytest.mark.parametrize("words", [["--runs", "0"], ["--batch", "0"]])
def test_what_cannot_be_simulated_is_said(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ask(*words)
    with pytest.raises(SystemExit):
        arguments.run(arguments)
    assert "at least 1" in capsys.readouterr().err
