"""What is true after every step, whatever came before."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hypothesis.stateful import invariant
import pytest

from custom_components.fair_share.admission.entry import Entry
from custom_components.fair_share.admission.kv import POOL_SAFETY
from custom_components.fair_share.admission.model import (
    Dispatch,
    Outcome,
    Preemption,
    QuotaEnd,
    Rule,
)
from custom_components.fair_share.admission.node import parting
from custom_components.fair_share.admission.quota import QUOTA_CHUNK_TOKENS

from ..world import World
from . import recomputed
from .disturbances import Disturbances
from .doer import Doer
from .expected import NOTHING, room, total, worst_moment
from .requests import MEMBERS, MOST_AT_ONCE, MOST_OUTPUT, MOST_PROMPT

CLOSE = 1e-6
MOST_INTERRUPTIONS = 3
MOST_COMMITMENT = 1.1
LIMITED = MEMBERS[0]
REFUNDS = frozenset({"read", "end", "pause", "lose", "put_node"})
"""Steps after which an account may hold less than before."""


@dataclass
class Level:
    """A node as it was before a step."""

    waiting: int
    counter: float
    virtual_time: float


@dataclass
class Quota:
    """What the member with a quota has used since it got it, and since midnight."""

    used_at_first: int = 0
    tokens_at_first: int = 0
    tokens_at_reset: int = 0
    refilled: float = 0.0
    granted: int = 0


@dataclass
class Turn:
    """How often others started while somebody was overdue, and who was before it."""

    passed: int = 0
    ahead: int = 0


@dataclass
class Before:
    """The household before a step."""

    levels: dict[str, Level] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)


class Promises(Disturbances):
    """A household in which everything has to stay right."""

    promises_gap = True
    """Only under equal tokens, where nobody is interrupted or picks a server."""
    promises_turns = True
    """Only where nothing waits for memory or for one certain server."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        super().__init__()
        self.earlier = Before()
        self.quota = Quota()
        self.turns: dict[str, Turn] = defaultdict(Turn)
        self.seen_preempted = self.seen_reset = 0

    def before(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Remember how things are before a step."""
        super().before(name, arguments)
        nodes = self.board.tree.nodes
        self.earlier = Before(
            {
                node_id: Level(node.waiting, node.counter, node.virtual_time)
                for node_id, node in nodes.items()
            },
            self.overdue(),
        )
        if name == "configure":
            self.turns.clear()
        if name == "grant" and arguments[0] == LIMITED:
            self.quota.granted += arguments[1]
        if name in {"pass_time", "step_clock"}:
            seconds = arguments[0] * (3600 if name == "step_clock" else 1)
            self.quota.refilled += max(seconds, 0)

    def overdue(self) -> list[str]:
        """Return who is overdue and may start, the one that should be first first."""
        now = self.world.now
        late = [
            (recomputed.overdue_at(entry), entry.sequence, entry.request.request_id)
            for entry in recomputed.competing(self.board)
            if recomputed.overdue_at(entry) <= now
        ]
        return [request_id for _, _, request_id in sorted(late)]

    def note_submitted(self) -> None:
        """A class that comes back is lifted to its siblings, no less and no more."""
        for node in self.board.tree.nodes.values():
            before = self.earlier.levels[node.node_id]
            expected = before.counter
            if node.parent is not None and node.waiting and not before.waiting:
                level = self.earlier.levels[node.parent.node_id].virtual_time
                expected = max(expected, level)
            assert node.counter == pytest.approx(expected)

    def do(self, name: str, *arguments: object) -> Any:
        """Do something, and look at what only that may do."""
        result = super().do(name, *arguments)
        if name == "put_node" and self.log[-1][1][0].node_id == LIMITED:
            node = self.board.tree.nodes[LIMITED]
            tokens = node.tokens.uncached + node.tokens.output
            used = node.window.used_tokens
            if node.window.refill_per_s is not None:
                used = int(node.window.level)
            self.quota = Quota(used, tokens, self.quota.tokens_at_reset)
        if name not in REFUNDS:
            for node_id, level in self.earlier.levels.items():
                counter = self.board.tree.nodes[node_id].counter
                assert counter >= level.counter - CLOSE, "only refunds lower a counter"
        return result

    def take_note(self) -> None:
        """Look at the decisions of a step."""
        starts = self.world.dispatched[self.seen_dispatched :]
        again = {each for each in self.known if self.known[each].started}
        in_flight = Counter(self.known[each].server_id for each in self.running)
        super().take_note()
        for start in starts:
            in_flight[start.server_id] += 1
            self.check_patience(start, in_flight[start.server_id])
        self.count_turns(
            [
                start
                for start in starts
                if start.rule is not Rule.RESERVED_SHARE
                and start.request_id not in again
            ]
        )
        for server_id in {start.server_id for start in starts}:
            self.check_room(server_id)
        if len(starts) == 1 and starts[0].request_id not in again:
            self.check_virtual_time(self.board.running[starts[0].request_id])
        for preemption in self.world.preempted[self.seen_preempted :]:
            if preemption.for_request_id is None:
                self.check_move(preemption)
            else:
                self.check_preemption(preemption, preemption.for_request_id)
        self.seen_preempted = len(self.world.preempted)
        if LIMITED in self.world.reset[self.seen_reset :]:
            tokens = self.board.tree.nodes[LIMITED].tokens
            self.quota.tokens_at_reset = tokens.uncached + tokens.output
            self.quota.used_at_first = 0
        self.seen_reset = len(self.world.reset)

    def count_turns(self, starts: list[Dispatch]) -> None:
        """Nobody who is overdue is passed over more than every second time."""
        still = set(self.overdue())
        for ahead, request_id in enumerate(self.earlier.late):
            if request_id not in still or not self.promises_turns:
                self.turns.pop(request_id, None)
                continue
            turn = self.turns[request_id]
            turn.ahead = max(turn.ahead, ahead)
            turn.passed += len(starts)
            assert turn.passed <= 2 * (turn.ahead + 1) + 1, "nobody starves"

    def check_patience(self, start: Dispatch, in_flight: int) -> None:
        """What is not urgent starts only while few enough are in flight."""
        pin = self.servers[start.server_id].patient_slots
        urgent = start.band < recomputed.PATIENT or start.rule in {
            Rule.OVERDUE,
            Rule.RESERVED_SHARE,
        }
        overdue = self.board.running[start.request_id].overdue_s <= self.world.now
        if pin is not None and not urgent and not overdue and in_flight > 1:
            assert in_flight + self.foreign[start.server_id][0] <= pin

    def check_room(self, server_id: str) -> None:
        """No slot and no memory is promised twice; who is alone may have it all."""
        capacity = self.servers[server_id]
        here = [
            self.known[each]
            for each in self.running
            if self.known[each].server_id == server_id
        ]
        foreign, foreign_tokens = self.foreign[server_id]
        assert len(here) + self.held[server_id] + foreign <= capacity.slots
        for each in here:
            whole = each.request.prompt_tokens + each.produced + each.left
            assert whole <= room(capacity)
            assert each.produced + each.left <= each.request.max_output_tokens
        if capacity.kv_tokens is not None and (len(here) > 1 or foreign_tokens):
            held = [
                (
                    max(each.request.prompt_tokens, each.read.prompt) + each.produced,
                    0 if capacity.survives_exhaustion else each.left,
                )
                for each in here
            ]
            most = MOST_COMMITMENT if capacity.survives_exhaustion else POOL_SAFETY
            assert worst_moment(held) <= capacity.kv_tokens * most - foreign_tokens

    def check_virtual_time(self, entry: Entry) -> None:
        """It follows what was delivered to the least served who wanted to start."""
        for parent, child in pairwise(entry.path):
            others = (each for each in parent.children.values() if each.waiting)
            wanted = [child, *(each for each in others if not each.held_back)]
            before = self.earlier.levels[parent.node_id].virtual_time
            lowest = min(each.delivered for each in wanted)
            assert parent.virtual_time <= max(before, lowest) + CLOSE

    def check_move(self, preemption: Preemption) -> None:
        """Only an answer that may be interrupted moves, to where it could start."""
        rules = self.rules.preemption
        assert rules is not None
        expected = self.known[preemption.request_id]
        assert preemption.moves_to in self.usable
        target = self.servers[preemption.moves_to]
        busy = sum(
            self.known[each].server_id == target.server_id for each in self.running
        )
        held, (foreign, _) = self.held[target.server_id], self.foreign[target.server_id]
        assert busy + held + foreign < target.slots
        assert expected.server_id != target.server_id
        assert expected.request.preemptible
        assert not expected.shielded
        assert expected.run_output >= max(rules.min_run_tokens, 1)
        assert expected.interrupted < MOST_INTERRUPTIONS

    def check_preemption(self, preemption: Preemption, for_request_id: str) -> None:
        """Only who may be interrupted is, and only for who may interrupt."""
        rules, now = self.rules.preemption, self.world.now
        assert rules is not None
        victim = self.board.running[preemption.request_id]
        head = self.board.waiting[for_request_id]
        expected = self.known[preemption.request_id]
        assert victim.server in head.hosts
        assert victim.request.preemptible
        assert not expected.shielded
        assert expected.interrupted < MOST_INTERRUPTIONS
        assert expected.left > rules.nearly_done_tokens
        reads = expected.run_output == 0
        assert expected.run_output >= rules.min_run_tokens or reads
        assert rules.while_reading or not reads
        assert victim.playback_slack_s(now) > 0 or _may_pause(victim)
        its_band = recomputed.band_of(victim, now)
        band = recomputed.band_of(head, now)
        ours, theirs = parting(victim.path, head.leaf.path)
        assert its_band > band or (
            its_band == band
            and self.rules.policy == "equal_tokens"
            and not reads
            and ours.counter - theirs.counter > rules.threshold
            and expected.interrupted < rules.most_among_equals
        )

    def keep_promises(self) -> None:
        """Look at everything that has to be true."""
        self.no_slot_is_lost_and_none_is_used_twice()
        self.what_could_start_never_waits()
        self.what_is_kept_is_what_it_should_be()
        self.accounts_add_up()
        self.virtual_time_never_goes_back()
        self.the_gap_between_waiting_members_stays_below_its_bound()
        self.a_quota_is_overrun_by_no_more_than_what_runs()

    @invariant()
    def no_slot_is_lost_and_none_is_used_twice(self) -> None:
        """The scheduler runs just what should run, and looking changes nothing."""
        counters = self.counters()
        status = self.world.scheduler.status(self.world.now, ahead=4)
        assert self.counters() == counters
        running = {
            each.request_id: each.server_id
            for each in status.requests
            if each.server_id
        }
        assert running == {
            request_id: self.known[request_id].server_id for request_id in self.running
        }
        assert status.running == len(self.running)
        assert status.waiting == sum(len(queue) for queue in self.waiting.values())
        for class_id, queue in self.waiting.items():
            assert list(self.board.tree.leaf(class_id).queue) == queue

    def counters(self) -> list[float]:
        """Return the counters of all nodes."""
        return [node.counter for node in self.board.tree.nodes.values()]

    @invariant()
    def what_could_start_never_waits(self) -> None:
        """Work conservation."""
        assert not self.decided or not recomputed.could_start(
            self.board, self.rules.costs, self.world.now
        )

    @invariant()
    def what_is_kept_is_what_it_should_be(self) -> None:
        """No cache is stale."""
        recomputed.what_is_kept_of_nodes_is_right(self.board)
        recomputed.what_is_kept_of_classes_is_right(self.board, self.rules)
        recomputed.what_is_kept_of_urgency_is_right(self.board, self.world.now)
        recomputed.what_is_kept_of_requests_is_right(self.board)

    @invariant()
    def accounts_add_up(self) -> None:
        """Accounts are the sum of those below, and these of what was delivered."""
        states = {
            state.node_id: state for state in self.world.scheduler.export_state().nodes
        }
        sums: dict[str, float] = defaultdict(float)
        for node in self.board.tree.nodes.values():
            if node.parent is not None:
                sums[node.parent.node_id] += states[node.node_id].charge
        for node_id, charge in sums.items():
            assert states[node_id].charge == pytest.approx(charge, abs=CLOSE)
        charges = self.ended.copy()
        tokens = dict(self.ended_tokens)
        again = self.recomputed
        for expected in self.known.values():
            class_id = expected.request.class_id
            charges[class_id] += expected.charge
            tokens[class_id] = total(tokens.get(class_id, NOTHING), expected.tokens)
            again = total(again, expected.recomputed())
        for class_id, charge in charges.items():
            assert states[class_id].charge == pytest.approx(charge, abs=CLOSE)
        for class_id, each in tokens.items():
            assert states[class_id].tokens == each
        status = self.world.scheduler.status(self.world.now)
        assert status.recomputed == again, "what is read again is nobody's"

    @invariant()
    def virtual_time_never_goes_back(self) -> None:
        """Nobody can come back below where the others are."""
        for node_id, level in self.earlier.levels.items():
            now = self.board.tree.nodes[node_id].virtual_time
            assert now >= level.virtual_time - CLOSE

    @invariant()
    def the_gap_between_waiting_members_stays_below_its_bound(self) -> None:
        """The fairness promise, as it is shown and as it is."""
        if not self.promises_gap:
            return
        # A weight that was changed counts from the next time the gauge looks.
        self.world.scheduler._gauge.look()  # noqa: SLF001 - as a start would make it
        status = self.world.scheduler.status(self.world.now)
        assert status.fairness_gap <= status.fairness_bound + CLOSE
        counters = [
            node.counter
            for node in self.board.tree.root.children.values()
            if node.waiting and not node.held_back
        ]
        if counters and self.decided:
            gap = max(counters) - min(counters)
            assert gap <= status.fairness_bound + CLOSE

    @invariant()
    def a_quota_is_overrun_by_no_more_than_what_runs(self) -> None:
        """The chunk that is checked, and the prompts that had started."""
        node = self.board.tree.nodes.get(LIMITED)
        if node is None:
            return
        tokens = node.tokens.uncached + node.tokens.output
        window, quota = node.window, self.quota
        assert window.used_tokens >= tokens - quota.tokens_at_reset
        if window.limit is None or window.at_end is QuotaEnd.DEMOTE:
            return
        stops = window.at_end is QuotaEnd.STOP
        rest = MOST_AT_ONCE + QUOTA_CHUNK_TOKENS if stops else MOST_OUTPUT
        slack = sum(self.slots[-1] for _ in self.servers) * (MOST_PROMPT + rest)
        if window.refill_per_s is None:
            most = max(window.limit + window.granted_tokens, quota.used_at_first)
            assert window.used_tokens <= most + slack
        else:
            most = max(window.limit, quota.used_at_first) + quota.granted
            most += int(quota.refilled * window.refill_per_s)
            assert tokens - quota.tokens_at_first <= most + slack

    def teardown(self) -> None:
        """Empty the house; do everything again and get the same decisions."""
        while self.known:
            for request_id in list(self.known):
                expected = self.known.get(request_id)
                if expected is not None:
                    self.end(expected, Outcome.CANCELLED, None)
        status = self.world.scheduler.status(self.world.now)
        assert (status.running, status.waiting) == (0, 0)
        assert all(server.kv_committed_tokens == 0 for server in status.servers)
        assert self.board.in_flight_cost == pytest.approx(0.0, abs=CLOSE)
        again = World()
        Doer(again).repeat(self.log)
        assert again.dispatched == self.world.dispatched
        assert again.preempted == self.world.preempted


def _may_pause(victim: Entry) -> bool:
    return victim.paused_s < victim.leaf.profile.max_pause_s
