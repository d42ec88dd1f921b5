"""A household's queue in front of a real vLLM."""

import asyncio

from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import Outcome, Workload
from custom_components.fair_share.const import (
    CONF_SCHEDULING,
    SCHEDULING_NONE,
    SCHEDULING_PRIORITY,
)
from custom_components.fair_share.engines.base import FinishReason, Resume, ResumeWay
from demo.embedded_engine import EmbeddedEngine
from demo.vllm_engine import BLOCK_TOKENS
from tests.common import until
from tests.live.test_preemption_live import Answer, background, read, records, story
from tests.live.vllm_home import LENGTHS, home, metric, sent

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1000)]

INSIDE = 4
"""More slots than vLLM has: what is sent beyond those waits inside it."""


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant, socket_enabled: None) -> None:
    """Load what every Home Assistant has loaded, and open the loopback."""
    assert await async_setup_component(hass, "homeassistant", {})


async def test_a_voice_command_is_answered_while_background_work_pauses(
    hass: HomeAssistant, vllm_server: EmbeddedEngine
) -> None:
    async with home(hass, vllm_server) as household:
        capabilities = household.servers.get("server").capabilities
        assert capabilities is not None
        assert capabilities.resume == Resume(ResumeWay.CONTINUE)
        summaries = [Answer() for _ in range(2)]
        writing = [
            background(household, summary, 700, about=f"This is number {number}. ")
            for number, summary in enumerate(summaries)
        ]
        # White space alone, as random weights like to begin with, can't be continued.
        await until(lambda: all(summary.text.strip() for summary in summaries))
        spoken = Answer()
        await read(household, "user_parent", Workload.VOICE, story(12), spoken)
        assert not all(task.done() for task in writing)
        await asyncio.gather(*writing)
        assert household.status().running == 0
        (spoke,) = records(household, Workload.VOICE)
        wrote = records(household, Workload.BACKGROUND)
    assert await metric(vllm_server, "num_requests_running") == 0
    assert spoken.usage.output_tokens == 12
    assert [summary.usage.output_tokens for summary in summaries] == [700] * 2
    assert {summary.reason for summary in summaries} == {FinishReason.LENGTH}
    assert (spoke.caused, spoke.outcome) == (1, Outcome.FINISHED)
    assert sum(record.preemptions for record in wrote) == 1
    assert [record.tokens.output for record in wrote] == [700] * 2
    (reread,) = [record.recomputed for record in wrote if record.preemptions]
    # vLLM still had the prompt but for its last block, which is not whole. What random
    # weights wrote can be other tokens when it is read.
    assert reread.cached >= wrote[0].tokens.prompt // BLOCK_TOKENS * BLOCK_TOKENS


@pytest.mark.parametrize(
    ("scheduling", "order"),
    [
        (SCHEDULING_PRIORITY, ["voice", "background"]),
        (SCHEDULING_NONE, ["background", "voice"]),
    ],
)
async def test_what_waits_inside_is_served_by_its_band_if_the_server_is_told(
    hass: HomeAssistant,
    vllm_server: EmbeddedEngine,
    scheduling: str,
    order: list[str],
) -> None:
    served: list[str] = []

    async def ask(name: str, workload: Workload) -> None:
        await read(household, "user_parent", workload, story(4), Answer())
        served.append(name)

    async with home(
        hass, vllm_server, slots=INSIDE, **{CONF_SCHEDULING: scheduling}
    ) as household:
        running = [Answer(), Answer()]
        writing = [
            background(household, answer, tokens, about=f"Number {tokens}. ")
            for answer, tokens in zip(running, LENGTHS, strict=True)
        ]
        await until(lambda: all(answer.pieces for answer in running))
        asking = []
        for waiting, workload in enumerate((Workload.BACKGROUND, Workload.VOICE), 1):
            asking.append(asyncio.create_task(ask(workload.value, workload)))
            await sent(household, vllm_server, len(running) + waiting)
        await asyncio.gather(*asking, *writing)
    assert served == order
