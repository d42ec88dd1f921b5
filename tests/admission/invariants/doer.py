"""What can be done to a household, by name, so that it can be done again."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from custom_components.fair_share.admission.model import (
    NodeSpec,
    Outcome,
    Rejected,
    Request,
    RequestClass,
    RequestRecord,
    ServerCapacity,
    Settings,
    TokenCount,
    Verdict,
    Workload,
)

from ..world import World

type Step = tuple[str, tuple[Any, ...]]


class Doer:
    """Acts on a world. ``on_submitted`` is called between arrival and decision."""

    def __init__(
        self, world: World, on_submitted: Callable[[], None] = lambda: None
    ) -> None:
        """Act on ``world``."""
        self.world = world
        self._on_submitted = on_submitted

    def do(self, name: str, *arguments: object) -> Any:
        """Do one thing of those below."""
        return getattr(self, name)(*arguments)

    def repeat(self, steps: list[Step]) -> None:
        """Do again what was written down."""
        for name, arguments in steps:
            with suppress(Rejected):
                self.do(name, *arguments)

    def ask(self, request: Request) -> None:
        """Submit a request."""
        self.world.scheduler.submit(request, self.world.now, self.world.wall)
        self._on_submitted()
        self.world.decide()

    def read(self, request_id: str, uncached: int, cached: int) -> None:
        """Report how much of a prompt is read."""
        self.world.scheduler.prompt_progress(
            request_id, uncached=uncached, cached=cached
        )

    def output(self, request_id: str, tokens: int) -> Verdict:
        """Report output."""
        return self.world.output(request_id, tokens)

    def end(
        self, request_id: str, outcome: Outcome, tokens: TokenCount | None
    ) -> RequestRecord:
        """End a request."""
        return self.world.end(request_id, outcome, tokens)

    def pause(self, request_id: str, *, lost: bool = False) -> None:
        """Let a request leave its server and wait to go on."""
        self.world.scheduler.preempted(request_id, self.world.now, lost=lost)
        self.world.decide()

    def lose(self, request_id: str) -> None:
        """Let a request leave a server that failed."""
        self.pause(request_id, lost=True)

    def shield(self, request_id: str, shielded: bool) -> None:  # noqa: FBT001 - as it was written down
        """Let an answer be at a place where it can't be interrupted, or no more."""
        self.world.scheduler.shield(request_id, shielded=shielded)
        self.world.decide()

    def pass_time(self, seconds: float) -> None:
        """Let time go by."""
        self.world.pass_time(seconds)

    def step_clock(self, hours: float) -> None:
        """Set the wall clock."""
        self.world.wall += timedelta(hours=hours)
        self.world.decide()

    def grant(self, member: str, tokens: int) -> None:
        """Grant tokens."""
        self.world.scheduler.grant(member, tokens)
        self.world.decide()

    def put_node(self, spec: NodeSpec) -> None:
        """Change a member or a device."""
        self.world.scheduler.put_node(spec, self.world.wall)
        self.world.decide()

    def put_class(self, source_id: str, workload: Workload) -> None:
        """Add a class to a device."""
        spec = RequestClass(f"{source_id}/{workload}", source_id, workload)
        self.world.scheduler.put_class(spec, self.world.wall)

    def configure(self, settings: Settings) -> None:
        """Change the rules."""
        self.world.scheduler.configure(settings)
        self.world.decide()

    def put_server(self, capacity: ServerCapacity) -> None:
        """Get a server, or get it back, or change it."""
        self.world.server(capacity)
        self.world.decide()

    def close_server(self, server_id: str) -> None:
        """Lose a server."""
        self.world.scheduler.close_server(server_id, self.world.now)
        self.world.decide()

    def note_exhausted(self, server_id: str, times: int) -> None:
        """Let an engine run out of memory."""
        self.world.scheduler.note_exhausted(server_id, times)
        self.world.decide()

    def put_foreign(self, server_id: str, running: int, kv_tokens: int) -> None:
        """Let others use a server past the queue."""
        self.world.scheduler.put_foreign(server_id, running, kv_tokens, self.world.now)
        self.world.decide()

    def hold_slot(self, server_id: str) -> None:
        """Keep a slot busy."""
        self.world.scheduler.hold_slot(server_id)
        self.world.decide()

    def free_slot(self, server_id: str) -> None:
        """Let go of a busy slot."""
        self.world.scheduler.free_slot(server_id)
        self.world.decide()
