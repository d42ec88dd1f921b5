"""Work of another program in a household: let in, charged, and always let go of."""

import asyncio
from collections.abc import AsyncIterator

from homeassistant.core import Context, HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import (
    Outcome,
    Rejected,
    RejectReason,
    TokenCount,
    Workload,
)
from custom_components.fair_share.household.outside_work import (
    OutsideWork,
    Spending,
    admitted,
)
from custom_components.fair_share.household.runtime import Household
from tests.common import household_entry, member, server, set_up, until
from tests.fake_server import FakeServer


@pytest.fixture
async def household(
    hass: HomeAssistant, socket_enabled: None
) -> AsyncIterator[Household]:
    """Parent and Child before a server with one slot."""
    assert await async_setup_component(hass, "homeassistant", {})
    async with FakeServer(slots=1, context_tokens=4096) as fake:
        entry = household_entry(
            server(fake.url),
            member("parent", user_ids=("user_parent",)),
            member("child", user_ids=("user_child",)),
        )
        await set_up(hass, entry)
        yield entry.runtime_data


def work(
    household: Household,
    server_id: str | None = "server",
    *,
    prompt: int = 10,
    user: str = "user_parent",
) -> OutsideWork:
    asker = household.identity.resolve(Context(user_id=user), None, None)
    return OutsideWork(asker, Workload.CHAT, server_id, prompt, 64)


def at_work(household: Household) -> tuple[int, int]:
    status = household.status()
    return status.waiting, status.running


async def test_it_holds_a_slot_of_its_server_until_it_is_done(
    household: Household,
) -> None:
    order: list[str] = []

    async def do(name: str, gate: asyncio.Event) -> None:
        async with admitted(household, work(household)) as spending:
            order.append(name)
            await gate.wait()
            spending.spent(prompt=100, cached=40, output=20)

    gates = [asyncio.Event(), asyncio.Event()]
    tasks = [
        asyncio.ensure_future(do(name, gate))
        for name, gate in zip(("one", "two"), gates, strict=True)
    ]
    await until(lambda: at_work(household) == (1, 1))
    assert order == ["one"]
    gates[0].set()
    await tasks[0]
    await until(lambda: order == ["one", "two"])
    gates[1].set()
    await tasks[1]
    record = household.records()[-1]
    assert record.class_id == "parent/direct/chat"
    assert record.outcome is Outcome.FINISHED
    assert record.tokens == TokenCount(60, 40, 20)
    assert not record.estimated
    assert household.node_status("parent").tokens == TokenCount(120, 80, 40)


async def test_outside_of_all_servers_it_waits_for_none(household: Household) -> None:
    async with (
        admitted(household, work(household)),
        admitted(household, work(household, None)) as spending,
    ):
        assert at_work(household) == (0, 2)
        spending.spent(prompt=1, cached=0, output=2, estimated=True)
    outside = household.records()[0]
    assert (outside.server_id, outside.estimated) == ("outside", True)
    assert outside.tokens == TokenCount(1, 0, 2)


async def test_what_is_said_again_is_the_whole_cost_not_more_of_it(
    household: Household,
) -> None:
    async with admitted(household, work(household)) as spending:
        spending.spent(prompt=10, cached=0, output=5)
        spending.spent(prompt=10, cached=0, output=15)
    assert household.records()[-1].tokens == TokenCount(10, 0, 15)


async def test_a_guess_that_is_too_large_is_no_reason_to_refuse(
    household: Household,
) -> None:
    async with admitted(household, work(household, prompt=1_000_000)):
        assert at_work(household) == (0, 1)


async def _fail(_spending: Spending) -> None:
    raise ValueError("broken")


async def test_work_that_fails_gives_the_slot_back(household: Household) -> None:
    with pytest.raises(ValueError, match="broken"):
        async with admitted(household, work(household)) as spending:
            await _fail(spending)
    assert at_work(household) == (0, 0)
    record = household.records()[-1]
    assert (record.outcome, record.charge) == (Outcome.FAILED, 0)


@pytest.mark.parametrize("first", [0, 1], ids=["at work", "waiting"])
async def test_a_caller_that_leaves_gives_the_slot_back(
    household: Household, first: int
) -> None:
    async def do() -> None:
        async with admitted(household, work(household)):
            await asyncio.Event().wait()

    tasks = [asyncio.ensure_future(do()) for _ in range(2)]
    await until(lambda: at_work(household) == (1, 1))
    for task in (tasks[first], tasks[1 - first]):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert at_work(household) == (0, 0)


async def test_a_request_that_somebody_cancels_ends_its_work(
    household: Household,
) -> None:
    async def do() -> None:
        async with admitted(household, work(household)):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(do())
    await until(lambda: at_work(household) == (0, 1))
    (request,) = household.status().requests
    household.queue.cancel(request.request_id)
    household.queue.cancel(request.request_id)
    with pytest.raises(Rejected) as refused:
        await task
    assert refused.value.reason is RejectReason.CANCELLED
    assert not task.cancelling()
    assert at_work(household) == (0, 0)
    assert household.records()[-1].outcome is Outcome.STOPPED


async def test_a_caller_that_leaves_while_it_is_cancelled_has_left(
    household: Household,
) -> None:
    async def do() -> None:
        async with admitted(household, work(household)):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(do())
    await until(lambda: at_work(household) == (0, 1))
    (request,) = household.status().requests
    household.queue.cancel(request.request_id)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_a_removed_member_wants_is_refused(
    hass: HomeAssistant, household: Household
) -> None:
    gone = work(household, user="user_child")
    hass.config_entries.async_remove_subentry(household.entry, "child")
    await hass.async_block_till_done()
    with pytest.raises(Rejected) as refused:
        async with admitted(household, gone):
            pytest.fail("it was let in")
    assert refused.value.reason is RejectReason.CLASS_REMOVED
