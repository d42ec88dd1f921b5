"""What runs of somebody who is paused leaves its server, and goes on when they may."""

import asyncio

from homeassistant.core import HomeAssistant
import pytest

from custom_components.fair_share.admission.model import (
    Rejected,
    RejectReason,
    Rule,
    Workload,
)
from custom_components.fair_share.household.changes import async_pause, async_resume
from custom_components.fair_share.household.events import EventKind, HouseEvent
from tests.common import until
from tests.continuing_engine import ContinuingServer
from tests.household.test_interruptions import (
    TEXT,
    WORDS,
    Reader,
    _home,
    gated,
    home,
    record_of,
)

__all__ = ["_home"]


async def test_an_answer_is_left_and_goes_on_after_the_pause(
    hass: HomeAssistant,
) -> None:
    fake = ContinuingServer(slots=1, pieces=["ok"])
    events = list[HouseEvent]()
    async with fake, home(hass, fake) as household:
        household.events.async_listen("child", events.append)
        gated(fake, [*WORDS[:20], asyncio.Event(), *WORDS[20:]])
        summary = Reader(household)
        await summary.has("w19")

        async_pause(household, ("child",), ())
        assert household.status().running == 1
        household.queue.interrupt_paused()
        await until(lambda: household.status().running == 0)
        assert household.status().requests[0].rule is Rule.PAUSED

        async_resume(household, ("child",), ())
        await summary.task
        record = record_of(household, Workload.BACKGROUND)
    assert summary.text == TEXT
    assert record.preemptions == 1
    assert events[0] == HouseEvent(
        EventKind.PREEMPTED,
        {
            "workload": "background",
            "member": "Child",
            "source": "Child",
            "count": 1,
        },
    )


async def test_an_answer_that_is_cancelled_leaves_its_server_at_once(
    hass: HomeAssistant,
) -> None:
    fake = ContinuingServer(slots=1, pieces=["ok"])
    async with fake, home(hass, fake) as household:
        gated(fake, [*WORDS[:20], asyncio.Event(), *WORDS[20:]])
        summary = Reader(household)
        await summary.has("w19")
        household.queue.cancel(household.status().requests[0].request_id)
        with pytest.raises(Rejected) as refusal:
            await summary.task
        assert household.status().running == household.status().waiting == 0
    assert refusal.value.reason is RejectReason.CANCELLED
