"""A request inside the queue, with what is known and booked of it so far."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from .model import (
    BACKGROUND_BAND,
    PATIENT_BAND,
    CostWeights,
    Dispatch,
    Outcome,
    Request,
    RequestRecord,
    Rule,
    TokenCount,
)
from .reading import Reading
from .status import RequestStatus, Start

if TYPE_CHECKING:
    from .node import Leaf, Node
    from .servers import Server

_PAID_AHEAD_TOKENS = 128
"""Output that is paid for in advance: what comes within a few seconds."""

_PAID_AT_ONCE_TOKENS = 16
"""Output after which the next part is paid for; to book every token would cost more."""


class Entry:
    """One waiting or running request.

    ``path`` are the accounts it is charged to, from the root down, fixed when it
    first starts. ``booked`` is the charge booked so far, ``counted`` the tokens;
    ``recomputed`` are the prompt tokens that were read once more after an
    interruption, which are not charged to it; ``reread`` those of all runs before the
    latest. ``reads_again`` tells that an earlier run got beyond the prompt, which is
    paid. ``keeps_read`` tells that its prompt is read in slices: what an earlier run
    has read of it is paid, and ``lost_slices`` counts how often a slice did not find
    that. ``reading`` is how the present run comes along with it.
    ``hosts`` are the servers in reach that could run it while it waits.
    ``band`` and ``overdue_s`` hold until ``judged_until_s``, when it ages, or one of
    its class starts. ``shielded`` marks an
    answer that can't be interrupted as things are. With ``makes_room_for`` it is being
    interrupted for another, with ``moves_to`` to go on at another server; ``ran_on`` is
    where it ran before, and ``caused`` counts what was interrupted for it.
    ``losses`` counts servers that were lost under it. ``urgent`` marks a start that
    urgency, not the policy, decided. ``run_output`` is the output since the latest
    start, ``paid_off`` what the start paid off of what background work was owed.
    """

    __slots__ = (
        "aged_by",
        "arrived_s",
        "band",
        "booked",
        "caused",
        "checked_output",
        "costs",
        "counted",
        "dispatch",
        "estimated",
        "first_output_s",
        "hosts",
        "in_flight_cost",
        "judged_until_s",
        "keeps_read",
        "last_output_s",
        "leaf",
        "longest_pause_s",
        "losses",
        "lost_slices",
        "makes_room_for",
        "moves_to",
        "output_bound",
        "overdue_s",
        "paid_off",
        "path",
        "paused_at_s",
        "paused_s",
        "preempting",
        "preemptions",
        "preemptions_in_slices",
        "prepaid_output",
        "prompt",
        "ran_on",
        "reading",
        "reads_again",
        "recomputed",
        "request",
        "reread",
        "run_output",
        "sequence",
        "server",
        "shielded",
        "started_s",
        "unreachable_since_s",
        "urgent",
        "waited_first_s",
    )

    def __init__(
        self, request: Request, leaf: Leaf, arrived_s: float, sequence: int
    ) -> None:
        """Take a request in at ``arrived_s``; ``sequence`` breaks ties."""
        self.request = request
        self.leaf = leaf
        self.arrived_s = arrived_s
        self.sequence = sequence
        self.unreachable_since_s: float | None = None
        self.hosts: tuple[Server, ...] = ()
        self.band = leaf.profile.band
        self.overdue_s = inf
        self.judged_until_s = -inf
        self.path: tuple[Node, ...] = ()
        self.server: Server | None = None
        self.dispatch: Dispatch | None = None
        self.started_s = 0.0
        self.waited_first_s = 0.0
        self.first_output_s: float | None = None
        self.last_output_s = 0.0
        self.urgent = False
        self.estimated = False
        self.costs = CostWeights()
        self.booked = 0.0
        self.in_flight_cost = 0.0
        self.paid_off = 0.0
        self.counted = TokenCount()
        self.recomputed = TokenCount()
        self.prompt = self.estimated_prompt()
        self.reads_again = False
        self.keeps_read = False
        self.lost_slices = 0
        self.reading = Reading()
        self.prepaid_output = 0
        self.output_bound = 0
        self.checked_output = 0
        self.run_output = 0
        self.aged_by = 0
        self.preempting = False
        self.shielded = False
        self.makes_room_for: Entry | None = None
        self.moves_to: str | None = None
        self.ran_on: str | None = None
        self.preemptions = 0
        self.preemptions_in_slices = 0
        self.losses = 0
        self.caused = 0
        self.reread = TokenCount()
        self.paused_at_s: float | None = None
        self.paused_s = 0.0
        self.longest_pause_s = 0.0

    @property
    def resumed(self) -> bool:
        """Whether it was interrupted before and goes on, or will."""
        return self.preemptions + self.losses > 0

    @property
    def between_slices(self) -> bool:
        """Whether it reads its prompt, and can be left when its slice ends."""
        return self.reading.in_slices and not self.run_output

    def estimated_prompt(self) -> TokenCount:
        """Return its prompt, as much of it cached as was expected on arrival."""
        cached = self.request.cached_tokens
        return TokenCount(self.request.prompt_tokens - cached, cached)

    def kept_prompt(self) -> TokenCount:
        """Return its prompt, with as much of it cached as was found in slices."""
        read = self.counted
        whole = max(self.request.prompt_tokens, read.prompt)
        return TokenCount(whole - read.cached, read.cached)

    def start(
        self,
        server: Server,
        *,
        rule: Rule,
        urgent: bool,
        costs: CostWeights,
        now: float,
    ) -> Dispatch:
        """Fix where it runs; at the first start also its accounts and prices."""
        waited = now - self.passed_over_since_s()
        self.aged_by = int(waited // self.leaf.profile.age_step_s)
        if not self.resumed:
            self.path = self.leaf.path
            self.costs = costs
            self.waited_first_s = now - self.arrived_s
            cached = self.request.cached_on(server.capacity.server_id)
            self.prompt = TokenCount(self.request.prompt_tokens - cached, cached)
        self.server = server
        self.started_s = now
        self.urgent = urgent
        self.run_output = 0
        self.reading = Reading(from_s=now, ended_s=now)
        self.reads_again = self.counted.output > 0
        self.output_bound = server.output_bound(self.request)
        self.prepaid_output = 0
        self.pay_ahead()
        self.dispatch = Dispatch(
            request_id=self.request.request_id,
            server_id=server.capacity.server_id,
            band=self.effective_band(now),
            max_output_tokens=self.output_bound - self.counted.output,
            rule=rule,
            waited_s=self.waited_first_s,
        )
        return self.dispatch

    def pay_ahead(self) -> bool:
        """Pay for the next part of the answer in advance, if it is time to.

        For as much as is likely to come, but only a part at a time.
        """
        output = self.counted.output
        if output < self.prepaid_output - _PAID_AHEAD_TOKENS + _PAID_AT_ONCE_TOKENS:
            return False
        left = self.leaf.predictor.left(output, self.output_bound)
        ahead = output + min(left, _PAID_AHEAD_TOKENS)
        if ahead <= self.prepaid_output:
            return False
        self.prepaid_output = ahead
        return True

    def close_reading(self) -> None:
        """Note that what the present run has read once more is all that it will."""
        self.reread = TokenCount(
            self.reread.uncached + self.recomputed.uncached,
            self.reread.cached + self.recomputed.cached,
        )
        self.recomputed = TokenCount()

    def pause(
        self, now: float, *, lost: bool, servers: frozenset[str] | None = None
    ) -> None:
        """Go back to waiting after an interruption, or after its server was lost.

        The server where it ran has its prefix; only ``servers`` can go on with it
        (``None``: any).
        """
        self.ran_on = self.at().capacity.server_id
        self.request = replace(
            self.request,
            preferred_server=self.moves_to or self.ran_on,
            servers=self.request.servers if servers is None else servers,
        )
        if lost:
            self.losses += 1
        else:
            self.preemptions += 1
            self.preemptions_in_slices += self.between_slices
            if self.makes_room_for is not None:
                self.makes_room_for.caused += 1
        self.dispatch = None
        self.server = None
        if not self.counted.output:
            # Its prompt has been of no use yet, and is still to be paid; but what was
            # read in slices is there to go on with.
            self.prompt = (
                self.kept_prompt() if self.keeps_read else self.estimated_prompt()
            )
        self.preempting = self.shielded = False
        self.makes_room_for = self.moves_to = None
        if self.paused_at_s is None:
            self.paused_at_s = now
        self.judged_until_s = -inf

    def end_pause(self, now: float) -> None:
        """Note that it has gone on, if it was interrupted before."""
        if self.paused_at_s is not None:
            pause = now - self.paused_at_s
            self.paused_s += pause
            self.longest_pause_s = max(self.longest_pause_s, pause)
            self.paused_at_s = None

    def note_output(self, tokens: int, now: float) -> None:
        """Note that output came, which ends a pause."""
        if self.first_output_s is None:
            self.first_output_s = now
        self.end_pause(now)
        self.last_output_s = now
        self.run_output += tokens

    def waited_s(self, now: float) -> float:
        """Return how long it waited for its first start, or has waited until now."""
        if self.dispatch is None and not self.resumed:
            return now - self.arrived_s
        return self.waited_first_s

    def passed_over_since_s(self) -> float:
        """Return since when others were preferred to it.

        Not while it waited behind requests of its own class: who asks for much at
        once must not get ahead of the others by it.
        """
        if self.paused_at_s is not None:
            return self.paused_at_s
        return max(self.arrived_s, self.leaf.last_start_s)

    def judge(self, now: float) -> None:
        """Find out how urgent it is while it waits, and until when that holds."""
        leaf, profile = self.leaf, self.leaf.profile
        since = self.passed_over_since_s()
        limit = profile.max_wait_s if self.paused_at_s is None else profile.max_pause_s
        self.overdue_s = since + limit
        self.band = self.effective_band(now)
        steps = (now - since) // profile.age_step_s
        ages = self.band > 0 and profile.age_step_s < inf
        self.judged_until_s = since + (steps + 1) * profile.age_step_s if ages else inf
        if leaf.may_be_demoted:
            # A quota can end, or begin anew, at any moment.
            self.judged_until_s = -inf

    def patience_ends_s(self) -> float | None:
        """Return until when it waits for a server in reach, if it has to."""
        since = self.unreachable_since_s
        return None if since is None else since + self.leaf.profile.patience_s

    def effective_band(self, now: float) -> int:
        """Return the band after ageing: one more urgent for every step passed over.

        What a used-up quota demoted is background work, and ages as such.
        """
        profile = self.leaf.profile
        demoted = self.leaf.may_be_demoted and any(
            node.demotes() for node in self.path or self.leaf.path
        )
        band = BACKGROUND_BAND if demoted else profile.band
        if self.dispatch is not None:
            return max(0, band - self.aged_by)
        waited = now - self.passed_over_since_s()
        return max(0, band - int(waited // profile.age_step_s))

    def at(self) -> Server:
        """Return the server where it runs; it has to run."""
        assert self.server is not None  # noqa: S101 - only asked of running requests
        return self.server

    def is_patient(self, now: float) -> bool:
        """Whether it may wait until one more in flight pays."""
        if self.server is not None:
            return self.effective_band(now) >= PATIENT_BAND
        if now >= self.judged_until_s:
            self.judge(now)
        return self.band >= PATIENT_BAND and self.overdue_s > now

    def expected_left(self) -> int:
        """Return how many more output tokens are likely.

        An answer that is already longer than usual is taken to go on for a while.
        """
        bound = self.output_bound or self.request.max_output_tokens
        output = self.counted.output
        likely = max(self.leaf.predictor.mean(bound) - output, output // 4)
        return max(0, min(bound - output, likely))

    def expected_cost(self, costs: CostWeights) -> float:
        """Return what it is likely to be charged from here on."""
        prompt = TokenCount() if self.counted.output else self.prompt
        if self.keeps_read and not self.counted.output:
            read = self.counted
            prompt = TokenCount(
                prompt.uncached - read.uncached, prompt.cached - read.cached
            )
        return costs.charge(prompt.uncached, prompt.cached, self.expected_left())

    def worst_cost(self) -> float:
        """Return the most that this running request can be charged."""
        prompt = max(self.request.prompt_tokens, self.prompt.prompt)
        return self.costs.charge(prompt, 0, max(self.output_bound, self.counted.output))

    def playback_slack_s(self, now: float) -> float:
        """Return for how long its listener still has something to take in."""
        speed = self.leaf.profile.consumed_tokens_per_s
        if self.first_output_s is None or speed <= 0:
            return 0.0
        return self.counted.output / speed - (now - self.first_output_s)

    def status(
        self, now: float, rule: Rule, start: Start | None = None
    ) -> RequestStatus:
        """Return a snapshot, with the forecast of its start while it waits."""
        return RequestStatus(
            request_id=self.request.request_id,
            class_id=self.leaf.node_id,
            workload=self.leaf.workload,
            server_id=None if self.dispatch is None else self.dispatch.server_id,
            waited_s=self.waited_s(now),
            prompt_tokens=self.prompt.prompt,
            output_tokens=self.counted.output,
            rule=rule,
            ahead=None if start is None else start.ahead,
            starts_in_s=None if start is None else start.in_s,
            preemptions=self.preemptions,
        )

    def in_time(self, outcome: Outcome, now: float) -> bool | None:
        """Return whether the whole answer was ready before its deadline.

        ``None`` when there is no whole answer.
        """
        if outcome is not Outcome.FINISHED:
            return None
        return now <= self.arrived_s + self.leaf.profile.completion_target_s

    def record(self, outcome: Outcome, now: float) -> RequestRecord:
        """Return the account of the request as it ends."""
        first = self.first_output_s
        return RequestRecord(
            request_id=self.request.request_id,
            class_id=self.leaf.node_id,
            workload=self.leaf.workload,
            outcome=outcome,
            rule=None if self.dispatch is None else self.dispatch.rule,
            server_id=None if self.dispatch is None else self.dispatch.server_id,
            wait_s=self.waited_s(now),
            ttft_s=None if first is None else first - self.arrived_s,
            duration_s=now - self.arrived_s,
            tokens=self.counted,
            charge=self.booked,
            estimated=self.estimated,
            preemptions=self.preemptions,
            paused_s=self.paused_s,
            longest_pause_s=self.longest_pause_s,
            caused=self.caused,
            recomputed=self.reread,
        )
