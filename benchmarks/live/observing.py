"""The mixed load at one server, by one of the ways to it, for a while."""

from dataclasses import dataclass

from .home import Home, Server, running_home
from .mixed_load import MixedLoad, Observed, Sizes
from .prompts import Prompts
from .sides import Queued, Straight, client_of

WAYS = ("idle", "direct", "queued")
"""Voice commands alone, everything straight to the server, everything queued."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long each run takes, in seconds, and of what."""

    warm_up_s: float
    window_s: float
    sizes: Sizes


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of one way."""

    observed: Observed
    preemptions: int | None = None
    recomputed: int | None = None


async def observe(server: Server, way: str, plan: Plan, seed: int) -> Ran:
    """Watch one of ``WAYS`` once. Raises ``EngineError`` or ``NotReadyError``."""
    async with client_of(server) as client:
        prompts = await Prompts.for_engine(client, seed)
        if way != "queued":
            load = MixedLoad(Straight(client).open, prompts, plan.sizes)
            return Ran(await _watch(load, plan, voice_only=way == "idle"))
    async with running_home([server]) as home:
        queued = Queued(home)
        load = MixedLoad(queued.open, prompts, plan.sizes, listens=queued.listens)
        before = interruptions(home)
        observed = await _watch(load, plan)
        after = interruptions(home)
    return Ran(observed, after[0] - before[0], after[1] - before[1])


async def _watch(load: MixedLoad, plan: Plan, *, voice_only: bool = False) -> Observed:
    return await load.run(
        warm_up_s=plan.warm_up_s, window_s=plan.window_s, voice_only=voice_only
    )


def interruptions(home: Home) -> tuple[int, int]:
    """Return how many there were by now, and the tokens that were read twice."""
    household = home.household
    status = household.node_status("household")
    return status.preemptions, household.status().recomputed.uncached
