"""Reading activity logs: whole ones, torn ones, and what is no log."""

from collections.abc import Callable
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.simulator.activity import ActivityLog, LogError, read_logs
from custom_components.fair_share.admission.model import (
    Caps,
    CostWeights,
    Ending,
    NodeSpec,
    Outcome,
    PreemptionRules,
    RejectReason,
    Request,
    RequestRecord,
    Rule,
    ServerCapacity,
    Settings,
    TokenCount,
    Workload,
)
from custom_components.fair_share.household.activity_lines import (
    household_line,
    request_line,
)

SETTINGS = Settings(
    policy="latency_first",
    costs=CostWeights(1.0, 0.0, 3.0),
    background_share=0.2,
    preemption=PreemptionRules(threshold=50.0, while_reading=True),
)
NODES = (
    NodeSpec("parent", weight=2.0, caps=Caps(in_flight=1)),
    NodeSpec("tablet", "parent"),
)
SERVER = ServerCapacity("server", 2, 4096, kv_tokens=4096)
REQUEST = Request("r1", "tablet/chat", 100, 64, continues_turn=True)
PATH = ("household", "parent", "tablet", "tablet/chat")
RECORD = RequestRecord(
    request_id="r1",
    class_id="tablet/chat",
    workload=Workload.CHAT,
    outcome=Outcome.FINISHED,
    rule=Rule.POLICY,
    server_id="server",
    wait_s=1.5,
    ttft_s=2.0,
    duration_s=5.0,
    tokens=TokenCount(80, 20, 40),
    charge=200.0,
    preemptions=2,
)

HEAD = household_line(SETTINGS, NODES, [SERVER])
LINE = request_line(Ending(REQUEST, PATH, 5.0, RECORD), 1000.0, "secret")
REFUSED = request_line(
    Ending(REQUEST, PATH, 1.0, refusal=RejectReason.QUEUE_FULL), 990.0, "secret"
)

type Write = Callable[..., Path]


@pytest.fixture(name="write")
def fixture_write(tmp_path: Path) -> Write:
    def write(*lines: object, name: str = "log.jsonl", end: str = "") -> Path:
        path = tmp_path / name
        texts = [json.dumps(line) + "\n" for line in lines]
        path.write_text("".join(texts) + end)
        return path

    return write


def read(*paths: Path) -> ActivityLog:
    return read_logs(paths)


def error(*paths: Path) -> str:
    with pytest.raises(LogError) as caught:
        read_logs(paths)
    return str(caught.value)


def test_what_the_integration_writes_is_read_again(write: Write) -> None:
    log = read(write(HEAD, LINE))
    assert log.household.settings == SETTINGS
    assert log.household.nodes == {node.node_id: node for node in NODES}
    assert log.household.servers == (SERVER,)
    (request,) = log.requests
    assert (request.request_id, request.member, request.source) == (
        "r1",
        "parent",
        "tablet",
    )
    assert (request.workload, request.continues_turn) == (Workload.CHAT, True)
    assert (request.arrived_s, request.started_s) == (995.0, 996.5)
    assert (request.first_token_s, request.ended_s) == (997.0, 1000.0)
    assert (request.prompt_tokens, request.cached_tokens) == (100, 20)
    assert (request.output_tokens, request.max_output_tokens) == (40, 64)
    assert (request.outcome, request.preemptions) == ("finished", 2)


def test_a_refused_request_is_read_without_an_account(write: Write) -> None:
    (request,) = read(write(HEAD, REFUSED)).requests
    assert (request.outcome, request.started_s) == ("refused", None)
    assert (request.prompt_tokens, request.output_tokens) == (0, 0)


def test_several_files_are_one_log_in_order_of_arrival(write: Write) -> None:
    later = {**LINE, "id": "r2", "arrived": 2000.0}
    second = write(HEAD, later, LINE, name="b.jsonl")
    first = write(HEAD, LINE, name="a.jsonl")
    assert [each.request_id for each in read(second, first).requests] == ["r1", "r2"]


def test_the_latest_household_counts_whatever_the_files_are_called(
    write: Write,
) -> None:
    other = household_line(
        Settings(policy="equal_waiting"), [NodeSpec("child", weight=3.0)], []
    )
    newer = write(HEAD, {**LINE, "ended": 5000.0}, other, name="a.jsonl")
    older = write(HEAD, LINE, name="b.jsonl")
    log = read(newer, older)
    assert log.household.settings.policy == "equal_waiting"
    # Members that are gone asked too, and a server that is away has its slots.
    assert set(log.household.nodes) == {"parent", "tablet", "child"}
    assert log.household.servers == (SERVER,)


@pytest.mark.parametrize("end", ['{"type":"requ', "\0\0\0", '{"type":"request"'])
def test_an_unfinished_last_line_is_left_out(write: Write, end: str) -> None:
    log = read(write(HEAD, LINE, end=end))
    assert (len(log.requests), log.torn_lines) == (1, 1)


def test_lines_of_other_types_and_further_fields_are_ignored(write: Write) -> None:
    head = {**HEAD, "new": 1, "costs": {"output": 2.0, "new": 1}}
    log = read(write(head, {"type": "new"}, {**LINE, "new": []}))
    assert len(log.requests) == 1
    assert log.household.settings.costs.output == 2.0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ([], "not a JSON object"),
        ({}, "type is missing"),
        ({**LINE, "member": 7}, "member is not a text"),
        ({**LINE, "arrived": "noon"}, "arrived is not a number"),
        ({**LINE, "arrived": True}, "arrived is not a number"),
        ({**LINE, "arrived": -1}, "arrived is not a number of 0 or more"),
        ({**LINE, "arrived": float("nan")}, "arrived is not a number of 0 or more"),
        ({**LINE, "output_tokens": 1.5}, "output_tokens is not a whole number"),
        ({**LINE, "workload": "sleep"}, "unknown workload: sleep"),
        ({**LINE, "continues_turn": 1}, "continues_turn is neither true nor false"),
        ({**HEAD, "format": 2}, "written by a later version of Fair Share"),
        ({**HEAD, "workloads": []}, "workloads is not an object"),
        ({**HEAD, "workloads": {}}, "workloads: voice is missing"),
        ({**HEAD, "members": {}}, "members is not a list"),
        ({**HEAD, "members": [1]}, "members is not an object"),
        ({**HEAD, "background_share": 1}, "background_share is not below 1"),
    ],
)
def test_a_wrong_line_is_named_with_what_is_wrong(
    write: Write, line: Any, message: str
) -> None:
    path = write(HEAD, LINE, line, LINE)
    assert error(path) == f"{path}, line 3: {message}"


@pytest.mark.parametrize(
    ("part", "values", "message"),
    [
        ("members", {"weight": 0}, "members: weight is 0"),
        ("servers", {"slots": 0}, "servers: a server without room"),
        ("servers", {"kv_tokens": "x"}, "servers: kv_tokens is not a number"),
    ],
)
def test_a_wrong_part_of_the_household_is_named(
    write: Write, part: str, values: dict[str, Any], message: str
) -> None:
    first = json.loads(json.dumps(HEAD))[part][0]
    path = write({**HEAD, part: [{**first, **values}]})
    assert error(path) == f"{path}, line 1: {message}"


def test_a_broken_line_in_the_middle_is_an_error(write: Write, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f'{json.dumps(HEAD)}\n{{"type":\n{json.dumps(LINE)}\n')
    assert error(path) == f"{path}, line 2: not JSON"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert error(tmp_path / "none") == f"{tmp_path / 'none'}: No such file or directory"


def test_files_that_do_not_say_how_the_household_was_are_no_log(write: Write) -> None:
    assert "no line of type household" in error(write(LINE))
