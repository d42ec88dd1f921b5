"""Long prompts in slices on a real llama.cpp server: who waits for whom, who pays."""

import asyncio
from dataclasses import dataclass
from math import inf

from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component
import pytest

from custom_components.fair_share.admission.model import Outcome, Workload
from custom_components.fair_share.engines.base import GenerationRequest, PromptProgress
from custom_components.fair_share.household.runtime import Household
from demo.embedded_engine import embedded_engine as run_engine
from tests.common import until
from tests.live.test_preemption_live import Answer, home, idle, read, records, story
from tests.live.test_queue_live import watching

pytestmark = pytest.mark.live


@pytest.fixture(autouse=True)
async def _home(hass: HomeAssistant, socket_enabled: None) -> None:
    """Load what every Home Assistant has loaded, and open the loopback."""
    assert await async_setup_component(hass, "homeassistant", {})


@dataclass
class Watched(Answer):
    """What arrived of an answer so far, and of the reading of its prompt."""

    @property
    def read(self) -> list[int]:
        """How much of the prompt was read at each report."""
        return [d.processed for d in self.deltas if isinstance(d, PromptProgress)]


def speak(household: Household, spoken: Answer) -> asyncio.Task[None]:
    """Have the parent say something short."""
    request = GenerationRequest(
        [{"role": "user", "content": "Lights on in the kitchen, please."}],
        12,
        parameters={"ignore_eos": True},
    )
    return asyncio.create_task(
        read(household, "user_parent", Workload.VOICE, request, spoken)
    )


@pytest.mark.parametrize(("slots", "slices"), [(1, 1), (2, inf)])
async def test_a_voice_command_waits_for_no_more_than_a_slice(
    hass: HomeAssistant, slots: int, slices: float
) -> None:
    """The server would read the whole prompt in one batch."""
    async with (
        run_engine(slots=slots, context_tokens=3072 * slots, batch_tokens=0) as engine,
        home(hass, engine.url) as household,
        watching(engine, "requests_deferred") as deferred,
    ):
        await speak(household, Answer())
        long, spoken = Watched(), Answer()
        reading = asyncio.create_task(
            read(
                household,
                "user_child",
                Workload.BACKGROUND,
                story(30, words=110),
                long,
            )
        )
        await until(lambda: len(long.read) >= 3)
        speaking = speak(household, spoken)
        await until(lambda: household.status().waiting == 1 or bool(spoken.deltas))
        asked = len(long.read)
        await speaking
        # Where it needed the slot itself it got it when the slice ended.
        assert len(long.read) - asked <= slices
        assert not reading.done()
        assert long.pieces == 0
        await reading
        await idle(engine)
        assert household.status().running == household.status().waiting == 0
    assert set(deferred) == {0}
    assert spoken.usage.output_tokens == 12
    assert long.usage.output_tokens == 30
    assert long.read == sorted(long.read)
    (wrote,) = records(household, Workload.BACKGROUND)
    assert wrote.outcome is Outcome.FINISHED
    assert wrote.preemptions == (slots == 1)
    # Paid once, and next to nothing was read again.
    assert wrote.tokens.prompt == long.usage.prompt_tokens
    assert long.read[-1] == wrote.tokens.prompt > 1500
    assert wrote.tokens.cached < 64
    assert wrote.recomputed.uncached <= 8
