"""A logged day is worked off again by the queue, as the log says it was asked."""

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.simulator.activity import (
    ActivityLog,
    LoggedHousehold,
    LoggedRequest,
)
from benchmarks.simulator.replay import (
    STRAIGHT,
    Day,
    Machine,
    Replayed,
    ReplayError,
    ReplayFront,
    day_of,
    replay,
)
from benchmarks.simulator.what_they_got import Outcome, as_logged, as_replayed
from custom_components.fair_share.admission.model import (
    Caps,
    Limits,
    NodeSpec,
    ServerCapacity,
    Settings,
    Workload,
)
from tests.benchmarks.helpers import OneSecondSteps

SERVER = ServerCapacity("server", slots=1, context_tokens=1000)


def asked(request_id: str = "a", **given: Any) -> LoggedRequest:
    values: dict[str, Any] = {
        "request_id": request_id,
        "member": "parent",
        "source": "parent/direct",
        "workload": Workload.CHAT,
        "outcome": "finished",
        "continues_turn": False,
        "arrived_s": 100.0,
        "started_s": 100.0,
        "first_token_s": 101.0,
        "ended_s": 103.0,
        "prompt_tokens": 10,
        "cached_tokens": 0,
        "output_tokens": 3,
        "max_output_tokens": 64,
        "preemptions": 0,
        **given,
    }
    return LoggedRequest(**values)


def day(
    *requests: LoggedRequest,
    servers: tuple[ServerCapacity, ...] = (SERVER,),
    settings: Settings | None = None,
    nodes: tuple[NodeSpec, ...] = (),
) -> Day:
    household = LoggedHousehold(
        settings or Settings(), {node.node_id: node for node in nodes}, servers
    )
    ordered = sorted(requests, key=lambda each: each.arrived_s)
    return day_of(ActivityLog(household, tuple(ordered), torn_lines=0))


def played(what: Day, policy: str = "equal_tokens", **machine: Any) -> Replayed:
    times = machine.pop("times", OneSecondSteps())
    return replay(what, policy, Machine(times, 512, **machine), lambda _: None)


def outcome(what: Day, policy: str = "equal_tokens") -> Outcome:
    return as_replayed(what, played(what, policy))


def ends(done: Replayed) -> dict[str, float]:
    return {each.job.job_id: each.end_s for each in done.run.served}


@pytest.mark.parametrize("policy", ["equal_tokens", STRAIGHT])
def test_what_was_asked_is_served_from_its_arrival_on(policy: str) -> None:
    done = played(day(asked("a"), asked("b", arrived_s=101.5)), policy)
    # A step for the prompt and each further token; b waits for the only slot.
    assert ends(done) == {"a": 3.0, "b": 6.0}
    assert done.began_s == {"a": 0.0, "b": 3.0}


def test_a_policy_decides_who_is_next_and_without_a_queue_arrival_does() -> None:
    what = day(
        asked("a"),
        asked("b", arrived_s=101.0, output_tokens=30),
        asked("voice", arrived_s=102.0, workload=Workload.VOICE),
    )
    assert ends(played(what))["voice"] == 6.0
    assert ends(played(what, STRAIGHT))["voice"] == 36.0


def test_what_came_from_a_cache_is_neither_read_nor_paid_in_full() -> None:
    times = OneSecondSteps()
    what = day(asked(prompt_tokens=100, cached_tokens=90))
    front = ReplayFront(what, "equal_tokens")
    played(what, times=times)
    assert times.steps[0] == (10, 0, 0)
    assert as_logged(what).members["parent"].charge == 10 + 0.1 * 90 + 2 * 3
    assert front.totals().counter_gap == 0


def test_a_prompt_that_was_cached_as_a_whole_is_read_from_its_last_token_on() -> None:
    times = OneSecondSteps()
    played(day(asked(prompt_tokens=100, cached_tokens=100)), times=times)
    assert times.steps[0] == (1, 0, 0)


def test_caps_and_weights_of_the_household_hold() -> None:
    servers = (replace(SERVER, slots=2),)
    one_at_once = (NodeSpec("parent", caps=Caps(in_flight=1)),)
    both = (asked("a"), asked("b"))
    assert ends(played(day(*both, servers=servers))) == {"a": 3.0, "b": 3.0}
    done = played(day(*both, servers=servers, nodes=one_at_once))
    assert ends(done) == {"a": 3.0, "b": 6.0}


def test_a_later_request_of_a_turn_keeps_its_place_in_front() -> None:
    what = day(
        asked("a"),
        asked("b", arrived_s=101.0),
        asked("turn", arrived_s=102.0, continues_turn=True),
    )
    assert ends(played(what)) == {"a": 3.0, "turn": 6.0, "b": 9.0}


def test_a_queue_that_is_full_refuses_in_the_replay_too() -> None:
    settings = Settings(limits=Limits(queued=1))
    what = day(*(asked(name) for name in "abcd"), settings=settings)
    assert outcome(what).refused == 3
    assert outcome(what, STRAIGHT).refused == 0


def test_what_no_server_worked_on_is_left_out_and_counted() -> None:
    what = day(
        asked("a"),
        asked("b", outcome="refused", started_s=None),
        asked("c", outcome="cancelled", started_s=None),
        asked("d", outcome="cancelled", output_tokens=0),
        asked("e", prompt_tokens=0, outcome="failed"),
        asked("f", prompt_tokens=998),
    )
    assert [job.job_id for job in what.jobs] == ["a", "d"]
    assert what.left_out == {"refused": 1, "cancelled": 1, "failed": 1, "too_long": 1}


def test_a_shared_pool_holds_no_more_than_the_log_says() -> None:
    pool = replace(SERVER, slots=2, kv_tokens=400)
    both = (asked("a", prompt_tokens=250), asked("b", prompt_tokens=250))
    assert ends(played(day(*both, servers=(pool,)))) == {"a": 3.0, "b": 6.0}
    roomy = replace(pool, kv_tokens=4000)
    assert ends(played(day(*both, servers=(roomy,)))) == {"a": 3.0, "b": 3.0}
    longest = day(asked("a"), asked("b", prompt_tokens=398), servers=(pool,))
    assert longest.left_out == {"too_long": 1}


def test_the_slots_of_several_servers_are_taken_together() -> None:
    other = ServerCapacity("other", slots=3, context_tokens=2000)
    both = day(asked(), servers=(SERVER, other)).capacity
    assert (both.slots, both.context_tokens, both.kv_tokens) == (4, 2000, None)
    pools = tuple(replace(each, kv_tokens=500) for each in (SERVER, other))
    assert day(asked(), servers=pools).capacity.kv_tokens == 1000


@pytest.mark.parametrize(
    ("requests", "servers", "message"),
    [
        ((), (SERVER,), "no request in the log was ever worked on"),
        ((asked(started_s=None),), (SERVER,), "no request in the log"),
        ((asked(),), (), "tells of no server"),
    ],
)
def test_a_log_with_nothing_to_replay_says_so(
    requests: tuple[LoggedRequest, ...],
    servers: tuple[ServerCapacity, ...],
    message: str,
) -> None:
    with pytest.raises(ReplayError, match=message):
        day(*requests, servers=servers)


def test_a_limit_that_lets_nothing_start_is_told() -> None:
    never = NodeSpec("parent", caps=Caps(in_flight=0))
    with pytest.raises(ReplayError, match="wait for ever"):
        played(day(asked(), nodes=(never,)))


def test_a_device_that_was_given_to_somebody_else_asks_for_each_of_them() -> None:
    tablet = NodeSpec("tablet", "parent", weight=2.0)
    what = day(
        asked("a", source="tablet"),
        asked("b", source="tablet", member="child"),
        asked("c", source="household", member="household"),
        nodes=(tablet, NodeSpec("child", "tablet")),
    )
    assert list(outcome(what).members) == ["child", "household", "parent"]


def test_what_members_got_counts_from_their_arrival() -> None:
    what = day(
        asked("a", output_tokens=2),
        asked("b", member="child", source="child/direct", output_tokens=7),
    )
    members = outcome(what).members
    assert (members["parent"].wait_mean_s, members["child"].wait_mean_s) == (0.0, 2.0)
    assert members["parent"].tokens == 12
    # 10 + 2 x 2 and 10 + 2 x 7: only parent was served while somebody waited.
    assert members["parent"].share == pytest.approx(14 / 38)
    assert (members["parent"].contended_share, members["child"].contended_share) == (
        1.0,
        0.0,
    )


def test_kinds_of_requests_are_measured_by_their_own_targets() -> None:
    what = day(
        asked("a", workload=Workload.VOICE, output_tokens=20),
        asked("b", workload=Workload.VOICE, output_tokens=1),
        asked("c", output_tokens=1),
    )
    rows = outcome(what).workloads
    assert list(rows) == ["voice", "chat"]
    # Voice wants its first token within 1.5 s and all of it within 15 s.
    assert (rows["voice"].in_target, rows["voice"].on_time) == (0.5, 0.0)
    assert rows["voice"].ttft_p95_s == 21.0
    assert (rows["chat"].ttft_p50_s, rows["chat"].in_target) == (22.0, 0.0)
    assert rows["chat"].on_time == 1.0


def test_what_really_happened_is_told_in_the_same_words() -> None:
    what = day(
        asked("a", started_s=102.0, first_token_s=104.0, ended_s=170.0, preemptions=2),
        asked("b", first_token_s=None, outcome="cancelled"),
    )
    logged = as_logged(what)
    assert logged.members["parent"].wait_mean_s == 1.0
    assert logged.members["parent"].contended_share is None
    assert logged.workloads["chat"].ttft_p50_s == 4.0
    assert logged.workloads["chat"].on_time == 0.5
    assert logged.interruptions == 2
