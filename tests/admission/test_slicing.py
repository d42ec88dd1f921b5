"""How long prompts are read in parts, on a virtual clock."""

from dataclasses import dataclass, field
from math import inf

from hypothesis import given, strategies as st
import pytest

from custom_components.fair_share.admission.model import (
    DEFAULT_PROFILES,
    Outcome,
    TokenCount,
    Verdict,
    Workload,
)
from custom_components.fair_share.admission.slicing import (
    LEAST_TOKENS,
    MOST_TOKENS,
    Pace,
    Slice,
)

from .world import World, capacity

LONG = 3000
VOICE, CHAT, TASK, BACKGROUND = (
    "parent/direct/voice",
    "parent/direct/chat",
    "parent/direct/task",
    "child/direct/background",
)


@dataclass
class House(World):
    """A household in which prompts are read at ``token_s`` seconds for each token."""

    token_s: float = 0.005
    slices: list[int] = field(default_factory=list)
    rested_s: float = 0.0

    def asks(self, request_id: str, done: int, total: int = LONG) -> Slice:
        """Return what a request has to do that has read so much."""
        return self.scheduler.next_slice(
            request_id, done=done, total=total, now=self.now
        )

    def slice(self, request_id: str, tokens: int, *, lost: bool = False) -> Verdict:
        """Let a slice be read."""
        seconds = tokens * self.token_s
        self.now += seconds
        self.slices.append(tokens)
        return self.scheduler.note_slice(
            request_id, tokens, seconds, lost=lost, now=self.now
        )

    def reads(self, request_id: str, total: int = LONG, *, done: int = 0) -> int:
        """Let a prompt be read up to what comes in one go; return how much that is."""
        while True:
            step = self.asks(request_id, done, total)
            if step.tokens >= total - done:
                return step.tokens
            self.rested_s += step.rest_s
            self.now += step.rest_s
            if step.tokens:
                self.slice(request_id, step.tokens)
                done += step.tokens


def house(
    *workloads: Workload, slots: int = 2, block: int = 1, token_s: float = 0.005
) -> House:
    """Return a house with Child's background work and these of Parent's."""
    world = House(token_s=token_s)
    world.server(capacity(slots=slots, block=block, context=8192))
    world.member("child", Workload.BACKGROUND)
    world.member("parent", *(workloads or (Workload.BACKGROUND,)))
    return world


def speak(world: House, *, continues: bool = False) -> str:
    """Have Parent's voice command answered to the end; return its id."""
    request_id = world.ask(VOICE, continues=continues)
    world.output(request_id)
    world.end(request_id)
    return request_id


# ---- when, and how much --------------------------------------------------------------


def test_nothing_is_sliced_where_nobody_more_urgent_can_come() -> None:
    world = house(Workload.VOICE)
    assert world.asks(world.ask(VOICE, prompt=LONG), 0) == Slice(LONG)


def test_who_has_never_asked_for_anything_may_come_all_the_same() -> None:
    world = house()
    reader = world.ask(BACKGROUND, prompt=LONG)
    assert world.asks(reader, 0) == Slice(LEAST_TOKENS)
    world.slice(reader, LEAST_TOKENS)
    assert world.asks(reader, LEAST_TOKENS) == Slice(192)


def test_what_is_as_urgent_or_less_is_not_in_the_way() -> None:
    world = house(Workload.VOICE)
    reader = world.ask(VOICE, prompt=LONG)
    beside = world.ask(BACKGROUND)
    world.output(beside)
    assert world.asks(reader, 0) == Slice(LONG)


def test_the_first_slice_is_the_least() -> None:
    world = house(Workload.VOICE)
    speak(world)
    assert world.asks(world.ask(BACKGROUND, prompt=LONG), 0) == Slice(LEAST_TOKENS)


def test_a_prompt_of_the_least_size_is_read_at_once() -> None:
    world = house(Workload.VOICE)
    speak(world)
    reader = world.ask(BACKGROUND, prompt=LONG)
    assert world.asks(reader, LONG - LEAST_TOKENS) == Slice(LEAST_TOKENS)


@pytest.mark.parametrize(
    ("workload", "token_s", "size"),
    [
        pytest.param(Workload.VOICE, 0.001, 192, id="a quarter of a second for voice"),
        pytest.param(Workload.CHAT, 0.001, 448, id="half a second for chat"),
        pytest.param(Workload.TASK, 0.001, 960, id="a second for the quiet"),
        pytest.param(Workload.TASK, 0.0001, LONG, id="all that takes no longer"),
        pytest.param(Workload.VOICE, 0.01, 64, id="never less than the least"),
    ],
)
def test_slices_are_as_long_as_others_may_be_held_up(
    workload: Workload, token_s: float, size: int
) -> None:
    world = house(workload, token_s=token_s)
    asked = world.ask(f"parent/direct/{workload}")
    world.output(asked)
    world.end(asked)
    reader = world.ask(BACKGROUND, prompt=LONG + LEAST_TOKENS)
    world.slice(reader, LEAST_TOKENS)
    assert world.asks(reader, 0, LONG).tokens == size


def test_slices_are_whole_blocks_of_the_server() -> None:
    world = house(Workload.VOICE, block=96)
    speak(world)
    assert world.asks(world.ask(BACKGROUND, prompt=LONG), 0) == Slice(192)


def test_who_has_been_quiet_for_long_may_be_held_up_for_longer() -> None:
    world = house(Workload.VOICE, token_s=0.001)
    speak(world)
    reader = world.ask(BACKGROUND, prompt=LONG)
    world.slice(reader, LEAST_TOKENS)
    world.now += 601
    assert world.asks(reader, LEAST_TOKENS).tokens == 960


def test_who_was_announced_is_expected_even_if_never_seen_before() -> None:
    world = house()
    reader = world.ask(BACKGROUND, prompt=LONG)
    world.scheduler.expect(Workload.VOICE, 5.0, world.now)
    world.scheduler.expect(Workload.VOICE, 10.0, world.now)
    world.slice(reader, LEAST_TOKENS)
    world.now += 9.0
    assert world.asks(reader, LEAST_TOKENS) == Slice(LEAST_TOKENS)
    world.now += 1.0
    assert world.asks(reader, LEAST_TOKENS) == Slice(192)


def test_who_is_always_announced_is_expected_only_then() -> None:
    world = house(Workload.VOICE)
    reader = world.ask(BACKGROUND, prompt=LONG)
    world.slice(reader, LEAST_TOKENS)
    for _ in range(2):
        world.scheduler.expect(Workload.VOICE, 30.0, world.now)
        world.scheduler.expect(Workload.VOICE, 30.0, world.now)
        speak(world)
        assert world.asks(reader, LEAST_TOKENS) == Slice(LEAST_TOKENS)
        speak(world)
        assert world.asks(reader, LEAST_TOKENS) == Slice(192)
    speak(world)
    assert world.asks(reader, LEAST_TOKENS) == Slice(LEAST_TOKENS)
    world.now += 601
    assert world.asks(reader, LEAST_TOKENS) == Slice(192)


def test_what_goes_on_with_a_turn_needs_no_announcement() -> None:
    world = house(Workload.VOICE)
    reader = world.ask(BACKGROUND, prompt=LONG)
    world.slice(reader, LEAST_TOKENS)
    world.scheduler.expect(Workload.VOICE, 30.0, world.now)
    speak(world)
    speak(world, continues=True)
    assert world.asks(reader, LEAST_TOKENS) == Slice(192)


def test_an_answer_that_is_being_written_is_not_held_up() -> None:
    world = house(Workload.CHAT)
    chat = world.ask(CHAT)
    reader = world.ask(BACKGROUND, prompt=LONG)
    world.output(chat)
    world.now += 601
    world.slice(reader, LEAST_TOKENS)
    world.now += world.token_s * LEAST_TOKENS
    assert world.asks(reader, 0) == Slice(LEAST_TOKENS)
    world.end(chat)
    assert world.asks(reader, 0) == Slice(192)


# ---- what is learnt ------------------------------------------------------------------


def test_the_pace_is_learnt_for_each_size() -> None:
    pace = Pace()
    assert pace.seconds(64) is None
    pace.note(64, 0.64)
    pace.note(10, 100.0)
    assert pace.seconds(640) == pytest.approx(6.4)
    pace.note(512, 2.56)
    assert pace.seconds(64) == pytest.approx(0.64)
    assert pace.seconds(640) == pytest.approx(3.2)
    assert pace.seconds(32) == pytest.approx(0.32)
    pace.note(64, 1.28)
    assert pace.seconds(64) == pytest.approx(0.64 + 0.4 * 0.64)


def test_slices_that_lose_what_was_read_are_given_up_for_a_while() -> None:
    world = house(Workload.VOICE)
    speak(world)
    reader = world.ask(BACKGROUND, prompt=LONG)
    world.slice(reader, LEAST_TOKENS, lost=True)
    assert world.asks(reader, 192).tokens == LEAST_TOKENS
    world.slice(reader, LEAST_TOKENS, lost=True)
    assert world.asks(reader, 256).tokens == LONG - 256
    other = world.ask(BACKGROUND, prompt=LONG)
    assert world.asks(other, 0).tokens == LONG
    world.end(reader)
    world.now += 301
    assert world.asks(other, 0).tokens == LEAST_TOKENS


def test_a_prompt_that_others_keep_throwing_out_is_read_in_one_go_at_last() -> None:
    """Else it would be read again and again."""
    world = house(Workload.VOICE)
    speak(world)
    reader = world.ask(BACKGROUND, prompt=LONG)
    for _ in range(3):
        assert world.asks(reader, 640).tokens == LEAST_TOKENS
        world.slice(reader, LEAST_TOKENS, lost=True)
        world.slice(reader, LEAST_TOKENS)
    assert world.asks(reader, 640).tokens == LONG - 640
    other = world.ask(BACKGROUND, prompt=LONG)
    world.end(reader)
    assert world.asks(other, 0).tokens == LEAST_TOKENS


def test_a_server_that_was_removed_is_learnt_anew() -> None:
    world = house(Workload.VOICE, token_s=0.0001)
    speak(world)
    reader = world.ask(BACKGROUND, prompt=LONG)
    world.slice(reader, LEAST_TOKENS)
    assert world.asks(reader, 64).tokens > LEAST_TOKENS
    world.scheduler.remove_server("server", world.now)
    assert world.asks(reader, 64).tokens == LEAST_TOKENS


def test_what_can_not_be_sliced_is_read_in_one_go() -> None:
    world = house(Workload.VOICE)
    speak(world)
    reader = world.ask(BACKGROUND, prompt=LONG)
    world.scheduler.read_in_one_go(reader)
    assert world.asks(reader, 0) == Slice(LONG)


def test_resting_is_not_taken_for_slow_reading() -> None:
    world = house(Workload.VOICE, token_s=0.01)
    spoken = world.ask(VOICE)
    reader = world.ask(BACKGROUND, prompt=LONG)
    world.output(spoken)
    left = world.reads(reader)
    world.now += left * world.token_s
    world.output(reader)
    world.end(reader, tokens=TokenCount(LONG, 0, 1))
    assert world.rested_s == pytest.approx(sum(world.slices) * 0.01)
    waited = world.ask(BACKGROUND, prompt=LONG)
    (status,) = (
        each
        for each in world.scheduler.status(world.now, ahead=1).requests
        if each.request_id == waited
    )
    assert status.prompt_tokens == LONG
    assert world.scheduler.expected_wait_s(BACKGROUND, world.now) < 1.5 * LONG * 0.01


# ---- who reads, and who waits --------------------------------------------------------


def test_while_somebody_more_urgent_reads_nobody_else_does() -> None:
    world = house(Workload.VOICE)
    reader = world.ask(BACKGROUND, prompt=LONG)
    spoken = world.ask(VOICE)
    assert world.asks(reader, 0).tokens == 0
    world.output(spoken)
    assert world.asks(reader, 0).tokens == LEAST_TOKENS


def test_beside_a_more_urgent_answer_a_prompt_is_read_half_of_the_time() -> None:
    world = house(Workload.VOICE)
    reader = world.ask(BACKGROUND, prompt=LONG)
    spoken = world.ask(VOICE)
    world.output(spoken)
    world.slice(reader, LEAST_TOKENS)
    assert world.asks(reader, 64) == Slice(0, pytest.approx(0.32))
    world.now += 0.3
    assert world.asks(reader, 64) == Slice(0, pytest.approx(0.02))
    world.now += 0.03
    assert world.asks(reader, 64).tokens == LEAST_TOKENS
    world.slice(reader, LEAST_TOKENS)
    world.end(spoken)
    assert world.asks(reader, 128).tokens == LEAST_TOKENS


def test_of_equals_the_first_reads_alone() -> None:
    world = house(Workload.VOICE, slots=3)
    speak(world)
    first = world.ask(BACKGROUND, prompt=LONG)
    world.now += 1.0
    second = world.ask(BACKGROUND, prompt=LONG)
    assert world.asks(second, 0).tokens == 0
    assert world.asks(first, 0).tokens == LEAST_TOKENS
    world.output(first)
    assert world.asks(second, 0).tokens == LEAST_TOKENS


def test_who_had_to_rest_for_too_long_reads_a_slice_all_the_same() -> None:
    world = house(Workload.VOICE, Workload.CHAT)
    chat = world.ask(CHAT, prompt=LONG)
    spoken = world.ask(VOICE)
    assert world.asks(chat, 0).tokens == 0
    world.now += DEFAULT_PROFILES[Workload.CHAT].max_pause_s + 0.1
    assert world.asks(chat, 0).tokens == LEAST_TOKENS
    world.slice(chat, LEAST_TOKENS)
    assert world.asks(chat, 64).tokens == 0
    world.end(spoken)
    assert world.asks(chat, 64).tokens == LEAST_TOKENS


def test_a_short_prompt_does_not_wait_for_anybody() -> None:
    world = house(Workload.VOICE)
    short = world.ask(BACKGROUND, prompt=50)
    world.ask(VOICE)
    assert world.asks(short, 0, 50) == Slice(50)


# ---- accounts ------------------------------------------------------------------------


def test_a_quota_that_ends_is_told_between_slices() -> None:
    world = house(Workload.VOICE)
    reader = world.ask(BACKGROUND, prompt=LONG)
    assert world.slice(reader, LEAST_TOKENS) is Verdict.CONTINUE
    world.end(reader, Outcome.CANCELLED)


# ---- properties ----------------------------------------------------------------------


@given(
    total=st.integers(1, 4000),
    done=st.integers(0, 500),
    cost_s=st.floats(1e-6, 0.1),
    overhead_s=st.floats(0.0, 0.2),
    workload=st.sampled_from([Workload.VOICE, Workload.CHAT, Workload.TASK]),
    block=st.sampled_from([1, 16, 32, 64, 128]),
    writes=st.booleans(),
    noise=st.lists(st.floats(0.3, 3.0), min_size=1, max_size=8),
)
def test_every_prompt_is_read_to_its_end_and_holds_up_nobody_for_too_long(
    *,
    total: int,
    done: int,
    cost_s: float,
    overhead_s: float,
    workload: Workload,
    block: int,
    writes: bool,
    noise: list[float],
) -> None:
    world = house(workload, block=block)
    beside = world.ask(f"parent/direct/{workload}")
    world.output(beside)
    _ = writes or world.end(beside)
    world.scheduler.expect(workload, 1e6, world.now)
    world.scheduler.put_server(capacity(context=40_000, block=block), world.now)
    reader = world.ask(BACKGROUND, prompt=total)
    limit_s = DEFAULT_PROFILES[workload].stall_s
    least = max(LEAST_TOKENS, block)
    pace, at, rounds = Pace(), min(done, total - 1), 0
    while (step := world.asks(reader, at, total)).tokens < total - at:
        predicted = pace.seconds(step.tokens) if step.tokens else 0.0
        assert step.tokens in (0, least) or (predicted or inf) <= limit_s
        assert step.tokens % least == 0
        assert step.tokens <= MOST_TOKENS
        assert (step.tokens > 0) is (step.rest_s == 0)
        seconds = (cost_s * step.tokens + overhead_s) * noise[rounds % len(noise)]
        world.now += step.rest_s + 1e-9
        _ = step.tokens and _read(world, reader, pace, step.tokens, seconds)
        at += step.tokens
        rounds += 1
        assert rounds <= 2 * (total // least + 1) + 1
    assert at + step.tokens == total
    assert step.tokens <= least or (pace.seconds(step.tokens) or inf) <= limit_s


def _read(world: House, reader: str, pace: Pace, tokens: int, seconds: float) -> None:
    world.now += seconds
    pace.note(tokens, seconds)
    world.scheduler.note_slice(reader, tokens, seconds, lost=False, now=world.now)
