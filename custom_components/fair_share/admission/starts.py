"""Starting what can start, and interrupting what has to make room."""

from functools import partial
from math import inf

from .accounts import Accounts
from .board import Board
from .entry import Entry
from .fairness import FairnessGauge
from .model import Dispatch, Preemption, Rule, Settings
from .preemption import choose_victim
from .selection import Choice, Selector, eligible_heads
from .servers import Blocked, Server
from .speed import Speeds


class Starter:
    """Takes the selector's choices to servers."""

    def __init__(
        self,
        board: Board,
        selector: Selector,
        accounts: Accounts,
        gauge: FairnessGauge,
        speeds: Speeds,
    ) -> None:
        """Move requests on ``board``."""
        self._board = board
        self._selector = selector
        self._accounts = accounts
        self._gauge = gauge
        self._speeds = speeds

    @property
    def _settings(self) -> Settings:
        return self._selector.settings

    def start_all(self, now: float) -> tuple[Dispatch, ...]:
        """Start all that can start now."""
        dispatches: list[Dispatch] = []
        full: set[Server] = set()
        passed_over: set[Entry] = set()
        for known in self._board.servers.values():
            known.begin_round()
        while self._board.free_slots() > 0 and (heads := eligible_heads(self._board)):
            choice = self._selector.choose(
                heads,
                now=now,
                speeds=self._speeds,
                is_open=partial(_is_open, passed_over, full) if passed_over else None,
            )
            if choice is None:
                break
            server = self._place(choice.entry, full)
            if server is None:
                if self._note_obstacles(choice.entry, full, now):
                    # Who was passed over for another's sake may start after all.
                    passed_over.clear()
                passed_over.add(choice.entry)
                continue
            dispatches.append(self._start(choice, server, now))
        return tuple(dispatches)

    def _place(self, entry: Entry, full: set[Server]) -> Server | None:
        """Return where it starts: where its prefix is, else where most is free."""
        cost = entry.expected_cost(self._settings.costs)
        fitting = [
            server
            for server in entry.hosts
            if server not in full
            and server.obstacle(entry) is None
            and server.may_overtake(entry, cost)
        ]
        preferred = entry.request.preferred_server
        return max(
            fitting,
            key=lambda server: (
                server.capacity.server_id == preferred,
                server.free_slots(),
            ),
            default=None,
        )

    def _note_obstacles(self, entry: Entry, full: set[Server], now: float) -> bool:
        """Add to ``full`` the servers on which nothing more can start in this round.

        Where the request waits for memory, others may overtake it within limits, but
        not if it is overdue. Returns whether that changed whom others may overtake.
        """
        changed = False
        if now >= entry.judged_until_s:
            entry.judge(now)
        allowance = -inf if entry.overdue_s <= now else self._settings.bypass
        for server in entry.hosts:
            obstacle = server.obstacle(entry)
            if obstacle is Rule.NO_SLOT:
                full.add(server)
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
        self._gauge.look()
        return dispatch

    def preempt(self, now: float) -> tuple[Preemption, ...]:
        """Interrupt at most one answer on each server, for whoever is next there."""
        rules = self._settings.preemption
        if rules is None or not self._board.waiting:
            return ()
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
        return tuple(preemptions)

    def _next_on(self, server: Server, now: float) -> Entry | None:
        """Return who would start on a server if it had a slot or memory left."""
        if not server.usable:
            return None
        if server.blocked is not None:
            return server.blocked.entry
        if server.free_slots() > 0:
            return None
        choice = self._selector.choose(
            eligible_heads(self._board),
            now=now,
            speeds=self._speeds,
            is_open=lambda entry: server in entry.hosts,
        )
        return None if choice is None else choice.entry


def _is_open(passed_over: set[Entry], full: set[Server], entry: Entry) -> bool:
    return entry not in passed_over and not full.issuperset(entry.hosts)
