"""What must hold after every event, in whatever order events come."""

from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)
import pytest

from custom_components.fair_share.admission.kv import POOL_SAFETY
from custom_components.fair_share.admission.model import (
    CostWeights,
    Outcome,
    PreemptionRules,
    QuotaSpec,
    Rejected,
    RequestRecord,
    Settings,
    TokenCount,
    Verdict,
    Workload,
)
from custom_components.fair_share.admission.policies import POLICIES
from custom_components.fair_share.admission.quota import QUOTA_CHUNK_TOKENS

from .world import World, capacity

pytestmark = pytest.mark.timeout(900)

MEMBERS = ("parent", "child", "teen")
SOURCES = ("phone", "tablet")
COSTS = CostWeights()
TOLERANCE = 1e-6
QUOTA = 3000
MOST_PREEMPTIONS = 3
PROMPTS = st.integers(1, 400)
OUTPUTS = st.integers(1, 300)


class Household(RuleBasedStateMachine):
    """Random arrivals, tokens, ends, failures and clock steps on one scheduler."""

    workloads: tuple[Workload, ...] = (Workload.CHAT,)
    pool: int | None = None
    slots = 2
    survives = False
    settings = Settings()
    promises_gap = True

    requests = Bundle("requests")

    def __init__(self) -> None:
        """Start with an empty world and an empty model of it."""
        super().__init__()
        self.world = World()
        self.arrived: dict[str, list[str]] = defaultdict(list)
        self.classes: dict[str, str] = {}
        self.weights: tuple[float, ...] = ()
        self.limited = False
        self.asked: dict[str, tuple[int, int]] = {}
        self.running: dict[str, int] = {}
        self.produced: dict[str, int] = defaultdict(int)
        self.run_output: dict[str, int] = defaultdict(int)
        self.interrupted: dict[str, int] = defaultdict(int)
        self.seen_preempted = 0
        self.charged = 0.0
        self.seen = 0
        self.seen_rejected = 0
        self.virtual_times: dict[str, float] = {}
        self.quota_overshoot = 0
        self.log: list[tuple[str, tuple[Any, ...]]] = []

    @initialize(
        weights=st.tuples(*(st.sampled_from((0.5, 1.0, 2.0)) for _ in MEMBERS)),
        limited=st.booleans(),
    )
    def move_in(self, weights: tuple[float, ...], *, limited: bool) -> None:
        """Give the household members, devices and one server."""
        self.weights = weights
        self.limited = limited
        self.furnish(self.world)

    def furnish(self, world: World) -> None:
        """Build the same household in ``world``."""
        if not self.weights:
            return
        quotas = (QuotaSpec(QUOTA) if self.limited else None, None, None)
        for member, weight, quota in zip(MEMBERS, self.weights, quotas, strict=True):
            world.member(
                member, *self.workloads, weight=weight, quota=quota, source="phone"
            )
            world.source(member, "tablet", *self.workloads)
        world.scheduler.configure(self.settings)
        world.server(capacity(slots=self.slots, pool=self.pool, survives=self.survives))
        world.decide()

    def do(self, name: str, *arguments: object) -> Any:
        """Do something to the world and keep it for a replay."""
        self.log.append((name, arguments))
        result = perform(self.world, name, arguments)
        self.take_note()
        return result

    def take_note(self) -> None:
        """Follow the scheduler's decisions in the model."""
        for dispatch in self.world.dispatched[self.seen :]:
            class_id = self.class_of(dispatch.request_id)
            assert self.arrived[class_id][0] == dispatch.request_id, "FIFO in a class"
            self.arrived[class_id].pop(0)
            self.running[dispatch.request_id] = dispatch.max_output_tokens
            self.run_output[dispatch.request_id] = 0
        if len(self.world.dispatched) > self.seen:
            self.check_memory()
        self.seen = len(self.world.dispatched)
        for rejection in self.world.rejected[self.seen_rejected :]:
            self.arrived[self.class_of(rejection.request_id)].remove(
                rejection.request_id
            )
        self.seen_rejected = len(self.world.rejected)

    def check_memory(self) -> None:
        """At a start no memory is promised twice, unless the request runs alone."""
        for server in self.world.scheduler.status(self.world.now).servers:
            if server.kv_tokens is not None and server.running > 1:
                part = 1.0 if self.survives else POOL_SAFETY
                assert server.kv_committed_tokens <= server.kv_tokens * part

    def class_of(self, request_id: str) -> str:
        """Return the class that a request was submitted to."""
        return self.classes[request_id]

    @rule(
        target=requests,
        member=st.sampled_from(MEMBERS),
        source=st.sampled_from(SOURCES),
        workload=st.integers(0, 4),
        prompt=PROMPTS,
        output=OUTPUTS,
        cached=st.integers(0, 400),
    )
    def arrive(
        self,
        member: str,
        source: str,
        workload: int,
        prompt: int,
        output: int,
        cached: int,
    ) -> object:
        """Somebody asks for something."""
        kind = self.workloads[workload % len(self.workloads)]
        class_id = f"{member}/{source}/{kind}"
        request_id = f"r{self.world.submitted + 1}"
        self.classes[request_id] = class_id
        self.arrived[class_id].append(request_id)
        try:
            self.do("ask", class_id, prompt, output, min(cached, prompt - 1))
        except Rejected:
            self.arrived[class_id].remove(request_id)
            return multiple()
        self.asked[request_id] = (prompt, output)
        return request_id

    @rule(request_id=requests, tokens=st.integers(1, 40))
    def generate(self, request_id: str, tokens: int) -> None:
        """A running answer grows, by no more than it may."""
        if request_id not in self.running:
            return
        tokens = min(tokens, self.running[request_id])
        if tokens <= 0:
            return
        self.running[request_id] -= tokens
        self.produced[request_id] += tokens
        self.run_output[request_id] += tokens
        verdict = self.do("output", request_id, tokens)
        if verdict is Verdict.STOP_QUOTA:
            self.end(request_id, Outcome.STOPPED, None)

    @rule(request_id=consumes(requests), cached=st.integers(0, 400))
    def finish(self, request_id: str, cached: int) -> None:
        """A running answer ends, and the server says what it cost."""
        if request_id not in self.running:
            return
        prompt = self.asked[request_id][0]
        cached = min(cached, prompt - 1)
        output = self.run_output[request_id]
        tokens = TokenCount(prompt - cached, cached, output)
        self.end(request_id, Outcome.FINISHED, tokens)

    @rule(
        request_id=consumes(requests),
        outcome=st.sampled_from((Outcome.CANCELLED, Outcome.FAILED)),
    )
    def leave(self, request_id: str, outcome: Outcome) -> None:
        """A client leaves, or a server fails, in whatever state the request is."""
        class_id = self.class_of(request_id)
        if request_id in self.running:
            self.end(request_id, outcome, None)
        elif request_id in self.arrived[class_id]:
            self.arrived[class_id].remove(request_id)
            self.charged += self.do("end", request_id, outcome, None).charge

    def end(self, request_id: str, outcome: Outcome, tokens: TokenCount | None) -> None:
        """End a running request in the world and in the model."""
        del self.running[request_id]
        record = self.do("end", request_id, outcome, tokens)
        assert record.charge == pytest.approx(
            COSTS.charge(
                record.tokens.uncached, record.tokens.cached, record.tokens.output
            )
        ), "a request that ended is charged what was delivered"
        assert record.tokens.output == self.produced[request_id], "no token is lost"
        assert record.preemptions == self.interrupted[request_id] <= MOST_PREEMPTIONS
        self.charged += record.charge

    @rule(seconds=st.floats(0, 400))
    def wait(self, seconds: float) -> None:
        """Time goes by."""
        self.do("pass_time", seconds)

    @rule(hours=st.sampled_from((-30, -0.01, 0.01, 13, 26)))
    def step_clock(self, hours: float) -> None:
        """Somebody sets the wall clock."""
        self.do("step_clock", hours)

    @precondition(lambda self: self.limited is False)
    @rule(member=st.sampled_from(MEMBERS[1:]))
    def grant(self, member: str) -> None:
        """A parent grants tokens to somebody without quota: nothing changes."""
        self.do("grant", member, 100)

    @rule()
    def leave_servers(self) -> None:
        """Those who were asked to make room do so, and wait to go on."""
        asked = self.world.preempted[self.seen_preempted :]
        self.seen_preempted = len(self.world.preempted)
        for request_id in (each.request_id for each in asked):
            if request_id in self.running:
                del self.running[request_id]
                self.interrupted[request_id] += 1
                self.arrived[self.class_of(request_id)].insert(0, request_id)
                self.do("pause", request_id)

    @rule(policy=st.sampled_from(sorted(POLICIES)))
    def switch_policy(self, policy: str) -> None:
        """The household thinks again about what is fair."""
        if not self.promises_gap:
            self.do("set", replace(self.settings, policy=policy))

    @rule()
    def run_out_of_memory(self) -> None:
        """The engine had to make room by itself."""
        self.do("note_exhausted")

    @rule()
    def restart_server(self) -> None:
        """The server goes away and comes back."""
        self.do("close_server")
        self.do("put_server", self.slots, self.pool, self.survives)

    @invariant()
    def no_slot_is_lost_and_none_is_used_twice(self) -> None:
        """The scheduler runs just what the model runs, within the slots."""
        status = self.world.scheduler.status(self.world.now)
        running = {each.request_id for each in status.requests if each.server_id}
        assert running == set(self.running)
        assert status.running == len(self.running)
        assert all(server.running <= server.slots for server in status.servers)
        assert status.waiting == sum(len(queue) for queue in self.arrived.values())

    @invariant()
    def a_free_slot_and_a_fitting_request_never_wait_for_each_other(self) -> None:
        """Work conservation; with a shared pool, for as long as there is memory."""
        status = self.world.scheduler.status(self.world.now)
        idle = [server for server in status.servers if server.running == 0]
        free = [server for server in status.servers if server.running < server.slots]
        wanted = idle if self.pool else free
        assert not (status.waiting and wanted)

    @invariant()
    def accounts_add_up(self) -> None:
        """Every account is the sum of those below; prepayments are all that is open."""
        states = {
            state.node_id: state for state in self.world.scheduler.export_state().nodes
        }
        sums: dict[str, float] = defaultdict(float)
        for node_id, state in states.items():
            parent = self.world.scheduler.node_status(node_id).parent_id
            if parent is not None:
                sums[parent] += state.charge
        for node_id, total in sums.items():
            assert states[node_id].charge == pytest.approx(total, abs=TOLERANCE)
        if not self.running:
            assert states["household"].charge == pytest.approx(self.charged)

    @invariant()
    def virtual_time_never_goes_back(self) -> None:
        """Nobody can come back below where the others are."""
        for state in self.world.scheduler.export_state().nodes:
            before = self.virtual_times.get(state.node_id, 0.0)
            assert state.virtual_time >= before - TOLERANCE
            self.virtual_times[state.node_id] = state.virtual_time

    @invariant()
    def the_gap_between_waiting_members_stays_below_its_bound(self) -> None:
        """The fairness promise."""
        if not self.promises_gap:
            return
        status = self.world.scheduler.status(self.world.now)
        assert status.fairness_gap <= status.fairness_bound + TOLERANCE

    @invariant()
    def a_quota_is_overrun_by_no_more_than_what_runs(self) -> None:
        """The chunk that is checked, and the prompts that had started."""
        if not self.asked:
            return
        window = self.world.scheduler.node_status(MEMBERS[0]).window
        if window.limit_tokens is not None:
            slack = self.slots * (400 + 40 + QUOTA_CHUNK_TOKENS)
            assert window.used_tokens <= window.limit_tokens + slack

    def teardown(self) -> None:
        """Empty the house; replay everything and get the same decisions."""
        while self.running:
            for request_id in list(self.running):
                self.end(request_id, Outcome.CANCELLED, None)
        status = self.world.scheduler.status(self.world.now)
        assert (status.running, status.waiting) == (0, 0)
        assert all(server.kv_committed_tokens == 0 for server in status.servers)
        again = World()
        self.furnish(again)
        for name, arguments in self.log:
            with suppress(Rejected):
                perform(again, name, arguments)
        assert again.dispatched == self.world.dispatched


def perform(world: World, name: str, arguments: tuple[Any, ...]) -> object:
    """Do one thing that was written down."""
    return getattr(Doer(world), name)(*arguments)


class Doer:
    """What the machine can do to a world, by name, so that it can be replayed."""

    def __init__(self, world: World) -> None:
        """Act on ``world``."""
        self.world = world

    def ask(self, class_id: str, prompt: int, output: int, cached: int) -> str:
        """Submit a request."""
        return self.world.ask(class_id, prompt=prompt, output=output, cached=cached)

    def output(self, request_id: str, tokens: int) -> Verdict:
        """Report output."""
        return self.world.output(request_id, tokens)

    def end(
        self, request_id: str, outcome: Outcome, tokens: TokenCount | None
    ) -> RequestRecord:
        """End a request."""
        return self.world.end(request_id, outcome, tokens)

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

    def close_server(self) -> None:
        """Lose the server."""
        self.world.scheduler.close_server("server", self.world.now)
        self.world.decide()

    def pause(self, request_id: str) -> None:
        """Let an interrupted request leave its server."""
        self.world.pause(request_id)

    def set(self, settings: Settings) -> None:
        """Change the rules."""
        self.world.scheduler.configure(settings)
        self.world.decide()

    def note_exhausted(self) -> None:
        """Let the engine run out of memory."""
        self.world.scheduler.note_exhausted("server", self.world.now)

    def put_server(self, slots: int, pool: int | None, survives: bool) -> None:  # noqa: FBT001 - as it was written down
        """Get the server back."""
        self.world.server(capacity(slots=slots, pool=pool, survives=survives))
        self.world.decide()


class MixedHousehold(Household):
    """The same with all workloads, so that urgency cuts across fairness."""

    workloads = tuple(Workload)
    slots = 3


class CrampedHousehold(Household):
    """The same with one memory pool for all slots, too small for all of them."""

    pool = 1200
    slots = 3


class RestlessHousehold(MixedHousehold):
    """The same with interruptions, changing policies and a guessed pool."""

    pool = 2500
    survives = True
    promises_gap = False
    settings = Settings(
        preemption=PreemptionRules(
            threshold=100.0, min_run_tokens=1, nearly_done_tokens=0
        ),
        background_share=0.2,
    )


_SETTINGS = settings(
    max_examples=40,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

TestHousehold = Household.TestCase
TestHousehold.settings = _SETTINGS
TestMixedHousehold = MixedHousehold.TestCase
TestMixedHousehold.settings = _SETTINGS
TestCrampedHousehold = CrampedHousehold.TestCase
TestCrampedHousehold.settings = _SETTINGS
TestRestlessHousehold = RestlessHousehold.TestCase
TestRestlessHousehold.settings = _SETTINGS
