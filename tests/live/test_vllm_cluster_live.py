"""What the front of a cluster is told, with a real vLLM router and a real vLLM."""

import asyncio
from collections.abc import Iterator
import json

import aiohttp
from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import Workload
from custom_components.fair_share.const import CONF_SCHEDULING, SCHEDULING_CLUSTER
from custom_components.fair_share.engines.base import Resume, ResumeWay
from demo.embedded_engine import EmbeddedEngine
from tests.common import until
from tests.documented import documented_request
from tests.live.test_preemption_live import Answer, background, read, story
from tests.live.vllm_fixtures import running_router
from tests.live.vllm_home import LENGTHS, home, sent

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1000)]

INSIDE = 4
"""More than vLLM works on at once: what is sent beyond that waits inside it."""


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant, socket_enabled: None) -> None:
    """Load what every Home Assistant has loaded, and open the loopback."""
    assert await async_setup_component(hass, "homeassistant", {})


@pytest.fixture(scope="module")
def front(vllm_server: EmbeddedEngine) -> Iterator[EmbeddedEngine]:
    """A router in front of the vLLM."""
    with running_router(vllm_server) as router:
        yield router


@pytest.mark.parametrize("through", ["server", "router"])
async def test_the_documented_request_is_answered(
    through: str, vllm_server: EmbeddedEngine, front: EmbeddedEngine
) -> None:
    url = {"server": vllm_server, "router": front}[through].url
    documented = documented_request("beyond-one-server.md")
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"{url}/v1/chat/completions",
            json=documented.body,
            headers=documented.headers,
        ) as response,
    ):
        assert response.status == 200
        lines = (await response.text()).split("\n\n")
    events = [line.removeprefix("data: ") for line in lines if line.strip()]
    assert events[-1] == "[DONE]"
    *_, finish, usage = map(json.loads, events[:-1])
    assert finish["choices"][0]["finish_reason"] in ("length", "stop")
    assert usage["usage"]["completion_tokens"] <= documented.body["max_tokens"]


async def test_the_cluster_goes_on_with_what_the_household_decided(
    hass: HomeAssistant, vllm_server: EmbeddedEngine, front: EmbeddedEngine
) -> None:
    served: list[str] = []

    async def ask(name: str, workload: Workload) -> None:
        answer = Answer()
        await read(household, "user_parent", workload, story(4), answer)
        assert answer.usage.output_tokens == 4
        served.append(name)

    async with home(
        hass, front, slots=INSIDE, **{CONF_SCHEDULING: SCHEDULING_CLUSTER}
    ) as household:
        capabilities = household.servers.get("server").capabilities
        assert capabilities is not None
        # Those of one of the servers would not be those of the cluster.
        assert capabilities.kv_tokens is None
        assert capabilities.resume == Resume(ResumeWay.CONTINUE)
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
    assert served == ["voice", "background"]
    assert [answer.usage.output_tokens for answer in running] == [*LENGTHS]
    assert not any(answer.usage.estimated for answer in running)


async def test_an_answer_is_interrupted_and_goes_on_through_the_front(
    hass: HomeAssistant, front: EmbeddedEngine
) -> None:
    async with home(
        hass, front, slots=1, **{CONF_SCHEDULING: SCHEDULING_CLUSTER}
    ) as household:
        summary, spoken = Answer(), Answer()
        writing = background(household, summary, 1200)
        await until(lambda: bool(summary.text.strip()))
        await read(household, "user_parent", Workload.VOICE, story(12), spoken)
        assert not writing.done()
        await writing
        (wrote,) = [r for r in household.records() if r.workload is Workload.BACKGROUND]
    assert wrote.preemptions == 1
    assert summary.usage.output_tokens == wrote.tokens.output == 1200
