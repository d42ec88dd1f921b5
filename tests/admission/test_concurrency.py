"""In flight only what pays: what is learnt of a server, and who waits because of it."""

from dataclasses import replace
from math import inf
from random import Random

from hypothesis import given, strategies as st
import pytest

from custom_components.fair_share.admission.concurrency import Pace
from custom_components.fair_share.admission.model import (
    DEFAULT_PROFILES,
    PreemptionRules,
    Rule,
    ServerCapacity,
    TokenCount,
    Workload,
)

from .busy_server import BusyServer, Gain, full_gain, gain_up_to, household, no_gain
from .invariants.budget import TRACES
from .world import World

TASK, BACKGROUND = "parent/direct/task", "parent/direct/background"
VOICE, CHAT = "child/direct/voice", "child/direct/chat"
BACKLOG = 6
NOISE = 0.2


def pinned(slots: int, patient_slots: int) -> ServerCapacity:
    """Return a server for which the household says how many patient ones it takes."""
    return ServerCapacity("server", slots, 4096, patient_slots=patient_slots)


def limited(patient_slots: int = 1, slots: int = 4) -> World:
    """Return a household with one pinned server."""
    world = household()
    world.server(pinned(slots, patient_slots))
    return world


def rule_of(world: World, request_id: str) -> Rule:
    """Return why a request runs or waits."""
    return next(
        each.rule
        for each in world.scheduler.status(world.now).requests
        if each.request_id == request_id
    )


def pace_of(world: World) -> Pace:
    """Return what was learnt of the server."""
    return world.scheduler._board.servers["server"].pace  # noqa: SLF001 - what is learnt is what is tested


def batch(server: BusyServer, seconds: float, seed: int = 0) -> list[tuple[float, int]]:
    """Let patient work wait all the time; return how many may be in flight when."""
    world, chance = server.world, Random(seed)
    world.server(server.capacity())
    limits: list[tuple[float, int]] = []
    while world.now < seconds:
        while world.waiting() < BACKLOG:
            class_id = chance.choice((TASK, BACKGROUND))
            server.ask(class_id, chance.randint(100, 600), chance.randint(20, 80))
        server.step()
        limits.append((world.now, pace_of(world).paying(server.slots)))
    return limits


def rate(server: BusyServer) -> float:
    """Return the work done in a second, in steps of one request alone."""
    return server.served / server.worked_s


def test_patient_work_is_started_only_while_fewer_than_the_pin_are_in_flight() -> None:
    world = limited(2)
    asked = [world.ask(TASK) for _ in range(3)]
    assert world.order() == asked[:2]
    assert rule_of(world, asked[2]) is Rule.NOT_PAYING
    world.end(asked[0])
    assert world.order() == asked


def test_urgent_work_takes_every_slot_and_counts_for_the_patient() -> None:
    world = limited(2)
    urgent = [world.ask(VOICE), world.ask(CHAT), world.ask(VOICE)]
    patient = world.ask(TASK)
    assert world.order() == urgent
    world.end(urgent[0])
    assert world.order() == urgent
    world.end(urgent[1])
    assert world.order() == [*urgent, patient]


def test_one_always_may_be_in_flight() -> None:
    world = limited(0)
    asked = world.ask(TASK)
    assert world.order() == [asked]


def test_foreign_requests_count_but_never_leave_a_server_without_any_of_ours() -> None:
    world = limited(2)
    world.scheduler.put_foreign("server", 2, 0, world.now)
    first, second = world.ask(TASK), world.ask(TASK)
    assert world.order() == [first]
    world.scheduler.put_foreign("server", 0, 0, world.now)
    world.decide()
    assert world.order() == [first, second]


def test_a_server_that_learns_nothing_fills_all_its_slots() -> None:
    world = household()
    world.server(ServerCapacity("server", 4, 4096))
    asked = [world.ask(TASK) for _ in range(4)]
    assert world.order() == asked


def test_what_became_urgent_by_waiting_starts_whether_it_pays_or_not() -> None:
    world = limited()
    running = [world.ask(TASK), world.ask(TASK)]
    step_s = DEFAULT_PROFILES[Workload.TASK].age_step_s
    world.pass_time(step_s - 1)
    assert world.order() == running[:1]
    world.pass_time(2)
    assert world.order() == running


def test_the_overdue_start_whether_it_pays_or_not() -> None:
    world = limited()
    patient = {
        kind: replace(DEFAULT_PROFILES[kind], age_step_s=inf, max_wait_s=100.0)
        for kind in Workload
    }
    world.set(profiles=patient)
    asked = [world.ask(VOICE), world.ask(BACKGROUND)]
    world.pass_time(99)
    assert world.order() == asked[:1]
    world.pass_time(2)
    assert world.order() == asked


def test_when_it_becomes_urgent_is_a_moment_to_look_again() -> None:
    world = limited()
    world.ask(VOICE)
    world.ask(TASK)
    age_s = DEFAULT_PROFILES[Workload.TASK].age_step_s
    assert world.scheduler.next_deadline(world.now) == age_s
    world.pass_time(age_s)
    assert world.scheduler.next_deadline(world.now) is None
    assert len(world.order()) == 2


def test_the_reserved_share_is_served_whether_it_pays_or_not() -> None:
    world = limited()
    world.set(background_share=0.5, background_debt=100.0)
    voice = world.ask(VOICE, output=300)
    background, chat = world.ask(BACKGROUND), world.ask(CHAT)
    assert world.order() == [voice, chat]
    world.output(voice, 250)
    more = world.ask(CHAT)
    assert world.order() == [voice, chat, background, more]
    assert rule_of(world, background) is Rule.RESERVED_SHARE


def test_patient_work_waits_without_holding_up_urgent_work_behind_it() -> None:
    world = limited()
    first, patient, urgent = world.ask(TASK), world.ask(TASK), world.ask(CHAT)
    assert world.order() == [first, urgent]
    assert rule_of(world, patient) is Rule.NOT_PAYING


def test_who_does_not_pay_is_not_protected_while_it_waits_for_memory() -> None:
    world = household()
    world.member("teen", Workload.TASK)
    world.server(ServerCapacity("server", 4, 4096, 1000))
    running = world.ask(CHAT, prompt=300, output=200)
    large = world.ask(TASK, prompt=500, output=200)
    assert rule_of(world, large) is Rule.NO_KV
    world.server(ServerCapacity("server", 4, 4096, 1000, patient_slots=1))
    world.decide()
    assert rule_of(world, large) is Rule.NOT_PAYING
    world.end(running)
    assert world.order() == [running, large]


class TestInterruptions:
    """Nobody is interrupted for the sake of work that does not pay."""

    @pytest.fixture
    def world(self) -> World:
        """A household that interrupts, with two slots of which one pays."""
        world = limited(1, slots=2)
        world.set(preemption=PreemptionRules(threshold=100.0, most_among_equals=3))
        return world

    def test_no_answer_stops_for_patient_work_beside_it(self, world: World) -> None:
        background = world.ask(BACKGROUND)
        world.output(background, 20)
        urgent = [world.ask(VOICE)]
        world.output(urgent[0], 20)
        world.ask(TASK)
        world.pass_time(1)
        assert world.preempted == []

    def test_what_is_more_urgent_takes_the_place_of_the_one_that_pays(
        self, world: World
    ) -> None:
        background = world.ask(BACKGROUND)
        world.output(background, 20)
        task = world.ask(TASK)
        assert [each.request_id for each in world.preempted] == [background]
        world.pause(background)
        assert world.order() == [background, task]

    def test_who_waits_for_memory_interrupts_nobody_if_it_does_not_pay(self) -> None:
        world = household()
        world.set(preemption=PreemptionRules())
        world.server(ServerCapacity("server", 4, 4096, 1000))
        background = world.ask(BACKGROUND, prompt=300, output=100)
        voice = world.ask(VOICE, prompt=100, output=100)
        for running in (background, voice):
            world.output(running, 5)
        world.ask(TASK, prompt=500, output=200)
        world.server(ServerCapacity("server", 4, 4096, 1000, patient_slots=1))
        world.scheduler._board.servers["server"].capacity = pinned(4, 1)  # noqa: SLF001 - as if it had just been learnt
        world.output(background, 20)
        world.scheduler._starter.preempt(world.now)  # noqa: SLF001 - before the next start
        assert world.preempted == []


@pytest.mark.parametrize("tells_progress", [True, False])
def test_where_more_at_once_do_not_help_one_is_in_flight_and_nothing_is_lost(
    *, tells_progress: bool
) -> None:
    learning = BusyServer(
        household(), no_gain, noise=NOISE, tells_progress=tells_progress, step_s=0.5
    )
    limits = batch(learning, 600)
    filling = BusyServer(household(), no_gain, noise=NOISE, learns=False, step_s=0.5)
    batch(filling, 600)
    assert rate(learning) >= 0.98 * rate(filling)
    assert {limit for now, limit in limits if now > 100} == {1}


@pytest.mark.parametrize(("slots", "within_s"), [(4, 80), (8, 110)])
def test_where_more_at_once_help_all_slots_get_filled(
    slots: int, within_s: float
) -> None:
    server = BusyServer(household(), full_gain, slots=slots, noise=NOISE, step_s=0.5)
    limits = batch(server, 300)
    assert {limit for now, limit in limits if now > within_s} == {slots}
    assert len(server.work) >= slots - 1


def test_half_the_slots_are_found_where_only_half_help() -> None:
    server = BusyServer(household(), gain_up_to(3), slots=6, noise=NOISE, step_s=0.5)
    limits = [limit for now, limit in batch(server, 800) if now > 200]
    assert max(set(limits), key=limits.count) == 3


def test_a_server_that_begins_to_gain_is_found_out_in_time() -> None:
    server = BusyServer(household(), no_gain, noise=NOISE, step_s=0.5)
    assert batch(server, 300)[-1][1] == 1
    server.gain = full_gain
    limits = batch(server, 1700)
    assert next(now for now, limit in limits if limit == 4) < 300 + 1200
    assert limits[-1][1] == 4


@given(
    paying=st.integers(1, 4),
    seed=st.integers(0, 1000),
    noise=st.floats(0.0, NOISE),
    tells_progress=st.booleans(),
)
@TRACES
def test_the_limit_never_stays_below_what_really_pays(
    paying: int, seed: int, noise: float, *, tells_progress: bool
) -> None:
    gain: Gain = gain_up_to(paying)
    server = BusyServer(
        household(), gain, noise=noise, tells_progress=tells_progress, step_s=1.0
    )
    server.random = Random(seed)
    limits = batch(server, 900, seed)
    below = [now for now, limit in limits if limit < paying and now > 300]
    assert len(below) < 0.05 * len(limits)


class TestPace:
    """What a report of a request teaches, and what not."""

    def one(self, *, prompt: int = 100) -> tuple[World, str]:
        """Return a household in which one request runs alone."""
        world = limited(4)
        return world, world.ask(CHAT, prompt=prompt)

    def test_one_alone_gains_one_whatever_it_does(self) -> None:
        world, asked = self.one()
        assert pace_of(world).gain(1) == 0.0
        world.now += 5
        world.output(asked)
        assert pace_of(world).gain(1) == pytest.approx(1.0)
        for _ in range(50):
            world.now += 0.1
            world.output(asked)
        assert pace_of(world).gain(1) == pytest.approx(1.0)
        assert pace_of(world).read_s(100) == pytest.approx(5.0, rel=0.02)
        assert pace_of(world).write_s(10, 1) == pytest.approx(1.0)

    def test_what_spans_several_numbers_of_requests_teaches_nothing(self) -> None:
        world, asked = self.one()
        world.now += 5
        other = world.ask(CHAT, prompt=100)
        world.now += 5
        world.output(asked)
        world.output(other)
        assert pace_of(world).gain(1) == 0.0
        assert pace_of(world).read_s(100) == pytest.approx(5.0)

    def test_what_others_do_past_the_queue_teaches_nothing(self) -> None:
        world, asked = self.one()
        world.scheduler.put_foreign("server", 1, 0, world.now)
        world.now += 5
        world.output(asked)
        assert pace_of(world).gain(1) == 0.0
        assert not pace_of(world).knows_writing()

    def test_the_final_count_puts_right_what_was_read(self) -> None:
        world, asked = self.one(prompt=1000)
        world.now += 2
        world.output(asked)
        assert pace_of(world).read_s(100) == pytest.approx(0.2)
        world.end(asked, tokens=TokenCount(100, 900, 1))
        assert pace_of(world).read_s(100) == pytest.approx(2.0)

    def test_a_prompt_that_was_cached_after_all_tells_nothing(self) -> None:
        world, asked = self.one(prompt=1000)
        world.now += 2
        world.output(asked)
        world.end(asked, tokens=TokenCount(10, 990, 1))
        assert pace_of(world).gain(1) == 0.0
        other = world.ask(CHAT, prompt=20)
        world.now += 2
        world.output(other)
        assert pace_of(world).gain(1) == 0.0

    def test_a_server_that_only_wrote_is_known_by_its_writing(self) -> None:
        world, asked = self.one(prompt=10)
        world.output(asked)
        for _ in range(25):
            world.now += 1
            world.output(asked)
        assert pace_of(world).gain(1) == pytest.approx(1.0)
        assert pace_of(world).paying(4) == 2

    def test_where_no_token_took_any_time_nothing_is_known(self) -> None:
        world, asked = self.one(prompt=100)
        world.now += 30
        world.output(asked)
        assert pace_of(world).paying(4) == 1
        world.end(asked, tokens=TokenCount(0, 100, 1))
        pace_of(world).look(world.now + 5)
        assert pace_of(world).paying(4) == 1

    def test_progress_that_is_told_twice_teaches_once(self) -> None:
        world, asked = self.one(prompt=200)
        for _ in range(2):
            world.now += 1
            world.scheduler.prompt_progress(
                asked, uncached=100, cached=0, now=world.now
            )
        assert pace_of(world).read_s(100) == pytest.approx(1.0)
        world.scheduler.prompt_progress(asked, uncached=150, cached=0)
        assert pace_of(world).read_s(100) == pytest.approx(1.0)

    def test_what_was_never_seen_is_guessed_between_free_and_in_turn(self) -> None:
        world, asked = self.one()
        world.output(asked)
        world.now += 10
        world.output(asked, 100)
        assert pace_of(world).write_s(10, 3) == pytest.approx(2.0)

    def test_speeds_of_other_servers_are_the_first_guess(self) -> None:
        world, asked = self.one()
        world.now += 5
        world.output(asked)
        world.now += 10
        world.output(asked, 99)
        world.end(asked, tokens=TokenCount(100, 0, 100))
        world.server(ServerCapacity("new", 2, 4096))
        pace = world.scheduler._board.servers["new"].pace  # noqa: SLF001 - as above
        assert pace.read_s(20) == pytest.approx(1.0)
        assert pace.write_s(10, 1) == pytest.approx(1.0)
