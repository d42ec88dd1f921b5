"""Starting what can start, and interrupting what has to make room."""

from dataclasses import dataclass, field
from math import inf

from .accounts import Accounts
from .board import Board
from .entry import Entry
from .fairness import FairnessGauge
from .model import Dispatch, Preemption, PreemptionRules, Rule, Settings
from .placement import Placement, find_move
from .preemption import choose_victim
from .selection import Choice, Selector, eligible_heads
from .servers import Blocked, Server
from .speed import Speeds


@dataclass(slots=True)
class _Tried:
    """What was found out in a round of starts that began at ``now``.

    Who was ``passed_over``, which servers are ``full``, and where ``enough`` is in
    flight for what is not urgent.
    """

    now: float
    passed_over: set[Entry] = field(default_factory=set)
    full: set[Server] = field(default_factory=set)
    enough: set[Server] = field(default_factory=set)

    def is_open(self, entry: Entry) -> bool:
        """Whether a server may still take a request in this round."""
        if entry in self.passed_over:
            return False
        closed = self.full
        if self.enough and entry.is_patient(self.now):
            closed = self.full | self.enough
        return not closed.issuperset(entry.hosts)


class Starter:
    """Takes the selector's choices to servers."""

    def __init__(
        self,
        board: Board,
        selector: Selector,
        accounts: Accounts,
        gauge: FairnessGauge,
        *,
        speeds: Speeds,
        placement: Placement,
    ) -> None:
        """Move requests on ``board``."""
        self._board = board
        self._selector = selector
        self._accounts = accounts
        self._gauge = gauge
        self._speeds = speeds
        self._placement = placement

    @property
    def _settings(self) -> Settings:
        return self._selector.settings

    def start_all(self, now: float) -> tuple[Dispatch, ...]:
        """Start all that can start now."""
        dispatches: list[Dispatch] = []
        tried = _Tried(now)
        self._placement.begin_round()
        for known in self._board.servers.values():
            known.begin_round(now)
        while self._board.may_start() and (heads := eligible_heads(self._board)):
            choice = self._selector.choose(
                heads,
                now=now,
                speeds=self._speeds,
                is_open=tried.is_open if tried.passed_over else None,
            )
            if choice is None:
                break
            patient = choice.entry.is_patient(now)
            # What is kept for background work it gets, whether it pays or not.
            patient = patient and choice.rule is not Rule.RESERVED_SHARE
            server = self._place(choice.entry, tried.full, now, patient=patient)
            if server is None:
                if self._note_obstacles(choice.entry, tried, patient=patient):
                    # Who was passed over for another's sake may start after all.
                    tried.passed_over.clear()
                tried.passed_over.add(choice.entry)
                continue
            dispatches.append(self._start(choice, server, now))
        return tuple(dispatches)

    def _place(
        self, entry: Entry, full: set[Server], now: float, *, patient: bool
    ) -> Server | None:
        """Return where it starts, of the servers that can take it now."""
        cost = entry.expected_cost(self._settings.costs)
        fitting = [
            server
            for server in entry.hosts
            if server not in full
            and server.obstacle(entry, patient=patient) is None
            and server.may_overtake(entry, cost)
        ]
        return self._placement.choose(entry, fitting, now)

    def _note_obstacles(self, entry: Entry, tried: _Tried, *, patient: bool) -> bool:
        """Note the servers on which nothing more can start in this round.

        Where the request waits for memory, others may overtake it within limits, but
        not if it is overdue. Returns whether that changed whom others may overtake.
        """
        changed = False
        overdue = entry.overdue_s <= tried.now
        allowance = -inf if overdue else self._settings.bypass
        for server in entry.hosts:
            obstacle = server.obstacle(entry, patient=patient)
            if obstacle is Rule.NO_SLOT:
                tried.full.add(server)
            elif obstacle is Rule.NOT_PAYING:
                tried.enough.add(server)
                changed |= server.unblock(entry)
            elif obstacle is Rule.NO_KV:
                changed |= server.block(Blocked(entry, allowance))
        return changed

    def _start(self, choice: Choice, server: Server, now: float) -> Dispatch:
        entry = choice.entry
        overtakes = server.overtakes(entry)
        self._board.tree.advance(entry.leaf.path)
        self._board.start(entry, server)
        self._selector.started(choice)
        dispatch = entry.start(
            server,
            rule=Rule.BYPASS if overtakes else choice.rule,
            urgent=choice.urgent,
            costs=self._accounts.costs,
            now=now,
        )
        entry.leaf.last_start_s = now
        for node in entry.path:
            node.running += 1
            if not entry.resumed:
                node.note_started(dispatch.waited_s)
        self._board.weigh(entry)
        self._gauge.started(entry, self._board.in_flight_cost)
        self._accounts.open(entry)
        server.pace.enter(entry, now)
        self._gauge.look()
        return dispatch

    def preempt(self, now: float) -> tuple[Preemption, ...]:
        """Interrupt at most one answer on each server, for whoever is next there.

        Or one for its own sake, which moves to a server where it is done sooner.
        """
        rules = self._settings.preemption
        if rules is None:
            return ()
        preemptions = self._make_room(rules, now) if self._board.waiting else []
        if not preemptions and len(self._board.servers) > 1:
            preemptions += self._move_one(rules, now)
        return tuple(preemptions)

    def _make_room(self, rules: PreemptionRules, now: float) -> list[Preemption]:
        preemptions: list[Preemption] = []
        for server in self._board.servers.values():
            if any(entry.preempting for entry in server.running.values()):
                continue
            head = self._next_on(server, now)
            if head is None:
                continue
            victim = choose_victim(
                head,
                server.running.values(),
                rules=rules,
                among_equals=self._settings.policy == "equal_tokens",
                now=now,
            )
            if victim is not None:
                victim.preempting = True
                victim.makes_room_for = head
                preemptions.append(
                    Preemption(victim.request.request_id, head.request.request_id)
                )
        return preemptions

    def _move_one(self, rules: PreemptionRules, now: float) -> list[Preemption]:
        running = self._board.running.values()
        if any(entry.preempting for entry in running):
            return []
        wanted = {
            server
            for leaf in self._board.backlogged.values()
            if leaf.head is not None
            for server in leaf.head.hosts
        }
        free = [each for each in self._board.servers.values() if each not in wanted]
        move = find_move(running, free, rules, now)
        if move is None:
            return []
        move.entry.preempting = True
        move.entry.moves_to = move.target.capacity.server_id
        request_id = move.entry.request.request_id
        return [Preemption(request_id, None, move.entry.moves_to)]

    def _next_on(self, server: Server, now: float) -> Entry | None:
        """Return who would start on a server if it had a slot or memory left."""
        if not server.usable:
            return None
        # Who takes another's place is in flight in its stead.
        replacing_pays = server.pays(0)
        if server.blocked is not None:
            head = server.blocked.entry
            return head if replacing_pays or not head.is_patient(now) else None
        full = server.free_slots() == 0
        if not full and server.pays():
            return None

        def is_open(entry: Entry) -> bool:
            may_replace = replacing_pays if entry.is_patient(now) else full
            return may_replace and server in entry.hosts

        choice = self._selector.choose(
            eligible_heads(self._board),
            now=now,
            speeds=self._speeds,
            is_open=is_open,
        )
        return None if choice is None else choice.entry
