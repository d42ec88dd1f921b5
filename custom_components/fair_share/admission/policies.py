"""What fair means: who of several siblings of the share tree is next.

Everything else holds under every policy: urgency bands with ageing, the reserved
share of background work, memory, limits, quotas. A policy only decides among siblings
whose requests are equally urgent; it can be changed at any time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .entry import Entry
from .speed import Speeds
from .tree import Node


@dataclass(frozen=True, slots=True)
class Contender:
    """A sibling, and the requests below it that compete (the heads of its classes)."""

    node: Node
    heads: Sequence[Entry]

    def oldest(self) -> Entry:
        """Return the head that arrived first."""
        return min(self.heads, key=lambda head: head.sequence)


class Policy(Protocol):
    """Picks one of several siblings."""

    name: str

    def rank(
        self, contenders: Sequence[Contender], now: float, speeds: Speeds
    ) -> Callable[[Contender], tuple[float, ...]]:
        """Return the order of these contenders: the lowest is next."""
        ...


def pick(
    policy: Policy, contenders: Sequence[Contender], now: float, speeds: Speeds
) -> Contender:
    """Return the policy's choice; ties go to the older request, then by id."""
    rank = policy.rank(contenders, now, speeds)
    return min(
        contenders,
        key=lambda each: (rank(each), each.oldest().sequence, each.node.node_id),
    )


class EqualTokens:
    """Everybody gets the same number of tokens, in proportion to their weight.

    Serves the sibling with the smallest virtual token counter: weighted max-min
    fairness of the charge (Sheng et al., OSDI 2024). Target: for siblings f and g
    that both wait, ``|W_f/w_f - W_g/w_g| <= 2U``, where U is the most work that can
    be in flight at once. Drawback: who asks for much waits longer than who asks for
    little.
    """

    name = "equal_tokens"

    def rank(
        self, contenders: Sequence[Contender], now: float, speeds: Speeds
    ) -> Callable[[Contender], tuple[float, ...]]:
        """Order by virtual token counter."""
        del contenders, now, speeds
        return lambda each: (each.node.counter,)


class EqualWaiting:
    """Everybody waits equally long, whatever they ask for.

    Serves the sibling with the largest ``w_n * (A_n / 2 + head wait)``, where A_n is
    how much longer than the average of its competing siblings it has waited at its
    latest 20 starts. (With the whole of A_n a sibling that waits long because its
    queue grows would keep ahead of one that is never served, whose A_n stands still.)
    Target: Jain's index of the mean waits goes to 1. Drawback: light users lose the
    advantage that they have under equal tokens.
    """

    name = "equal_waiting"

    def rank(
        self, contenders: Sequence[Contender], now: float, speeds: Speeds
    ) -> Callable[[Contender], tuple[float, ...]]:
        """Order by weighted excess of waiting, the longest first."""
        del speeds
        average = sum(each.node.mean_wait_s for each in contenders) / len(contenders)

        def rank(each: Contender) -> tuple[float, ...]:
            excess = each.node.mean_wait_s - average
            wait = each.oldest().waited_s(now)
            return (-each.node.weight * (excess / 2 + wait),)

        return rank


class EqualCompletion:
    """Everybody's answers are ready in time equally often.

    Serves the sibling whose weighted rate of answers on time,
    ``(on time + 1) / (due + 2)`` over the latest 20, is lowest, and below it the
    request with the least time to spare before its deadline. What can't be in time
    any more comes last, but is never dropped. Target: the spread of the rates is as
    small as possible. Drawback: long requests get much of the server's time.
    """

    name = "equal_completion"

    def rank(
        self, contenders: Sequence[Contender], now: float, speeds: Speeds
    ) -> Callable[[Contender], tuple[float, ...]]:
        """Order by feasibility, rate of answers on time, and laxity."""
        del contenders

        def rank(each: Contender) -> tuple[float, ...]:
            laxity = [_laxity_s(head, now, speeds) for head in each.heads]
            feasible = [spare for spare in laxity if spare >= 0]
            rate = each.node.on_time_rate() / each.node.weight
            return (0.0 if feasible else 1.0, rate, min(feasible or laxity))

        return rank


class LatencyFirst:
    """The first word comes as soon as it is wanted, for as many as possible.

    Serves the request with the least slack: the time until its first token is due,
    less the time that reading its prompt takes. Equal slack goes by the virtual token
    counter. Target: the largest part of voice requests within their target.
    Drawback: who asks for urgent things often gets more than an equal share.
    """

    name = "latency_first"

    def rank(
        self, contenders: Sequence[Contender], now: float, speeds: Speeds
    ) -> Callable[[Contender], tuple[float, ...]]:
        """Order by slack, then by virtual token counter."""
        del contenders

        def rank(each: Contender) -> tuple[float, ...]:
            slack = min(_slack_s(head, now, speeds) for head in each.heads)
            return (slack, each.node.counter)

        return rank


def _slack_s(head: Entry, now: float, speeds: Speeds) -> float:
    target = head.leaf.profile.ttft_target_s
    return target - head.waited_s(now) - speeds.prefill_s(head.prompt.uncached)


def _laxity_s(head: Entry, now: float, speeds: Speeds) -> float:
    expected = head.leaf.predictor.mean(head.request.max_output_tokens)
    left = max(expected - head.counted.output, 0)
    service = speeds.prefill_s(head.prompt.uncached) + speeds.decode_s(left)
    return head.arrived_s + head.leaf.profile.completion_target_s - now - service


POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (EqualTokens(), EqualWaiting(), EqualCompletion(), LatencyFirst())
}

OFFERED = ("equal_tokens", "equal_waiting", "latency_first")
"""What a household can choose. Equal completion is not: with more work than can ever
be done in time it leaves whoever is late for good to the very end."""
