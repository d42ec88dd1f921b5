"""A server with a speed, that works requests off on a household's clock."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from custom_components.fair_share.admission.model import (
    ServerCapacity,
    TokenCount,
    Workload,
)

from .world import World, capacity

type Gain = Callable[[int], float]


def no_gain(requests: int) -> float:
    """Get as much done by many requests as by one."""
    del requests
    return 1.0


def full_gain(requests: int) -> float:
    """Get as much more done as there are more requests."""
    return float(requests)


def gain_up_to(most: int) -> Gain:
    """Get more done by more requests, but not by more than ``most``."""
    return lambda requests: float(min(requests, most))


@dataclass
class Work:
    """A request on a server: tokens to read, tokens to write."""

    prompt: int
    output: int
    read: int = 0
    written: int = 0


@dataclass
class BusyServer:
    """Works all that runs off together, in steps.

    A request that is alone reads ``read_tokens`` or writes one in a step of ``step_s``.
    Several together take so long that ``gain`` times as much gets done, give or take
    the part ``noise``.
    """

    world: World
    gain: Gain
    slots: int = 4
    step_s: float = 0.05
    read_tokens: int = 20
    noise: float = 0.0
    tells_progress: bool = True
    server_id: str = "server"
    patient_slots: int | None = None
    learns: bool = True
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    work: dict[str, Work] = field(default_factory=dict)
    served: int = 0
    worked_s: float = 0.0
    seen: int = 0
    random: Random = field(default_factory=lambda: Random(0))

    def capacity(self) -> ServerCapacity:
        """Return what the queue is told of it."""
        plain = capacity(self.server_id, slots=self.slots, context=10**6)
        return ServerCapacity(
            self.server_id,
            self.slots,
            plain.context_tokens,
            patient_slots=self.patient_slots,
            learns=self.learns,
        )

    def ask(self, class_id: str, prompt: int, output: int) -> str:
        """Ask for so much; the answer will be as long as it may."""
        request_id = self.world.ask(class_id, prompt=prompt, output=output)
        self.sizes[request_id] = (prompt, output)
        return request_id

    def step(self) -> None:
        """Take in what was started here, and work for one step."""
        for dispatch in self.world.dispatched[self.seen :]:
            if dispatch.server_id == self.server_id:
                self.work[dispatch.request_id] = Work(*self.sizes[dispatch.request_id])
        self.seen = len(self.world.dispatched)
        requests = len(self.work)
        factor = max(0.1, self.random.gauss(1.0, self.noise))
        step_s = self.step_s * max(requests, 1) / self.gain(max(requests, 1)) * factor
        self.world.now += step_s
        self.worked_s += step_s
        for request_id, work in list(self.work.items()):
            self._work_on(request_id, work)

    def _work_on(self, request_id: str, work: Work) -> None:
        world = self.world
        if work.read < work.prompt:
            work.read = min(work.prompt, work.read + self.read_tokens)
            if self.tells_progress:
                world.scheduler.prompt_progress(
                    request_id, uncached=work.read, cached=0, now=world.now
                )
            return
        work.written += 1
        self.served += 1
        world.output(request_id)
        if work.written == work.output:
            del self.work[request_id]
            self.served += work.prompt // self.read_tokens
            world.end(request_id, tokens=TokenCount(work.prompt, 0, work.output))


def household() -> World:
    """Return a household in which two members want everything."""
    world = World()
    world.member("parent", *Workload)
    world.member("child", *Workload)
    return world
