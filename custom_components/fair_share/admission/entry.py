"""A request inside the queue, with what is known and booked of it so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model import (
    CostWeights,
    Dispatch,
    Outcome,
    Request,
    RequestRecord,
    Rule,
    TokenCount,
)
from .status import RequestStatus

if TYPE_CHECKING:
    from .tree import Leaf, Node


class Entry:
    """One waiting or running request.

    ``path`` are the accounts it is charged to, from the root down, fixed when it
    starts. ``booked`` is the charge booked so far, ``counted`` the tokens.
    ``urgent`` marks a start that urgency, not the policy, decided.
    """

    __slots__ = (
        "arrived_s",
        "booked",
        "checked_output",
        "costs",
        "counted",
        "dispatch",
        "estimated",
        "first_output_s",
        "leaf",
        "output_bound",
        "path",
        "prepaid_output",
        "prompt",
        "request",
        "sequence",
        "started_s",
        "urgent",
    )

    def __init__(
        self, request: Request, leaf: Leaf, arrived_s: float, sequence: int
    ) -> None:
        """Take a request in at ``arrived_s``; ``sequence`` breaks ties."""
        self.request = request
        self.leaf = leaf
        self.arrived_s = arrived_s
        self.sequence = sequence
        self.path: tuple[Node, ...] = ()
        self.dispatch: Dispatch | None = None
        self.started_s = 0.0
        self.first_output_s: float | None = None
        self.urgent = False
        self.estimated = False
        self.costs = CostWeights()
        self.booked = 0.0
        self.counted = TokenCount()
        self.prompt = TokenCount(
            uncached=request.prompt_tokens - request.cached_tokens,
            cached=request.cached_tokens,
        )
        self.prepaid_output = 0
        self.output_bound = 0
        self.checked_output = 0

    def start(
        self,
        *,
        server_id: str,
        output_bound: int,
        rule: Rule,
        urgent: bool,
        costs: CostWeights,
        now: float,
    ) -> Dispatch:
        """Fix on which server, under which accounts and at which prices it runs."""
        self.path = self.leaf.path
        self.started_s = now
        self.urgent = urgent
        self.costs = costs
        self.output_bound = output_bound
        self.prepaid_output = self.leaf.predictor.mean(output_bound)
        self.dispatch = Dispatch(
            request_id=self.request.request_id,
            server_id=server_id,
            max_output_tokens=output_bound,
            rule=rule,
            waited_s=now - self.arrived_s,
        )
        return self.dispatch

    def waited_s(self, now: float) -> float:
        """Return how long the request waited or has been waiting, in seconds."""
        return (now if self.dispatch is None else self.started_s) - self.arrived_s

    def overdue_at_s(self) -> float:
        """Return the moment from which the request is overdue."""
        return self.arrived_s + self.leaf.profile.max_wait_s

    def patience_ends_s(self, unserved_since_s: float) -> float:
        """Return until when it waits for a server that was lost at that moment."""
        return max(self.arrived_s, unserved_since_s) + self.leaf.profile.patience_s

    def effective_band(self, now: float) -> int:
        """Return the band after ageing: one more urgent for every step waited."""
        profile = self.leaf.profile
        return max(0, profile.band - int((now - self.arrived_s) // profile.age_step_s))

    def worst_cost(self) -> float:
        """Return the most that this running request can be charged."""
        prompt = max(self.request.prompt_tokens, self.prompt.prompt)
        return self.costs.charge(prompt, 0, max(self.output_bound, self.counted.output))

    def status(self, now: float, rule: Rule) -> RequestStatus:
        """Return a snapshot."""
        return RequestStatus(
            request_id=self.request.request_id,
            class_id=self.leaf.node_id,
            workload=self.leaf.workload,
            server_id=None if self.dispatch is None else self.dispatch.server_id,
            waited_s=self.waited_s(now),
            prompt_tokens=self.prompt.prompt,
            output_tokens=self.counted.output,
            rule=rule,
        )

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
        )
