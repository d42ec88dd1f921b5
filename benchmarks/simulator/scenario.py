"""A household's load: who asks for what kind of work, how often, and how much."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from custom_components.fair_share.admission.model import Workload

from .job import Job


@dataclass(frozen=True, slots=True)
class Client:
    """Whoever sends requests of one kind for one member, with the member's weight."""

    member: str
    workload: Workload
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Flow:
    """The requests of one client.

    One comes every ``every_s`` seconds, each interval up to the part ``spread`` of it
    shorter or longer, from ``start_s`` to ``end_s`` (the end of the scenario if
    ``None``). ``prompt_tokens`` are those that no cache has; that many and
    ``output_tokens`` are drawn evenly from least to most.
    """

    client: Client
    every_s: float
    prompt_tokens: tuple[int, int]
    output_tokens: tuple[int, int]
    spread: float = 0.0
    start_s: float = 0.0
    end_s: float | None = None


@dataclass(frozen=True)
class Scenario:
    """Flows side by side for ``duration_s``. A client's number is that of its flow."""

    duration_s: float
    flows: Sequence[Flow]

    @cached_property
    def clients(self) -> Mapping[int, Client]:
        """The clients by number."""
        return {number: flow.client for number, flow in enumerate(self.flows)}

    def jobs(self, seed: int) -> tuple[Job, ...]:
        """Return the requests in order of arrival; a seed always gives the same.

        Every flow has random numbers of its own, so that a change to one leaves the
        others as they were.
        """
        jobs = [
            job
            for number, flow in enumerate(self.flows)
            for job in self._jobs(number, flow, Random(f"{seed}/{number}"))
        ]
        return tuple(sorted(jobs, key=lambda job: (job.arrival_s, job.client)))

    def _jobs(self, client: int, flow: Flow, random: Random) -> Iterator[Job]:
        end_s = self.duration_s if flow.end_s is None else flow.end_s
        # The first one comes anywhere in its interval: flows do not start in step.
        now = flow.start_s + flow.every_s * random.random()
        number = 0
        while now < end_s:
            yield Job(
                job_id=f"{client}-{number}",
                client=client,
                arrival_s=now,
                prompt_tokens=random.randint(*flow.prompt_tokens),
                output_tokens=random.randint(*flow.output_tokens),
            )
            now += flow.every_s * random.uniform(1 - flow.spread, 1 + flow.spread)
            number += 1


_VOICE, _CHAT, _BACKGROUND = (150, 150), (600, 600), (2500, 2500)

HOUSEHOLD = Scenario(
    duration_s=900.0,
    flows=(
        Flow(Client("parent", Workload.VOICE), 60, _VOICE, (20, 59), spread=0.5),
        Flow(Client("child", Workload.VOICE), 60, _VOICE, (20, 59), spread=0.5),
        Flow(Client("parent", Workload.CHAT), 120, _CHAT, (100, 399), spread=0.5),
        Flow(Client("teen", Workload.CHAT), 120, _CHAT, (100, 399), spread=0.5),
        Flow(Client("parent", Workload.BACKGROUND), 16, _BACKGROUND, (200, 799)),
        Flow(Client("teen", Workload.BACKGROUND), 16, _BACKGROUND, (200, 799)),
    ),
)
"""Fifteen minutes in which background work alone is more than the server can do.

Together: a voice command every 30 s, a chat question every 60 s, and every 8 s a
background request with a long prompt.
"""

EVENING = Scenario(
    duration_s=900.0,
    flows=(
        Flow(Client("parent", Workload.VOICE), 10, _VOICE, (20, 59), spread=0.5),
        Flow(Client("child", Workload.VOICE), 10, _VOICE, (20, 59), spread=0.5),
        Flow(Client("teen", Workload.VOICE), 10, _VOICE, (20, 59), spread=0.5),
        Flow(Client("parent", Workload.CHAT), 10, _CHAT, (100, 200), spread=0.5),
        Flow(Client("teen", Workload.CHAT), 12, (1500, 1500), (300, 700), spread=0.5),
        Flow(Client("child", Workload.CHAT), 8, (200, 200), (50, 100), spread=0.5),
    ),
)
"""Fifteen minutes in which three members want very different amounts of the same.

All of them talk to the house, a command every three seconds or so. The child asks for
little, the parent for more, and the teen for most of what the server can do, which
together is about as much as it can. Nothing but the policy decides among equally urgent
requests of different members, of which there always are some.
"""
