"""The asyncio face: every way in and every way out."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
import random

import pytest

from custom_components.fair_share.admission.model import (
    Ending,
    Limits,
    NodeSpec,
    Outcome,
    QuotaSpec,
    Rejected,
    RejectReason,
    Request,
    RequestClass,
    RequestRecord,
    Settings,
    TokenCount,
    Verdict,
    Workload,
)
from custom_components.fair_share.admission.queue import AdmissionQueue, Grant
from custom_components.fair_share.admission.scheduler import Scheduler

from .world import START, capacity

CHAT = "parent/direct/chat"


@dataclass
class VirtualClock:
    """A clock that only moves when it is told to."""

    now: float = 0.0
    time: datetime = START

    def monotonic(self) -> float:
        """Return virtual seconds."""
        return self.now

    def wall(self) -> datetime:
        """Return the virtual local time."""
        return self.time

    def advance(self, seconds: float) -> None:
        """Move both clocks on."""
        self.now += seconds
        self.time += timedelta(seconds=seconds)


@dataclass
class Home:
    """A queue, its clock, and what it told."""

    queue: AdmissionQueue
    clock: VirtualClock
    changed: list[str] = field(default_factory=list)
    records: list[RequestRecord] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    made: int = 0

    def request(self, *, prompt: int = 10, class_id: str = CHAT) -> Request:
        """Return a new request."""
        self.made += 1
        return Request(f"r{self.made}", class_id, prompt, 100)

    def start(self, stay: asyncio.Event, *, prompt: int = 10) -> asyncio.Task[Grant]:
        """Let a client ask, and hold its grant until ``stay`` is set."""

        async def client() -> Grant:
            async with self.queue.admit(self.request(prompt=prompt)) as grant:
                await stay.wait()
                grant.finish()
                return grant

        return asyncio.get_running_loop().create_task(client())

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many run and wait."""
        status = self.queue.status()
        return status.running, status.waiting


@asynccontextmanager
async def open_home(slots: int = 1) -> AsyncIterator[Home]:
    """Open a queue with one member and one server."""
    clock = VirtualClock()
    changed: list[str] = []
    records: list[RequestRecord] = []
    endings: list[Ending] = []

    def on_change(node_ids: Iterable[str]) -> None:
        changed.extend(node_ids)

    queue = AdmissionQueue(
        Scheduler(START),
        clock,
        on_change=on_change,
        on_record=records.append,
        on_ending=endings.append,
    )
    queue.put_node(NodeSpec("parent"))
    queue.put_node(NodeSpec("parent/direct", "parent"))
    queue.put_class(RequestClass(CHAT, "parent/direct", Workload.CHAT))
    queue.put_server(capacity(slots=slots))
    try:
        yield Home(queue, clock, changed, records, endings)
    finally:
        queue.close()


@pytest.fixture
async def home() -> AsyncIterator[Home]:
    """A household with one slot."""
    async with open_home() as opened:
        yield opened


async def settle() -> None:
    """Let everything run that can run now."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_runs_and_the_next_follows_when_it_leaves(home: Home) -> None:
    stay, second_stay = asyncio.Event(), asyncio.Event()
    first, second = home.start(stay), home.start(second_stay)
    await settle()
    assert home.counts == (1, 1)
    stay.set()
    await first
    await settle()
    assert home.counts == (1, 0)
    second_stay.set()
    await second
    assert home.counts == (0, 0)
    assert [record.outcome for record in home.records] == [Outcome.FINISHED] * 2
    assert list(home.queue.history) == home.records


async def test_who_leaves_while_waiting_never_gets_a_slot(home: Home) -> None:
    stay = asyncio.Event()
    running, leaving = home.start(stay), home.start(stay)
    await settle()
    leaving.cancel()
    await settle()
    assert leaving.cancelled()
    assert home.counts == (1, 0)
    assert home.records[0].outcome is Outcome.CANCELLED
    assert home.records[0].server_id is None
    stay.set()
    await running


async def test_who_leaves_while_running_gives_the_slot_back_at_once(home: Home) -> None:
    stay = asyncio.Event()
    running, waiting = home.start(stay), home.start(stay)
    await settle()
    running.cancel()
    await settle()
    assert home.counts == (1, 0)
    assert home.records[0].outcome is Outcome.CANCELLED
    stay.set()
    await waiting


async def test_who_leaves_in_the_moment_of_the_turn_gives_it_back(home: Home) -> None:
    stay = asyncio.Event()
    running, next_one = home.start(stay), home.start(asyncio.Event())
    await settle()
    stay.set()
    await asyncio.sleep(0)
    next_one.cancel()
    await running
    await settle()
    assert home.counts == (0, 0)


async def test_a_failure_inside_gives_the_slot_back(home: Home) -> None:
    with pytest.raises(RuntimeError, match="engine"):
        async with home.queue.admit(home.request()):
            raise RuntimeError("engine")
    assert home.counts == (0, 0)
    assert home.records[0].outcome is Outcome.FAILED


async def test_leaving_early_without_an_error_is_a_cancellation(home: Home) -> None:
    async with home.queue.admit(home.request()):
        pass
    assert home.records[0].outcome is Outcome.CANCELLED


async def test_progress_is_charged_and_told(home: Home) -> None:
    async with home.queue.admit(home.request(prompt=40)) as grant:
        grant.prompt_progress(uncached=30, cached=10)
        assert home.queue.node_status("parent").tokens == TokenCount(30, 10, 0)
        assert grant.output(2) is Verdict.CONTINUE
        assert home.queue.node_status("parent").tokens == TokenCount(30, 10, 2)
        grant.settle(TokenCount(20, 20, 3), estimated=True)
        grant.finish()
    assert home.records[0].tokens == TokenCount(20, 20, 3)
    assert home.records[0].estimated
    assert {"household", "parent", "parent/direct", CHAT} <= set(home.changed)


async def test_a_refusal_at_the_door_leaves_nothing_behind(home: Home) -> None:
    with pytest.raises(Rejected) as refusal:
        async with home.queue.admit(home.request(prompt=5000)):
            pytest.fail("admitted")
    assert refusal.value.reason is RejectReason.TOO_LONG
    assert home.counts == (0, 0)
    assert home.records == []


async def test_who_waits_is_told_when_the_quota_is_used_up(home: Home) -> None:
    home.queue.put_node(NodeSpec("parent", quota=QuotaSpec(50)))

    async def run_until_stopped() -> None:
        async with home.queue.admit(home.request(prompt=40)) as grant:
            await settle()
            assert grant.output(20) is Verdict.STOP_QUOTA
            raise Rejected(RejectReason.QUOTA)

    running = asyncio.create_task(run_until_stopped())
    await asyncio.sleep(0)
    waiting = home.start(asyncio.Event())
    with pytest.raises(Rejected):
        await running
    assert home.records[0].outcome is Outcome.STOPPED
    with pytest.raises(Rejected) as refusal:
        await waiting
    assert refusal.value.reason is RejectReason.QUOTA


async def test_closing_tells_who_waits_and_stops_who_runs(home: Home) -> None:
    stay = asyncio.Event()
    running, waiting = home.start(stay), home.start(stay)
    await settle()
    home.queue.close()
    with pytest.raises(Rejected) as refusal:
        await waiting
    assert refusal.value.reason is RejectReason.CLOSED
    with pytest.raises(Rejected, match="closed"):
        async with home.queue.admit(home.request()):
            pytest.fail("admitted")
    stay.set()
    assert (await running).finished


async def test_a_running_answer_is_stopped_when_the_queue_closes(home: Home) -> None:
    async with home.queue.admit(home.request()) as grant:
        assert grant.output(1) is Verdict.CONTINUE
        home.queue.close()
        assert grant.output(1) is Verdict.STOP_CLOSED
    assert home.records[0].tokens.output == 2


async def test_leaving_in_the_moment_of_a_refusal_is_just_leaving(home: Home) -> None:
    home.queue.put_node(NodeSpec("parent", quota=QuotaSpec(50)))
    stay = asyncio.Event()
    running, waiting = home.start(stay, prompt=40), home.start(stay)
    await settle()
    waiting.cancel()
    home.queue.remove_node("parent")
    await settle()
    assert waiting.cancelled()
    stay.set()
    await running
    assert home.counts == (0, 0)


async def test_reading_a_prompt_is_stopped_when_the_queue_closes(home: Home) -> None:
    async with home.queue.admit(home.request()) as grant:
        home.queue.close()
        verdict = grant.prompt_progress(uncached=5, cached=0)
        assert verdict is Verdict.STOP_CLOSED


async def test_who_left_is_not_told_anything_more(home: Home) -> None:
    stay = asyncio.Event()
    running, leaving = home.start(stay), home.start(stay)
    await settle()
    leaving.cancel()
    home.queue.close()
    await settle()
    assert leaving.done()
    stay.set()
    await running


async def test_lost_patience_is_noticed_without_any_other_event(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.queue.close_server("server")
    waiting = home.start(asyncio.Event())
    await settle()
    loop = asyncio.get_running_loop()
    delays: list[float] = []
    monkeypatch.setattr(
        loop,
        "call_later",
        lambda delay, _callback: delays.append(delay) or asyncio.Handle,
    )
    home.clock.advance(100)
    home.queue.decide()
    assert delays == [20]
    monkeypatch.undo()
    home.clock.advance(20)
    home.queue._timer = None  # noqa: SLF001 - the fake one can't be cancelled
    home.queue.decide()
    with pytest.raises(Rejected) as refusal:
        await waiting
    assert refusal.value.reason is RejectReason.NO_SERVER


async def test_a_held_slot_is_used_again_when_it_is_free(home: Home) -> None:
    home.queue.hold_slot("server")
    stay = asyncio.Event()
    waiting = home.start(stay)
    await settle()
    assert home.counts == (0, 1)
    home.queue.free_slot("server")
    await settle()
    assert home.counts == (1, 0)
    stay.set()
    await waiting


async def test_a_new_window_is_told(home: Home) -> None:
    home.changed.clear()
    home.clock.advance(13 * 3600)
    home.queue.decide()
    assert "parent" in home.changed


async def test_the_household_can_change_while_requests_wait(home: Home) -> None:
    stay = asyncio.Event()
    running, waiting = home.start(stay), home.start(stay)
    await settle()
    home.queue.configure(Settings(limits=Limits(queued=1)))
    with pytest.raises(Rejected):
        async with home.queue.admit(home.request()):
            pytest.fail("admitted")
    home.queue.grant_tokens("parent", 10)
    home.queue.put_class(RequestClass(CHAT, "parent/direct", Workload.CHAT))
    home.queue.remove_server("server")
    home.queue.put_server(capacity("another"))
    await settle()
    assert home.counts == (2, 0)
    home.queue.restore_state(home.queue.export_state())
    home.queue.remove_node("parent")
    stay.set()
    await asyncio.gather(running, waiting)


@pytest.mark.parametrize("seed", range(5))
async def test_no_slot_is_lost_in_fifty_random_ends(seed: int) -> None:
    chance = random.Random(seed)
    async with open_home(slots=3) as home:

        async def client() -> None:
            async with home.queue.admit(home.request()) as grant:
                for _ in range(chance.randrange(6)):
                    await asyncio.sleep(0)
                    grant.output(1)
                chance.choice((grant.finish, _fail))()

        clients = [asyncio.create_task(client()) for _ in range(50)]
        for task in chance.sample(clients, 25):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        assert home.counts == (0, 0)
        async with home.queue.admit(home.request()):
            assert home.counts == (1, 0)


def _fail() -> None:
    raise RuntimeError


async def test_every_ending_is_told_with_its_account_or_its_refusal(home: Home) -> None:
    stay = asyncio.Event()
    finished, refused_later = home.start(stay), home.start(stay)
    await settle()
    home.clock.advance(3.0)
    home.queue.close_server("server")
    home.queue.put_server(capacity(slots=1, context=5))
    await settle()
    with pytest.raises(Rejected):
        await home.start(stay, prompt=100_000)
    stay.set()
    await finished
    with pytest.raises(Rejected):
        await refused_later
    told = [(each.request.request_id, each.refusal) for each in home.endings]
    assert told == [
        ("r2", RejectReason.TOO_LONG),
        ("r3", RejectReason.TOO_LONG),
        ("r1", None),
    ]
    assert [each.duration_s for each in home.endings] == [3.0, 0.0, 3.0]
    assert [each.record for each in home.endings] == [None, None, *home.records]
    path = ("household", "parent", "parent/direct", CHAT)
    assert {each.path for each in home.endings} == {path}


async def test_the_rules_in_force_can_be_looked_at(home: Home) -> None:
    assert home.queue.settings == Settings()
    other = Settings(policy="latency_first", limits=Limits(queued=1))
    home.queue.configure(other)
    assert home.queue.settings == other


async def test_foreign_load_makes_wait_until_it_is_gone() -> None:
    async with open_home(slots=1) as home:
        home.queue.put_foreign("server", 1, 0)
        asked = home.start(asyncio.Event())
        await settle()
        assert home.counts == (0, 1)
        home.queue.put_foreign("server", 0, 0)
        await settle()
        assert home.counts == (1, 0)
        asked.cancel()
