"""What fair means: who of several siblings of the share tree is next.

Everything else holds under every policy: urgency bands with ageing, the reserved
share of background work, memory, limits, quotas. A policy only decides among siblings
whose requests are equally urgent; it can be changed at any time.
"""

from collections.abc import Mapping, Sequence
from math import inf, log2
from typing import Protocol

from .entry import Entry
from .node import Node
from .speed import Speeds

_MOST_EXCESS = 0.1
"""Of its head's wait, how much a sibling's past waiting can count for it or against."""


type Siblings = Mapping[Node, Sequence[Entry]]
"""The siblings that compete, each with the heads of the classes below it that do."""

type Rank = tuple[float, ...]


class Policy(Protocol):
    """Picks one of several siblings."""

    name: str

    def ranks(self, siblings: Siblings, now: float, speeds: Speeds) -> list[Rank]:
        """Return the rank of each sibling, in their order: the lowest is next."""
        ...


def pick(policy: Policy, siblings: Siblings, now: float, speeds: Speeds) -> Node:
    """Return the policy's choice; ties go to the older request."""
    ranks = policy.ranks(siblings, now, speeds)
    best = min(ranks)
    if ranks.count(best) == 1:
        return list(siblings)[ranks.index(best)]
    # Plain loops: where nobody has had anything yet all members tie.
    tied = [node for node, rank in zip(siblings, ranks, strict=True) if rank == best]
    first, oldest = tied[0], inf
    for node in tied:
        for head in siblings[node]:
            if head.sequence < oldest:
                first, oldest = node, head.sequence
    return first


def _oldest(heads: Sequence[Entry]) -> Entry:
    if len(heads) == 1:
        return heads[0]
    return min(heads, key=lambda head: head.sequence)


class EqualTokens:
    """Everybody gets the same number of tokens, in proportion to their weight.

    Serves the sibling with the smallest virtual token counter: weighted max-min
    fairness of the charge (Sheng et al., OSDI 2024). Target: for siblings f and g
    that both wait, ``|W_f/w_f - W_g/w_g| <= 2U``, where U is the most work that can
    be in flight at once. Drawback: who asks for much waits longer than who asks for
    little.
    """

    name = "equal_tokens"

    def ranks(self, siblings: Siblings, now: float, speeds: Speeds) -> list[Rank]:
        """Order by virtual token counter."""
        del now, speeds
        return [(node.counter,) for node in siblings]


class EqualWaiting:
    """Everybody waits equally long, whatever they ask for.

    Serves the sibling with the largest ``w_n * (head wait + E_n)``. E_n is how much
    longer than the average of its competing siblings it has waited at its latest 20
    starts, but at most a tenth of the head's wait, up or down. (The mean of a sibling
    that is not served stands still, while that of one whose queue grows rises with
    every start. Without the limit that one would keep ahead for good; with it, no head
    waits more than a quarter longer than another of the same weight that is served
    before it.) Target: Jain's index of the siblings' mean waits goes to 1. Drawback:
    light users lose the advantage that they have under equal tokens.
    """

    name = "equal_waiting"

    def ranks(self, siblings: Siblings, now: float, speeds: Speeds) -> list[Rank]:
        """Order by weighted waiting with its excess, the longest first."""
        del speeds
        average = sum(node.mean_wait_s for node in siblings) / len(siblings)

        def rank(node: Node, heads: Sequence[Entry]) -> Rank:
            wait = _oldest(heads).waited_s(now)
            most = wait * _MOST_EXCESS
            excess = min(max(node.mean_wait_s - average, -most), most)
            return (-node.weight * (wait + excess),)

        return [rank(node, heads) for node, heads in siblings.items()]


class EqualCompletion:
    """Everybody's answers are ready in time equally often.

    Serves the sibling with the lowest ``s_n / (w_n * 2**L_n)``. s_n is its rate of
    answers in time, ``(in time + 1) / (due + 2)`` over the latest 20 that were due. L_n
    is by how much the latest of its heads will miss its deadline, in multiples of the
    time that it had: who is not served gets no new rate, but ever later, and so its
    turn, however much the others ask for. Equal ones go by the least time to spare,
    and what can't be in time any more comes after what can. Target: the spread of the
    rates, largest less smallest, is as small as possible. Drawback: when one asks for
    more than can be done in time, the others' answers come late as well, and long
    requests get much of the server's time.
    """

    name = "equal_completion"

    def ranks(self, siblings: Siblings, now: float, speeds: Speeds) -> list[Rank]:
        """Order by rate of answers in time, less for who is late, then by laxity."""

        def rank(node: Node, heads: Sequence[Entry]) -> Rank:
            laxity = [_laxity_s(head, now, speeds) for head in heads]
            late = max(
                -spare / head.leaf.profile.completion_target_s
                for spare, head in zip(laxity, heads, strict=True)
            )
            rate = log2(node.on_time_rate() / node.weight) - max(late, 0.0)
            feasible = [spare for spare in laxity if spare >= 0]
            return (rate, 0.0 if feasible else 1.0, min(feasible or laxity))

        return [rank(node, heads) for node, heads in siblings.items()]


class LatencyFirst:
    """The first word comes as soon as it is wanted, for as many as possible.

    Serves the request with the least slack that is not negative: the time until its
    first token is due, less the time that reading its prompt takes. What has missed
    its target comes after what can still meet it, by the virtual token counter (and
    waits no longer for it than until it is overdue). Target: the largest part of voice
    requests within their target. Drawback: who asks for urgent things often gets more
    than an equal share.
    """

    name = "latency_first"

    def ranks(self, siblings: Siblings, now: float, speeds: Speeds) -> list[Rank]:
        """Order by slack, and what is late already by virtual token counter."""

        def rank(node: Node, heads: Sequence[Entry]) -> Rank:
            slack = [_slack_s(head, now, speeds) for head in heads]
            feasible = [spare for spare in slack if spare >= 0]
            if not feasible:
                return (1.0, node.counter)
            return (0.0, min(feasible), node.counter)

        return [rank(node, heads) for node, heads in siblings.items()]


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

OFFERED = tuple(POLICIES)
"""What a household can choose."""
