"""The four policies: whom each prefers, and that each reaches its own target best."""

from dataclasses import replace
from math import inf

import pytest

from custom_components.fair_share.admission.model import (
    DEFAULT_PROFILES,
    Limits,
    Outcome,
    Settings,
    TokenCount,
    Workload,
)
from custom_components.fair_share.admission.policies import POLICIES
from custom_components.fair_share.admission.scheduler import Scheduler

from .world import START, World, capacity

PARENT, CHILD = "parent/direct/chat", "child/direct/chat"


NEVER_OVERDUE = {
    kind: replace(each, max_wait_s=inf) for kind, each in DEFAULT_PROFILES.items()
}
"""So that what is late is left to the policy."""


def household(policy: str, **weights: float) -> World:
    """Return two members under this policy, one server with one slot."""
    world = World(Scheduler(START, settings=Settings(policy=policy)))
    world.member("parent", *Workload, weight=weights.get("parent", 1.0))
    world.member("child", *Workload, weight=weights.get("child", 1.0))
    world.server(capacity(slots=1))
    return world


def test_there_are_the_four_that_a_household_can_choose() -> None:
    assert set(POLICIES) == {
        "equal_tokens",
        "equal_waiting",
        "equal_completion",
        "latency_first",
    }


@pytest.mark.parametrize("policy", POLICIES)
def test_under_every_policy_equals_go_in_the_order_of_their_arrival(
    policy: str,
) -> None:
    world = household(policy)
    running = world.ask("parent/direct/voice")
    first, second = world.ask(CHILD), world.ask(PARENT)
    world.end(running, Outcome.CANCELLED)
    world.end(first, Outcome.CANCELLED)
    assert world.order() == [running, first, second]


def test_equal_waiting_prefers_who_waited_longer_at_other_times() -> None:
    world = household("equal_waiting")
    running = world.ask(PARENT)
    patient = world.ask(CHILD)
    world.pass_time(20)
    world.end(running)
    world.end(patient, tokens=TokenCount(4000, 0, 100))
    running = world.ask(PARENT)
    world.ask(PARENT)
    world.pass_time(0.5)
    again = world.ask(CHILD)
    world.pass_time(5)
    world.end(running)
    assert world.order()[-1] == again


def test_equal_waiting_lets_nobody_wait_much_longer_for_what_was() -> None:
    world = household("equal_waiting")
    running = world.ask(PARENT)
    patient = world.ask(CHILD)
    world.pass_time(20)
    world.end(running)
    world.end(patient, tokens=TokenCount(4000, 0, 100))
    running = world.ask(PARENT)
    first = world.ask(PARENT)
    world.pass_time(2)
    world.ask(CHILD)
    world.pass_time(5)
    world.end(running)
    assert world.order()[-1] == first


def test_equal_waiting_holds_for_members_who_ask_for_more_than_there_is() -> None:
    world = household("equal_waiting")
    endless = replace(DEFAULT_PROFILES[Workload.CHAT], age_step_s=1e9, max_wait_s=1e9)
    world.set(
        policy="equal_waiting",
        profiles={**DEFAULT_PROFILES, Workload.CHAT: endless},
        limits=Limits(queued=10_000, queued_per_class=10_000),
    )
    members: dict[str, str] = {}
    waits: dict[str, list[float]] = {PARENT: [], CHILD: []}
    for second in range(400):
        world.now = float(second)
        asked = [PARENT] * (second % 3 == 0) + [CHILD] * (second % 2 == 0)
        members |= {world.ask(each): each for each in asked}
        for request_id in world.order()[-1:] * (second % 4 == 3):
            record = world.end(request_id, tokens=TokenCount(10, 0, 10))
            waits[members[request_id]].append(record.wait_s)
    last = [sum(each[-10:]) / 10 for each in waits.values()]
    jain = sum(last) ** 2 / (2 * sum(each**2 for each in last))
    assert jain > 0.95


def test_equal_waiting_counts_the_longest_wait_of_all_devices() -> None:
    world = household("equal_waiting")
    world.source("parent", "tablet")
    running = world.ask("parent/direct/voice")
    first = world.ask(PARENT)
    world.pass_time(1)
    world.ask(CHILD)
    world.ask("parent/tablet/chat")
    world.end(running, Outcome.CANCELLED)
    assert world.order()[-1] == first


def test_equal_waiting_weighs_waiting() -> None:
    world = household("equal_waiting", child=3.0)
    running = world.ask(PARENT)
    world.ask(PARENT)
    world.pass_time(5)
    heavy = world.ask(CHILD)
    world.pass_time(3)
    world.end(running)
    assert world.order()[-1] == heavy


def test_equal_completion_prefers_who_was_late_more_often() -> None:
    world = household("equal_completion")
    late = world.ask(CHILD)
    world.pass_time(61)
    world.end(late, tokens=TokenCount(10, 0, 10))
    in_time = world.ask(PARENT)
    world.end(in_time, tokens=TokenCount(10, 0, 10))
    running = world.ask(PARENT)
    world.ask(PARENT)
    child = world.ask(CHILD)
    world.end(running)
    assert world.order()[-1] == child


def test_equal_completion_prefers_who_is_late_the_longer_it_is() -> None:
    world = household("equal_completion")
    world.set(policy="equal_completion", profiles=NEVER_OVERDUE)
    for request_id in [world.ask(CHILD) for _ in range(3)]:
        world.end(request_id, tokens=TokenCount(10, 0, 10))
    running = world.ask("parent/direct/voice")
    late = world.ask(CHILD)
    world.pass_time(250)
    fresh = world.ask("parent/direct/voice")
    # Both in the most urgent band by now. The child's rate is the better one, but it
    # has waited for four times as long as its answer was wanted in.
    world.end(running)
    assert world.order()[-1] == late
    world.end(late)
    assert world.order()[-1] == fresh


def test_latency_first_prefers_who_has_the_least_slack() -> None:
    world = household("latency_first")
    learn = world.ask(PARENT, prompt=1000)
    world.pass_time(2)
    world.output(learn)
    running = world.ask(PARENT)
    world.end(learn, tokens=TokenCount(1000, 0, 1))
    short = world.ask(CHILD, prompt=10)
    long = world.ask(PARENT, prompt=2000)
    world.end(running, Outcome.CANCELLED)
    assert world.order()[-1] == long
    world.end(long, Outcome.CANCELLED)
    assert world.order()[-1] == short


def test_latency_first_does_not_let_what_is_late_make_others_late() -> None:
    world = household("latency_first")
    running = world.ask("parent/direct/chat")
    late = world.ask("child/direct/voice")
    world.pass_time(2)
    still_in_time = world.ask("parent/direct/voice")
    world.end(running)
    assert world.order()[-1] == still_in_time
    world.end(still_in_time)
    assert world.order()[-1] == late


def test_latency_first_serves_what_is_late_by_tokens() -> None:
    world = household("latency_first")
    running = world.ask("parent/direct/chat")
    world.ask("parent/direct/voice")
    less = world.ask("child/direct/voice")
    world.pass_time(2)
    world.end(running, tokens=TokenCount(3000, 0, 100))
    assert world.order()[-1] == less


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_can_be_changed_while_requests_wait(policy: str) -> None:
    world = household("equal_tokens")
    asked = [world.ask(PARENT), world.ask(CHILD), world.ask(PARENT)]
    world.set(policy=policy)
    for _ in asked:
        world.end(world.order()[-1])
    assert sorted(world.order()) == sorted(asked)
