"""A household in which requests come, run and go in any order."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)
import pytest

from custom_components.fair_share.admission.board import Board
from custom_components.fair_share.admission.model import (
    Caps,
    Dispatch,
    NodeSpec,
    Outcome,
    QuotaEnd,
    QuotaSpec,
    Rejected,
    Rejection,
    Request,
    RequestRecord,
    ServerCapacity,
    Settings,
    TokenCount,
    Verdict,
    Workload,
)

from ..world import World, capacity
from .doer import Doer, Step
from .expected import Expected, could_run, total

MEMBERS = ("parent", "child", "teen")
SOURCES = ("phone", "tablet")
WEIGHTS = (0.5, 1.0, 2.0)
MOST_PROMPT, MOST_OUTPUT, MOST_AT_ONCE = 400, 300, 40
QUOTA_TOKENS = 3000
QUOTAS = (
    None,
    *(QuotaSpec(QUOTA_TOKENS, at_end=at_end) for at_end in QuotaEnd),
    QuotaSpec(QUOTA_TOKENS, refill_per_s=5.0),
    QuotaSpec(QUOTA_TOKENS, at_end=QuotaEnd.DEMOTE, refill_per_s=5.0),
)
MOVES = st.sampled_from(("generate", "generate", "generate", "read", "finish"))
ANY = st.integers(0, 11)
"""Picks one of those that can be picked."""


def something_runs(machine: Requests) -> bool:
    """Tell whether there is a running request to pick."""
    return bool(machine.running)


class Requests(RuleBasedStateMachine):
    """A scheduler, and what is expected of it.

    ``waiting`` are the ids of each class in the order in which they should start,
    ``running`` those that run, ``known`` all that have not ended.
    """

    workloads: tuple[Workload, ...] = (Workload.CHAT,)
    capacities: tuple[ServerCapacity, ...] = (capacity(slots=2),)
    settings = Settings()
    quotas: tuple[QuotaSpec | None, ...] = QUOTAS
    choosy = False
    """Whether requests may name the server that they want."""

    def __init__(self) -> None:
        """Start with an empty world and no expectation."""
        super().__init__()
        self.world = World()
        self.doer = Doer(self.world, self.note_submitted)
        self.log: list[Step] = []
        self.specs: dict[str, NodeSpec] = {}
        self.servers: dict[str, ServerCapacity] = {}
        self.usable: set[str] = set()
        self.held: dict[str, int] = defaultdict(int)
        self.foreign: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        self.rules = self.settings
        self.waiting: dict[str, list[str]] = defaultdict(list)
        self.running: set[str] = set()
        self.known: dict[str, Expected] = {}
        self.ended: dict[str, float] = defaultdict(float)
        self.ended_tokens: dict[str, TokenCount] = defaultdict(TokenCount)
        self.recomputed = TokenCount()
        self.submitted = 0
        self.seen_dispatched = self.seen_rejected = self.asked_to_leave = 0
        self.decided = True

    @property
    def board(self) -> Board:
        """The inside of the scheduler, to compare it with what it should be."""
        return self.world.scheduler._board  # noqa: SLF001 - what it keeps is what is tested

    @initialize(
        weights=st.tuples(*(st.sampled_from(WEIGHTS) for _ in MEMBERS)),
        quota=st.integers(0, len(QUOTAS) - 1),
        in_flight=st.sampled_from((None, None, 1)),
    )
    def move_in(
        self, weights: tuple[float, ...], quota: int, in_flight: int | None
    ) -> None:
        """Give the household members, devices and servers."""
        first = (self.quotas[quota % len(self.quotas)], Caps(in_flight=in_flight))
        rest = (None, Caps())
        for member, weight, (limit, caps) in zip(
            MEMBERS, weights, (first, rest, rest), strict=True
        ):
            spec = NodeSpec(member, weight=weight, quota=limit, caps=caps)
            self.do("put_node", spec)
            for source in SOURCES:
                self.do("put_node", NodeSpec(f"{member}/{source}", member))
                for kind in self.workloads:
                    self.do("put_class", f"{member}/{source}", kind)
        self.do("configure", self.settings)
        for each in self.capacities:
            self.do("put_server", each)

    def do(self, name: str, *arguments: object) -> Any:
        """Do something to the world and keep it for a replay."""
        self.log.append((name, arguments))
        self.before(name, arguments)
        result = self.doer.do(name, *arguments)
        self.take_note()
        return result

    def before(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Bring the expectation up to date with what is about to happen."""
        self.decided = name not in {"read", "output"}
        if name == "put_server":
            self.servers[arguments[0].server_id] = arguments[0]
            self.usable.add(arguments[0].server_id)
        elif name == "close_server":
            self.usable.discard(arguments[0])
        elif name == "put_node":
            self.specs[arguments[0].node_id] = arguments[0]
        elif name == "configure":
            self.rules = arguments[0]

    def note_submitted(self) -> None:
        """Look at a request that has come and not been decided about."""

    def take_note(self) -> None:
        """Follow the scheduler's decisions."""
        dispatches = self.world.dispatched[self.seen_dispatched :]
        self.seen_dispatched = len(self.world.dispatched)
        rejections = self.world.rejected[self.seen_rejected :]
        self.seen_rejected = len(self.world.rejected)
        for rejection in rejections:
            self.note_rejected(rejection)
        for dispatch in dispatches:
            self.note_dispatch(dispatch)

    def note_rejected(self, rejection: Rejection) -> None:
        """Follow a refusal; who had run before is told the account."""
        expected = self.known[rejection.request_id]
        self.waiting[expected.request.class_id].remove(rejection.request_id)
        assert (rejection.record is not None) == expected.started
        if rejection.record is not None:
            self.check_record(expected, rejection.record)
        self.forget(expected)

    def note_dispatch(self, dispatch: Dispatch) -> None:
        """Follow a start, which has to be the first of its class that can run."""
        expected = self.known[dispatch.request_id]
        queue = self.waiting[expected.request.class_id]
        can_run = [each for each in queue if self.hosts(self.known[each].request)]
        assert dispatch.request_id == can_run[0], "first come, first served"
        queue.remove(dispatch.request_id)
        self.running.add(dispatch.request_id)
        expected.start(dispatch.server_id, dispatch.max_output_tokens, self.rules.costs)

    def hosts(self, request: Request) -> list[str]:
        """Return the ids of the servers in reach that could run a request."""
        return [
            server_id
            for server_id, each in self.servers.items()
            if server_id in self.usable and could_run(request, each)
        ]

    @rule(
        member=st.sampled_from(MEMBERS),
        source=st.sampled_from(SOURCES),
        workload=st.integers(0, 4),
        prompt=st.integers(1, MOST_PROMPT),
        output=st.integers(1, MOST_OUTPUT),
        cached=st.integers(0, MOST_PROMPT),
        place=st.sampled_from((None, None, None, 0, 1)),
        continues=st.sampled_from((False, False, False, True)),
        preemptible=st.sampled_from((True, True, True, False)),
        times=st.sampled_from((1, 1, 2, 3)),
    )
    def arrive(
        self,
        member: str,
        source: str,
        workload: int,
        prompt: int,
        output: int,
        cached: int,
        place: int | None,
        times: int,
        *,
        continues: bool,
        preemptible: bool,
    ) -> None:
        """Somebody asks for something, or for the same several times."""
        kind = self.workloads[workload % len(self.workloads)]
        request = Request(
            request_id="",
            class_id=f"{member}/{source}/{kind}",
            prompt_tokens=prompt,
            max_output_tokens=output,
            cached_tokens=min(cached, prompt - 1),
            continues_turn=continues,
            preemptible=preemptible,
        )
        if place is not None:
            server_id = self.capacities[place % len(self.capacities)].server_id
            wanted = {"servers": frozenset({server_id})} if self.choosy else {}
            request = replace(request, preferred_server=server_id, **wanted)
        for _ in range(times):
            self.submitted += 1
            self.ask(replace(request, request_id=f"r{self.submitted}"))

    arrive_more = arrive

    def ask(self, request: Request) -> None:
        """Submit a request."""
        self.known[request.request_id] = Expected(request)
        queue = self.waiting[request.class_id]
        place = 0 if request.continues_turn else len(queue)
        queue.insert(place, request.request_id)
        try:
            self.do("ask", request)
        except Rejected:
            self.decided = False
            queue.remove(request.request_id)
            del self.known[request.request_id]

    def one_that_runs(self, which: int) -> Expected:
        """Pick a running request."""
        running = [each for each in self.known if each in self.running]
        return self.known[running[which % len(running)]]

    @precondition(something_runs)
    @rule(moves=st.lists(st.tuples(MOVES, ANY, st.integers(0, MOST_AT_ONCE))))
    def work(self, moves: list[tuple[str, int, int]]) -> None:
        """Servers read and write, and answers become whole."""
        for kind, which, amount in moves:
            if self.running:
                getattr(self, kind)(self.one_that_runs(which), amount)
                self.keep_promises()

    work_more = work_most = work_on = work

    def keep_promises(self) -> None:
        """Look at everything that has to be true."""

    def read(self, expected: Expected, amount: int) -> None:
        """A server tells how much of a prompt it has read."""
        if expected.run_output:
            return
        part = expected.in_context * amount // MOST_AT_ONCE
        read = max(part, expected.run_read.prompt)
        cached = min(read, expected.request.cached_tokens)
        self.report_read(expected, TokenCount(read - cached, cached))

    def report_read(self, expected: Expected, tokens: TokenCount) -> None:
        """Report so much of a prompt as read."""
        expected.report_read(tokens)
        request_id = expected.request.request_id
        self.do("read", request_id, tokens.uncached, tokens.cached)

    def generate(self, expected: Expected, amount: int) -> None:
        """A running answer grows, by no more than it may."""
        tokens = min(amount, expected.left)
        if tokens <= 0:
            return
        if expected.run_read.prompt and not expected.run_output:
            cached = min(expected.in_context, expected.request.cached_tokens)
            whole = TokenCount(expected.in_context - cached, cached)
            self.report_read(expected, whole)
        expected.write(tokens)
        verdict = self.do("output", expected.request.request_id, tokens)
        if verdict is Verdict.STOP_QUOTA:
            self.end(expected, Outcome.STOPPED, None)

    def finish(self, expected: Expected, amount: int) -> None:
        """A running answer ends, and the server says what it cost."""
        cached = (expected.in_context - 1) * amount // MOST_AT_ONCE
        tokens = TokenCount(expected.in_context - cached, cached)
        expected.report_read(tokens)
        counted = replace(tokens, output=expected.run_output)
        self.end(expected, Outcome.FINISHED, counted)

    @precondition(lambda self: self.known)
    @rule(which=ANY, outcome=st.sampled_from((Outcome.CANCELLED, Outcome.FAILED)))
    def leave(self, which: int, outcome: Outcome) -> None:
        """A client leaves, or a server fails, in whatever state the request is."""
        known = list(self.known.values())
        self.end(known[which % len(known)], outcome, None)

    def end(
        self, expected: Expected, outcome: Outcome, tokens: TokenCount | None
    ) -> None:
        """End a request in the world and in what is expected."""
        request_id = expected.request.request_id
        if request_id in self.running:
            self.running.remove(request_id)
            expected.leave()
        else:
            self.waiting[expected.request.class_id].remove(request_id)
        record = self.do("end", request_id, outcome, tokens)
        self.forget(expected)
        self.check_record(expected, record)

    def check_record(self, expected: Expected, record: RequestRecord) -> None:
        """Compare an account with what was delivered."""
        assert record.tokens == expected.tokens, "no token is lost or counted twice"
        assert record.charge == pytest.approx(expected.charge)
        assert record.recomputed == expected.reread
        assert record.preemptions == expected.interrupted

    def forget(self, expected: Expected) -> None:
        """Keep of a request that ended only what its class was charged."""
        del self.known[expected.request.request_id]
        class_id, tokens = expected.request.class_id, expected.tokens
        self.ended[class_id] += expected.charge
        self.ended_tokens[class_id] = total(self.ended_tokens[class_id], tokens)
        self.recomputed = total(self.recomputed, expected.recomputed())

    @precondition(lambda self: len(self.world.preempted) > self.asked_to_leave)
    @rule()
    def leave_servers(self) -> None:
        """Those who were asked to make room do so, and wait to go on."""
        asked = self.world.preempted[self.asked_to_leave :]
        self.asked_to_leave = len(self.world.preempted)
        for request_id in (each.request_id for each in asked):
            if request_id in self.running and not self.known[request_id].shielded:
                self.known[request_id].interrupted += 1
                self.pause(request_id, "pause")

    def pause(self, request_id: str, how: str) -> None:
        """Take a request off its server and let it wait to go on."""
        expected = self.known[request_id]
        self.running.remove(request_id)
        expected.leave()
        self.waiting[expected.request.class_id].insert(0, request_id)
        self.do(how, request_id)
