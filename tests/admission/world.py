"""A household with a clock of its own, for tests of the scheduler."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from custom_components.fair_share.admission.model import (
    Caps,
    Decisions,
    Dispatch,
    NodeSpec,
    Outcome,
    Preemption,
    QuotaSpec,
    Rejection,
    Request,
    RequestClass,
    RequestRecord,
    ServerCapacity,
    Settings,
    TokenCount,
    Verdict,
    Workload,
)
from custom_components.fair_share.admission.scheduler import Scheduler

NO_CAPS = Caps()
START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def capacity(
    server_id: str = "server",
    *,
    slots: int = 2,
    context: int = 4096,
    pool: int | None = None,
    block: int = 1,
    survives: bool = False,
) -> ServerCapacity:
    """Return a server's capacity."""
    return ServerCapacity(server_id, slots, context, pool, block, survives)


@dataclass
class World:
    """A scheduler, its virtual time, and all that it has decided so far."""

    scheduler: Scheduler = field(default_factory=lambda: Scheduler(START))
    now: float = 0.0
    wall: datetime = START
    dispatched: list[Dispatch] = field(default_factory=list)
    preempted: list[Preemption] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    reset: list[str] = field(default_factory=list)
    submitted: int = 0

    def server(self, capacity: ServerCapacity) -> None:
        """Add or change a server."""
        self.scheduler.put_server(capacity, self.now)

    def set(self, **settings: Any) -> None:
        """Change some of the rules."""
        self.scheduler.configure(Settings(**settings))

    def member(
        self,
        member_id: str,
        *workloads: Workload,
        weight: float = 1.0,
        quota: QuotaSpec | None = None,
        caps: Caps = NO_CAPS,
        source: str = "direct",
    ) -> None:
        """Add a member with one source and a class for each workload."""
        self.scheduler.put_node(
            NodeSpec(member_id, weight=weight, quota=quota, caps=caps), self.wall
        )
        self.source(member_id, source, *workloads)

    def source(
        self,
        member_id: str,
        source: str,
        *workloads: Workload,
        weight: float = 1.0,
        caps: Caps = NO_CAPS,
    ) -> None:
        """Add a source to a member with a class for each workload (chat by default)."""
        source_id = f"{member_id}/{source}"
        self.scheduler.put_node(
            NodeSpec(source_id, member_id, weight=weight, caps=caps), self.wall
        )
        for workload in workloads or (Workload.CHAT,):
            self.scheduler.put_class(
                RequestClass(f"{source_id}/{workload}", source_id, workload), self.wall
            )

    def ask(
        self,
        class_id: str,
        *,
        prompt: int = 10,
        output: int = 100,
        cached: int = 0,
        servers: frozenset[str] | None = None,
        preferred: str | None = None,
        continues: bool = False,
        preemptible: bool = True,
    ) -> str:
        """Submit a request and let the scheduler decide; return the request's id."""
        self.submitted += 1
        request_id = f"r{self.submitted}"
        request = Request(
            request_id,
            class_id,
            prompt_tokens=prompt,
            max_output_tokens=output,
            cached_tokens=cached,
            servers=servers,
            preferred_server=preferred,
            continues_turn=continues,
            preemptible=preemptible,
        )
        self.scheduler.submit(request, self.now, self.wall)
        self.decide()
        return request_id

    def decide(self) -> Decisions:
        """Let the scheduler decide and note what it said."""
        decisions = self.scheduler.decide(self.now, self.wall)
        self.dispatched += decisions.dispatches
        self.preempted += decisions.preemptions
        self.rejected += decisions.rejections
        self.reset += decisions.reset_nodes
        return decisions

    def output(self, request_id: str, tokens: int = 1) -> Verdict:
        """Report output of a running request."""
        return self.scheduler.output(request_id, tokens, self.now)

    def end(
        self,
        request_id: str,
        outcome: Outcome = Outcome.FINISHED,
        tokens: TokenCount | None = None,
    ) -> RequestRecord:
        """End a request, settled to ``tokens`` if given, and decide again."""
        if tokens is not None:
            self.scheduler.settle(request_id, tokens, estimated=False)
        record = self.scheduler.release(request_id, outcome, self.now)
        self.decide()
        return record

    def pause(self, request_id: str) -> None:
        """Let a preempted request leave its server, and decide again."""
        self.scheduler.preempted(request_id, self.now)
        self.decide()

    def pass_time(self, seconds: float) -> None:
        """Let time go by, on both clocks, and decide again."""
        self.now += seconds
        self.wall += timedelta(seconds=seconds)
        self.decide()

    def order(self) -> list[str]:
        """Return the ids of all requests started so far, in order."""
        return [dispatch.request_id for dispatch in self.dispatched]

    def running(self) -> int:
        """Return how many requests run now."""
        return self.scheduler.status(self.now).running

    def waiting(self) -> int:
        """Return how many requests wait now."""
        return self.scheduler.status(self.now).waiting
