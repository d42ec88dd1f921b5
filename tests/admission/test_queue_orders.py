"""Orders from outside: cancel, pause with interruption, reset, and what is told."""

import asyncio

import pytest

from custom_components.fair_share.admission.model import (
    NodeSpec,
    Outcome,
    QuotaSpec,
    Rejected,
    RejectReason,
    Settings,
    Verdict,
    Workload,
)
from custom_components.fair_share.admission.queue import Grant

from . import test_queue, test_queue_interruptions as interruptions
from .test_queue import CHAT, settle
from .world import capacity

plain = test_queue.home
polite = interruptions.home
BACKGROUND = interruptions.BACKGROUND


# ---- cancel ------------------------------------------------------------------------


async def test_what_waits_is_refused_when_it_is_cancelled(
    plain: test_queue.Home,
) -> None:
    stay = asyncio.Event()
    running, waiting = plain.start(stay), plain.start(stay)
    await settle()
    plain.queue.cancel("r2")
    with pytest.raises(Rejected) as refusal:
        await waiting
    assert refusal.value.reason is RejectReason.CANCELLED
    assert plain.counts == (1, 0)
    assert plain.endings[-1].refusal is RejectReason.CANCELLED
    stay.set()
    await running


async def test_what_runs_is_stopped_at_its_next_word(plain: test_queue.Home) -> None:
    async with plain.queue.admit(plain.request()) as grant:
        assert grant.output(1) is Verdict.CONTINUE
        plain.queue.cancel("r1")
        assert grant.output(1) is Verdict.STOP_CANCELLED
        progress = grant.prompt_progress(uncached=3, cached=0)
        assert progress is Verdict.STOP_CANCELLED
    assert plain.counts == (0, 0)


async def test_a_closed_queue_says_so_also_to_what_was_cancelled(
    plain: test_queue.Home,
) -> None:
    async with plain.queue.admit(plain.request()) as grant:
        plain.queue.cancel("r1")
        plain.queue.close()
        assert grant.output(1) is Verdict.STOP_CLOSED


async def test_what_is_cancelled_before_it_could_take_its_turn_stops_at_once(
    plain: test_queue.Home,
) -> None:
    async def client() -> Verdict:
        async with plain.queue.admit(plain.request()) as grant:
            return grant.output(1)

    stay = asyncio.Event()
    running = plain.start(stay)
    await settle()
    task = asyncio.get_running_loop().create_task(client())
    await settle()
    plain.queue.put_server(capacity(slots=2))
    plain.queue.cancel("r2")
    assert await task is Verdict.STOP_CANCELLED
    stay.set()
    await running


async def test_who_listens_leaves_its_server_at_once_when_cancelled(
    polite: interruptions.Home,
) -> None:
    log: list[str] = []
    task = polite.start_polite(asyncio.Event(), log)
    await settle()
    polite.queue.cancel("r1")
    with pytest.raises(Rejected) as refusal:
        await task
    assert refusal.value.reason is RejectReason.CANCELLED
    assert log == ["asked"]
    assert polite.records[-1].outcome is Outcome.STOPPED
    assert polite.counts == (0, 0)


async def test_the_id_of_a_cancelled_request_can_be_used_again(
    plain: test_queue.Home,
) -> None:
    async with plain.queue.admit(plain.request()):
        plain.queue.cancel("r1")
    plain.made = 0
    async with plain.queue.admit(plain.request()) as grant:
        assert grant.output(1) is Verdict.CONTINUE


async def test_what_is_not_here_cannot_be_cancelled(plain: test_queue.Home) -> None:
    with pytest.raises(KeyError):
        plain.queue.cancel("r1")


# ---- pause -------------------------------------------------------------------------


async def test_what_is_paused_with_interruption_goes_on_when_it_may(
    polite: interruptions.Home,
) -> None:
    stay, log = asyncio.Event(), list[str]()
    preempted: list[tuple[str, ...]] = []
    polite.queue.on_preempted = preempted.append
    task = polite.start_polite(stay, log)
    await settle()

    workloads = frozenset({Workload.BACKGROUND})
    polite.queue.configure(Settings(paused_workloads=workloads))
    await settle()
    assert polite.counts == (1, 0)
    polite.queue.interrupt_paused()
    await settle()
    assert polite.counts == (0, 1)
    assert preempted == [("household", "parent", "parent/direct", BACKGROUND)]

    polite.queue.configure(Settings())
    stay.set()
    grant = await task
    assert log == ["asked", "on again"]
    assert grant.finished


async def test_what_does_not_listen_may_end_when_paused(
    polite: interruptions.Home,
) -> None:
    stay = asyncio.Event()
    task: asyncio.Task[Grant] = polite.start(BACKGROUND, stay)
    await settle()
    polite.queue.configure(Settings(paused_nodes=frozenset({"parent"})))
    polite.queue.interrupt_paused()
    await settle()
    assert polite.counts == (1, 0)
    stay.set()
    assert (await task).finished


# ---- quota and forecast ------------------------------------------------------------


async def test_a_window_that_is_reset_opens_a_used_up_quota(
    plain: test_queue.Home,
) -> None:
    plain.queue.put_node(NodeSpec("parent", quota=QuotaSpec(5)))
    async with plain.queue.admit(plain.request()) as grant:
        grant.output(10)
    with pytest.raises(Rejected):
        async with plain.queue.admit(plain.request()):
            pass
    plain.changed.clear()
    plain.clock.advance(60)
    plain.queue.reset_window("parent")
    assert plain.changed == ["parent"]
    window = plain.queue.node_status("parent").window
    assert (window.used_tokens, window.limit_tokens) == (0, 5)
    assert window.counted_from == plain.clock.time
    assert window.counted_from > window.started_at
    async with plain.queue.admit(plain.request()):
        assert plain.counts == (1, 0)


async def test_a_reset_is_remembered_over_a_restart(plain: test_queue.Home) -> None:
    plain.queue.put_node(NodeSpec("parent", quota=QuotaSpec(5)))
    plain.clock.advance(60)
    plain.queue.reset_window("parent")
    kept = plain.queue.export_state()
    before = plain.queue.node_status("parent").window
    plain.clock.advance(60)
    plain.queue.reset_window("parent")
    plain.queue.restore_state(kept)
    assert plain.queue.node_status("parent").window == before


async def test_a_new_window_counts_from_its_start(plain: test_queue.Home) -> None:
    plain.clock.advance(60)
    plain.queue.reset_window("parent")
    plain.clock.advance(86400)
    plain.queue.decide()
    window = plain.queue.node_status("parent").window
    assert window.counted_from == window.started_at


async def test_it_is_told_how_long_one_more_would_wait(plain: test_queue.Home) -> None:
    assert plain.queue.expected_wait_s(CHAT) == 0
