"""Interrupting, pausing and going on, through the asyncio face."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
import random

import pytest

from custom_components.fair_share.admission.model import (
    NodeSpec,
    Outcome,
    PreemptionRules,
    QuotaSpec,
    Rejected,
    RejectReason,
    Request,
    RequestClass,
    RequestRecord,
    Settings,
    TokenCount,
    Workload,
)
from custom_components.fair_share.admission.queue import AdmissionQueue, Grant
from custom_components.fair_share.admission.scheduler import Scheduler

from .test_queue import VirtualClock, settle
from .world import START, capacity

BACKGROUND, VOICE = "parent/direct/background", "parent/direct/voice"
RULES = PreemptionRules(min_run_tokens=4, nearly_done_tokens=4)


def nothing() -> None:
    """Listen, and never leave."""


@dataclass
class Home:
    """A queue, its clock, and what it told."""

    queue: AdmissionQueue
    clock: VirtualClock
    records: list[RequestRecord] = field(default_factory=list)
    made: int = 0

    def request(self, class_id: str) -> Request:
        """Return a new request."""
        self.made += 1
        return Request(f"r{self.made}", class_id, 10, 100)

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many run and wait."""
        status = self.queue.status()
        return status.running, status.waiting

    def start(self, class_id: str, stay: asyncio.Event) -> asyncio.Task[Grant]:
        """Have a client write some output, then stay until ``stay`` is set."""

        async def client() -> Grant:
            async with self.queue.admit(self.request(class_id)) as grant:
                grant.output(10)
                await stay.wait()
                grant.finish()
                return grant

        return asyncio.get_running_loop().create_task(client())

    def start_polite(self, stay: asyncio.Event, log: list[str]) -> asyncio.Task[Grant]:
        """Have a background client leave when asked, and go on when it may."""

        async def client() -> Grant:
            async with self.queue.admit(self.request(BACKGROUND)) as grant:
                asked = asyncio.Event()
                grant.listen(asked.set)
                grant.output(10)
                await asked.wait()
                log.append("asked")
                await grant.pause()
                log.append("on again")
                grant.output(5)
                await stay.wait()
                grant.finish()
                return grant

        return asyncio.get_running_loop().create_task(client())


@pytest.fixture
async def home() -> AsyncIterator[Home]:
    """A member, one slot, interruption allowed."""
    clock = VirtualClock()
    records: list[RequestRecord] = []
    queue = AdmissionQueue(
        Scheduler(START, settings=Settings(preemption=RULES, background_share=0.0)),
        clock,
        on_change=lambda _: None,
        on_record=records.append,
    )
    queue.put_node(NodeSpec("parent"))
    queue.put_node(NodeSpec("parent/direct", "parent"))
    for class_id, workload in (
        (BACKGROUND, Workload.BACKGROUND),
        (VOICE, Workload.VOICE),
    ):
        queue.put_class(RequestClass(class_id, "parent/direct", workload))
    queue.put_server(capacity(slots=1))
    yield Home(queue, clock, records)
    queue.close()


async def test_who_is_asked_leaves_waits_and_goes_on_in_the_same_block(
    home: Home,
) -> None:
    log: list[str] = []
    stay, speak = asyncio.Event(), asyncio.Event()
    summary = home.start_polite(stay, log)
    await settle()
    home.clock.advance(1)
    voice = home.start(VOICE, speak)
    await settle()
    assert log == ["asked"]
    assert home.counts == (1, 1)
    assert [each.class_id for each in home.queue.status().requests] == [
        VOICE,
        BACKGROUND,
    ]
    home.clock.advance(2)
    speak.set()
    await voice
    await settle()
    assert log == ["asked", "on again"]
    stay.set()
    grant = await summary
    assert grant.dispatch.max_output_tokens == 90
    spoken, written = home.records
    assert (spoken.caused, spoken.preemptions) == (1, 0)
    assert (written.caused, written.preemptions) == (0, 1)
    assert (written.outcome, written.tokens.output) == (Outcome.FINISHED, 15)
    assert (written.paused_s, written.longest_pause_s) == (2, 2)


async def test_what_is_read_once_more_is_told_and_not_charged(home: Home) -> None:
    async with home.queue.admit(home.request(BACKGROUND)) as grant:
        grant.listen(nothing)
        grant.output(10)
        await grant.pause(lost=True)
        grant.prompt_progress(uncached=7, cached=13)
        grant.settle(TokenCount(7, 13, 3), estimated=False)
        grant.finish()
    (record,) = home.records
    assert record.recomputed == TokenCount(7, 13)
    assert record.tokens == TokenCount(10, 0, 13)


async def test_who_does_not_listen_is_never_interrupted(home: Home) -> None:
    stay = asyncio.Event()
    summary = home.start(BACKGROUND, stay)
    await settle()
    voice = home.start(VOICE, stay)
    await settle()
    assert home.counts == (1, 1)
    stay.set()
    await asyncio.gather(summary, voice)
    assert [record.preemptions for record in home.records] == [0, 0]


async def test_one_who_can_leave_is_asked_in_place_of_one_who_can_not(
    home: Home,
) -> None:
    home.queue.put_server(capacity(slots=2))
    stay = asyncio.Event()
    asked: list[str] = []
    async with home.queue.admit(home.request(BACKGROUND)) as first:
        first.listen(lambda: asked.append("first"))
        first.output(10)
        home.clock.advance(1)
        async with home.queue.admit(home.request(BACKGROUND)) as second:
            second.listen(lambda: asked.append("second"))
            second.output(10)
            voice = home.start(VOICE, stay)
            await settle()
            assert asked == ["second"]
            second.shield(shielded=True)
            assert asked == ["second", "first"]
            second.shield(shielded=False)
            assert asked == ["second", "first"]
            await stop(voice)


async def test_an_answer_that_is_too_young_is_asked_when_it_is_old_enough(
    home: Home,
) -> None:
    asked: list[str] = []
    async with home.queue.admit(home.request(BACKGROUND)) as grant:
        grant.listen(lambda: asked.append("asked"))
        grant.output(1)
        voice = home.start(VOICE, asyncio.Event())
        await settle()
        grant.output(5)
        assert asked == []
        home.clock.advance(0.2)
        grant.output(1)
        assert asked == ["asked"]
        home.clock.advance(0.2)
        grant.output(1)
        assert asked == ["asked"]
        await stop(voice)


async def test_nobody_is_looked_at_while_nobody_waits(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with home.queue.admit(home.request(BACKGROUND)) as grant:
        decided: list[float] = []
        monkeypatch.setattr(
            home.queue, "decide", lambda: decided.append(home.clock.now)
        )
        home.clock.advance(10)
        grant.output(1)
        assert decided == []
        monkeypatch.undo()


async def test_who_leaves_while_paused_leaves_nothing_behind(home: Home) -> None:
    log: list[str] = []
    speak = asyncio.Event()
    summary = home.start_polite(asyncio.Event(), log)
    await settle()
    voice = home.start(VOICE, speak)
    await settle()
    await stop(summary)
    assert home.counts == (1, 0)
    assert home.records[0].outcome is Outcome.CANCELLED
    assert home.records[0].tokens.output == 10
    speak.set()
    await voice
    assert home.counts == (0, 0)


async def test_who_leaves_in_the_moment_it_may_go_on_gives_the_slot_back(
    home: Home,
) -> None:
    speak = asyncio.Event()
    summary = home.start_polite(asyncio.Event(), [])
    await settle()
    voice = home.start(VOICE, speak)
    await settle()
    speak.set()
    await asyncio.sleep(0)
    summary.cancel()
    await voice
    await asyncio.gather(summary, return_exceptions=True)
    assert home.counts == (0, 0)
    async with home.queue.admit(home.request(BACKGROUND)):
        assert home.counts == (1, 0)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda queue: queue.close(), RejectReason.CLOSED),
        (lambda queue: queue.remove_node("parent"), RejectReason.CLASS_REMOVED),
        (
            lambda queue: queue.put_node(NodeSpec("parent", quota=QuotaSpec(5))),
            RejectReason.QUOTA,
        ),
    ],
)
async def test_who_is_refused_while_paused_is_told_and_keeps_its_account(
    home: Home, end: Callable[[AdmissionQueue], None], reason: RejectReason
) -> None:
    speak = asyncio.Event()
    summary = home.start_polite(asyncio.Event(), [])
    await settle()
    voice = home.start(VOICE, speak)
    await settle()
    end(home.queue)
    with pytest.raises(Rejected) as refusal:
        await summary
    assert refusal.value.reason is reason
    assert home.records[0].outcome is Outcome.STOPPED
    assert home.records[0].tokens.output == 10
    speak.set()
    await voice
    assert home.counts == (0, 0)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda queue: queue.close(), RejectReason.CLOSED),
        (lambda queue: queue.remove_node("parent"), RejectReason.CLASS_REMOVED),
    ],
)
async def test_nobody_pauses_for_ever_where_it_could_not_go_on(
    home: Home, end: Callable[[AdmissionQueue], None], reason: RejectReason
) -> None:
    async def leave_too_late() -> None:
        async with home.queue.admit(home.request(BACKGROUND)) as grant:
            end(home.queue)
            await grant.pause()

    with pytest.raises(Rejected) as refusal:
        await leave_too_late()
    assert refusal.value.reason is reason
    assert [record.outcome for record in home.records] == [Outcome.STOPPED]
    assert home.counts == (0, 0)


async def test_a_lost_server_is_no_interruption_by_others(home: Home) -> None:
    async with home.queue.admit(home.request(BACKGROUND)) as grant:
        grant.output(3)
        home.queue.close_server("server")
        waiting = asyncio.ensure_future(grant.pause(lost=True))
        await settle()
        assert home.counts == (0, 1)
        home.clock.advance(4)
        home.queue.put_server(capacity(slots=1))
        await waiting
        home.clock.advance(1)
        await grant.pause(lost=True)
        grant.output(1)
        grant.finish()
    (record,) = home.records
    assert (record.preemptions, record.longest_pause_s) == (0, 5)
    assert record.tokens.output == 4


@pytest.mark.parametrize("seed", range(5))
async def test_no_slot_is_lost_in_many_interruptions_and_ends(
    home: Home, seed: int
) -> None:
    chance = random.Random(seed)
    home.queue.put_server(capacity(slots=2))

    async def client(class_id: str) -> None:
        async with home.queue.admit(home.request(class_id)) as grant:
            asked = asyncio.Event()
            grant.listen(asked.set)
            for _ in range(12):
                await asyncio.sleep(0)
                grant.output(2)
                while asked.is_set():
                    asked.clear()
                    await grant.pause()
            grant.finish()

    classes = [BACKGROUND] * 20 + [VOICE] * 10
    clients = [asyncio.create_task(client(each)) for each in classes]
    for task in chance.sample(clients, 10):
        await asyncio.sleep(0)
        home.clock.advance(0.2)
        task.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    assert home.counts == (0, 0)
    finished = [r for r in home.records if r.outcome is Outcome.FINISHED]
    assert {record.tokens.output for record in finished} == {24}
    assert len(home.records) >= 20


async def stop(task: asyncio.Task[Grant]) -> None:
    """Cancel a client and wait until it is gone."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
