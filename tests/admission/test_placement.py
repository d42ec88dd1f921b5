"""On which of several servers a request starts, goes on, or waits to start."""

from dataclasses import replace
from math import inf

import pytest

from custom_components.fair_share.admission.model import (
    DEFAULT_PROFILES,
    Outcome,
    Preemption,
    PreemptionRules,
    Request,
    Rule,
    ServerCapacity,
)

from .busy_server import household
from .world import World, capacity

CHAT, TASK, VOICE = "parent/direct/chat", "parent/direct/task", "child/direct/voice"
OTHER, BACKGROUND = "child/direct/chat", "child/direct/background"
FAST, SLOW = "fast", "slow"
TOKENS = 100


def learn(world: World, server_id: str, tokens_per_s: float) -> None:
    """Let a server show how fast it writes alone; it reads ten times as fast."""
    asked = world.ask(
        CHAT, prompt=TOKENS, output=TOKENS, servers=frozenset({server_id})
    )
    world.now += TOKENS / tokens_per_s / 10
    world.output(asked)
    world.now += TOKENS / tokens_per_s
    world.output(asked, TOKENS - 1)
    world.end(asked)


def two(*, slots: int = 1, fast: float = 40.0, slow: float = 10.0) -> World:
    """Return a household with two servers, of which the speeds are known."""
    world = household()
    for server_id in (SLOW, FAST):
        world.server(capacity(server_id, slots=slots, context=10**6))
    learn(world, FAST, fast)
    learn(world, SLOW, slow)
    return world


def where(world: World, request_id: str) -> str | None:
    """Return where a request runs; ``None`` if it waits."""
    return next(
        each.server_id
        for each in world.scheduler.status(world.now).requests
        if each.request_id == request_id
    )


def why(world: World, request_id: str) -> Rule:
    """Return why it runs or waits."""
    return next(
        each.rule
        for each in world.scheduler.status(world.now).requests
        if each.request_id == request_id
    )


def ask(world: World, class_id: str = CHAT, **wishes: object) -> str:
    """Ask for an answer of a usual length."""
    return world.ask(class_id, **{"prompt": 100, "output": TOKENS, **wishes})  # type: ignore[arg-type]


class TestStart:
    """Where a request starts that can start in several places."""

    def test_where_it_will_be_done_first(self) -> None:
        world = two()
        assert where(world, ask(world)) == FAST

    def test_on_the_free_server_if_the_fast_one_is_full_for_long(self) -> None:
        world = two(fast=15.0)
        ask(world)
        assert where(world, ask(world)) == SLOW

    @pytest.mark.parametrize(("slow", "second"), [(35.0, SLOW), (20.0, FAST)])
    def test_beside_another_only_if_that_is_still_faster(
        self, slow: float, second: str
    ) -> None:
        world = two(slots=2, slow=slow)
        assert where(world, ask(world)) == FAST
        assert where(world, ask(world)) == second

    def test_not_behind_a_long_prompt_that_is_read_there(self) -> None:
        world = two(slots=2, slow=20.0)
        long = ask(world, prompt=5000)
        assert where(world, long) == FAST
        assert where(world, ask(world)) == SLOW
        world.scheduler.prompt_progress(long, uncached=4990, cached=0, now=world.now)
        assert where(world, ask(world, OTHER)) == FAST

    def test_where_its_prefix_is_if_that_is_not_clearly_slower(self) -> None:
        world = two(slow=33.0)
        assert where(world, ask(world, preferred=SLOW)) == SLOW

    def test_elsewhere_than_its_prefix_if_that_is_clearly_slower(self) -> None:
        world = two(slow=30.0)
        assert where(world, ask(world, preferred=SLOW)) == FAST

    def test_a_large_prefix_counts_for_what_reading_it_takes(self) -> None:
        world = two()
        near = ask(world, prompt=8000, cached=7990, preferred=SLOW)
        assert where(world, near) == SLOW
        world.end(near, Outcome.CANCELLED)
        assert where(world, ask(world, prompt=8000, preferred=SLOW)) == FAST

    def test_what_each_server_has_of_it_counts(self) -> None:
        world = two()
        request = Request("near", CHAT, 8000, TOKENS, cached={SLOW: 7990, FAST: 100})
        world.scheduler.submit(request, world.now, world.wall)
        world.decide()
        assert where(world, "near") == SLOW

    def test_before_anything_is_known_where_most_is_free(self) -> None:
        world = household()
        world.server(capacity(SLOW, slots=1))
        world.server(capacity(FAST, slots=2))
        assert where(world, ask(world)) == FAST

    def test_a_new_server_is_taken_to_be_as_fast_as_the_others(self) -> None:
        world = household()
        world.server(capacity(FAST, slots=2))
        learn(world, FAST, 40.0)
        world.server(capacity("new", slots=2))
        assert {where(world, ask(world)), where(world, ask(world))} == {FAST, "new"}

    def test_foreign_load_makes_a_server_less_attractive(self) -> None:
        world = two(slots=2, slow=35.0)
        world.scheduler.put_foreign(FAST, 1, 0, world.now)
        assert where(world, ask(world)) == SLOW


class TestWait:
    """When it pays to wait although a server is free."""

    def test_for_a_server_where_it_is_done_in_half_the_time_all_the_same(self) -> None:
        world = two(slow=8.0)
        first, second = ask(world), ask(world)
        assert where(world, second) is None
        assert why(world, second) is Rule.BETTER_SERVER
        world.end(first)
        assert where(world, second) == FAST

    def test_not_if_the_free_server_is_not_twice_as_slow(self) -> None:
        world = two(slow=21.0)
        ask(world)
        assert where(world, ask(world)) == SLOW

    def test_not_for_what_keeps_the_better_server_busy_for_long(self) -> None:
        world = two()
        learnt = ask(world, output=1000)
        world.output(learnt, 100)
        world.now += 1000
        world.output(learnt, 800)
        assert where(world, ask(world)) == SLOW

    def test_others_are_not_told_to_wait_for_the_same_place(self) -> None:
        world = two(slow=8.0)
        ask(world)
        waiting, other = ask(world), ask(world, OTHER)
        assert {where(world, waiting), where(world, other)} == {None, SLOW}

    def test_not_with_many_of_the_same_kind_behind(self) -> None:
        world = two()
        world.scheduler.close_server(SLOW, world.now)
        asked = [ask(world) for _ in range(5)]
        world.server(capacity(SLOW, slots=1, context=10**6))
        world.decide()
        assert [where(world, each) for each in asked[:3]] == [FAST, SLOW, None]

    def test_not_when_overdue(self) -> None:
        world = two(slow=8.0)
        world.set(
            profiles={
                kind: replace(each, age_step_s=inf, max_wait_s=10.0)
                for kind, each in DEFAULT_PROFILES.items()
            }
        )
        ask(world)
        waiting = ask(world)
        world.pass_time(9)
        assert where(world, waiting) is None
        world.pass_time(2)
        assert where(world, waiting) == SLOW

    def test_not_for_a_server_that_nothing_of_ours_will_leave(self) -> None:
        world = two()
        world.scheduler.put_foreign(FAST, 1, 0, world.now)
        assert where(world, ask(world)) == SLOW

    def test_the_more_urgent_who_waits_for_the_better_server_may_interrupt_there(
        self,
    ) -> None:
        world = two()
        world.set(preemption=PreemptionRules())
        background = ask(world, BACKGROUND)
        world.output(background, 20)
        voice = ask(world, VOICE)
        assert [(each.request_id, each.for_request_id) for each in world.preempted] == [
            (background, voice)
        ]
        world.pause(background)
        assert where(world, voice) == FAST


class TestProbation:
    """A server that fails fast does not attract what others could do."""

    def closed(self) -> World:
        """Return a household with a server that was closed and opened again."""
        world = household()
        world.server(capacity(FAST, slots=3))
        world.scheduler.close_server(FAST, world.now)
        world.server(capacity(FAST, slots=3))
        return world

    def test_a_new_server_is_used_at_once(self) -> None:
        world = household()
        world.server(capacity(FAST, slots=3))
        assert [where(world, ask(world)) for _ in range(3)] == [FAST] * 3

    def test_a_server_that_came_back_gets_one_until_it_has_answered(self) -> None:
        world = self.closed()
        asked = [ask(world) for _ in range(3)]
        assert world.order() == asked[:1]
        assert why(world, asked[1]) is Rule.NO_SLOT
        world.end(asked[0], Outcome.FAILED)
        assert world.order() == asked[:2]
        world.output(asked[1])
        world.decide()
        assert world.order() == asked

    def test_reading_shows_that_it_works_too(self) -> None:
        world = self.closed()
        asked = [ask(world) for _ in range(2)]
        world.scheduler.prompt_progress(asked[0], uncached=10, cached=0, now=world.now)
        world.decide()
        assert world.order() == asked

    def test_a_changed_capacity_leaves_it_on_trial_or_not_as_it_was(self) -> None:
        world = self.closed()
        world.server(capacity(FAST, slots=2))
        asked = [ask(world), ask(world)]
        assert world.order() == asked[:1]
        world.output(asked[0])
        world.server(capacity(FAST, slots=3))
        asked.append(ask(world))
        assert world.order() == asked


class TestMove:
    """A running answer goes on elsewhere when that pays twice over."""

    def slow_answer(
        self, world: World, *, prompt: int = 100, left: int = 1000, **wishes: object
    ) -> tuple[str, str]:
        """Let an answer be written on the slow server, and the fast one be busy."""
        world.set(preemption=PreemptionRules())
        for _ in range(5):
            self.teach_length(world, left)
        blocker = ask(world, TASK, servers=frozenset({FAST}))
        slow = ask(world, OTHER, prompt=prompt, output=5000, **wishes)
        world.pass_time(61)
        world.output(slow, 10)
        world.decide()
        return blocker, slow

    def teach_length(self, world: World, tokens: int) -> None:
        """Let one be written that is as long as the next will be taken to be."""
        asked = ask(world, OTHER, output=5000, servers=frozenset({SLOW}))
        world.now += 1
        world.output(asked)
        world.now += tokens / 10
        world.output(asked, tokens)
        world.end(asked)

    def test_to_a_server_that_became_free_and_is_much_faster(self) -> None:
        world = two()
        blocker, slow = self.slow_answer(world)
        assert where(world, slow) == SLOW
        assert world.preempted == []
        world.end(blocker)
        assert world.preempted == [Preemption(slow, None, FAST)]
        world.decide()
        assert len(world.preempted) == 1
        world.pause(slow)
        assert where(world, slow) == FAST
        assert world.preempted == [Preemption(slow, None, FAST)]

    @pytest.mark.parametrize(
        ("prompt", "moves"), [(100, True), (8000, True), (16_000, False)]
    )
    def test_only_if_it_saves_twice_what_reading_again_costs(
        self, prompt: int, *, moves: bool
    ) -> None:
        world = two()
        blocker, _ = self.slow_answer(world, prompt=prompt)
        world.end(blocker)
        assert bool(world.preempted) == moves

    def test_not_to_a_server_that_is_hardly_faster(self) -> None:
        world = two(fast=12.0)
        blocker, slow = self.slow_answer(world)
        assert where(world, slow) == SLOW
        world.end(blocker)
        assert world.preempted == []

    def test_also_if_somebody_else_came_there_meanwhile(self) -> None:
        world = two(slots=2, fast=17.0)
        blocker, slow = self.slow_answer(world, servers=frozenset({SLOW}))
        entry = world.scheduler._board.running[slow]  # noqa: SLF001 - as if allowed anywhere
        entry.request = replace(entry.request, servers=None)
        world.end(blocker)
        assert world.preempted == [Preemption(slow, None, FAST)]
        assert where(world, ask(world, VOICE)) == FAST
        world.pause(slow)
        assert where(world, slow) == FAST

    def test_not_when_it_is_nearly_done(self) -> None:
        world = two()
        blocker, slow = self.slow_answer(world, left=100)
        world.output(slow, 80)
        world.end(blocker)
        assert world.preempted == []

    def test_not_what_can_not_go_on(self) -> None:
        world = two()
        blocker, _ = self.slow_answer(world, preemptible=False)
        world.end(blocker)
        assert world.preempted == []

    def test_not_before_it_has_written(self) -> None:
        world = two()
        world.set(preemption=PreemptionRules())
        blocker = ask(world, TASK, servers=frozenset({FAST}))
        ask(world, OTHER, output=3000)
        world.pass_time(61)
        world.end(blocker)
        assert world.preempted == []

    def test_not_where_it_is_not_allowed_to_be_interrupted_as_things_are(self) -> None:
        world = two()
        blocker, slow = self.slow_answer(world)
        world.scheduler.shield(slow, shielded=True)
        world.end(blocker)
        assert world.preempted == []
        world.scheduler.shield(slow, shielded=False)
        world.decide()
        assert world.preempted == [Preemption(slow, None, FAST)]
        world.scheduler.shield(slow, shielded=True)
        world.scheduler.shield(slow, shielded=False)
        world.scheduler.preempted(slow, world.now, lost=True)
        world.decide()
        assert where(world, slow) == FAST

    def test_not_more_often_than_others_may_interrupt_it(self) -> None:
        world = two()
        blocker, _ = self.slow_answer(world)
        world.set(preemption=PreemptionRules(most_per_request=0))
        world.end(blocker)
        assert world.preempted == []

    def test_not_without_interruptions(self) -> None:
        world = two()
        blocker, _ = self.slow_answer(world)
        world.set(preemption=None)
        world.end(blocker)
        assert world.preempted == []

    def test_not_to_a_place_that_somebody_waits_for(self) -> None:
        world = two()
        blocker, slow = self.slow_answer(world)
        world.ask(VOICE, servers=frozenset({FAST}))
        world.end(blocker)
        world.decide()
        assert (where(world, slow), len(world.preempted)) == (SLOW, 0)

    def test_not_to_a_server_of_which_the_speed_is_unknown(self) -> None:
        world = two()
        blocker, _ = self.slow_answer(world)
        world.scheduler.remove_server(FAST, world.now)
        world.server(capacity("new", slots=1, context=10**6))
        world.end(blocker)
        assert world.preempted == []

    def test_not_to_a_server_that_is_closed_or_forbidden(self) -> None:
        world = two()
        blocker, _ = self.slow_answer(world)
        world.scheduler.close_server(FAST, world.now)
        world.end(blocker)
        assert world.preempted == []

    def test_not_where_one_more_does_not_pay(self) -> None:
        world = two(slots=2)
        world.set(preemption=PreemptionRules())
        for _ in range(5):
            self.teach_length(world, 1000)
        slow = ask(world, TASK, output=5000, servers=frozenset({SLOW}))
        request = world.scheduler._board.running[slow].request  # noqa: SLF001 - as if allowed anywhere
        world.scheduler._board.running[slow].request = replace(request, servers=None)  # noqa: SLF001
        voice = ask(world, VOICE, servers=frozenset({FAST}))
        fast = ServerCapacity(FAST, 2, 10**6, patient_slots=1)
        world.server(fast)
        world.now += 1
        world.output(slow, 10)
        world.decide()
        assert world.preempted == []
        world.end(voice)
        assert [each.moves_to for each in world.preempted] == [FAST]

    def test_only_one_at_a_time(self) -> None:
        world = two(slots=2)
        world.set(preemption=PreemptionRules())
        for _ in range(5):
            self.teach_length(world, 1000)
        world.scheduler.close_server(FAST, world.now)
        slow = [ask(world, OTHER, output=5000) for _ in range(2)]
        for request_id in slow:
            world.now += 1
            world.output(request_id, 10)
        world.server(capacity(FAST, slots=2, context=10**6))
        world.decide()
        assert len(world.preempted) == 1
        world.decide()
        assert len(world.preempted) == 1

    def test_answers_are_looked_at_also_while_nobody_waits(self) -> None:
        world = two()
        world.set(preemption=PreemptionRules())
        assert not world.scheduler.may_interrupt()
        ask(world)
        assert world.scheduler.may_interrupt()


def test_who_was_interrupted_may_go_on_at_any_server() -> None:
    world = two(fast=12.0)
    first = ask(world)
    world.output(first, 50)
    other = ask(world, OTHER)
    assert (where(world, first), where(world, other)) == (FAST, SLOW)
    world.scheduler.close_server(FAST, world.now)
    world.scheduler.preempted(first, world.now, lost=True)
    world.decide()
    assert where(world, first) is None
    world.end(other)
    assert where(world, first) == SLOW


def test_who_was_interrupted_goes_back_to_where_it_was_read_before() -> None:
    world = two(slots=2, slow=25.0)
    first = ask(world, prompt=5000, preferred=SLOW)
    assert where(world, first) == FAST
    world.output(first, 50)
    world.pause(first)
    assert where(world, first) == FAST


def test_what_of_a_prompt_was_read_before_an_interruption_counts() -> None:
    world = two(slots=2, slow=20.0)
    first = ask(world, prompt=8000, servers=frozenset({SLOW}))
    world.scheduler.prompt_progress(first, uncached=7900, cached=0, now=world.now)
    world.scheduler.preempted(first, world.now, servers=frozenset({SLOW, FAST}))
    world.decide()
    assert where(world, first) == SLOW
