"""Booking: what a request costs, to whom, as it is processed."""

from .entry import Entry
from .fairness import FairnessGauge
from .model import CostWeights, TokenCount, Verdict
from .quota import STOP_CHUNK_TOKENS


class Accounts:
    """Books charges and tokens on every account of a request's path.

    The charge for the prompt and for the predicted output is booked at the start,
    further output as it comes, and a refund at the end, so that at every moment an
    account holds the delivered work plus open prepayments. Tokens are counted (and
    taken off quotas) only as they are processed.
    """

    def __init__(self, gauge: FairnessGauge, costs: CostWeights) -> None:
        """Book with these prices; a running request keeps those it started with."""
        self._gauge = gauge
        self.costs = costs

    def open(self, entry: Entry) -> None:
        """Prepay the prompt and the predicted output of a request that starts."""
        entry.costs = self.costs
        self._book(entry)

    def prompt(self, entry: Entry, *, uncached: int, cached: int) -> None:
        """Count a prompt, or as much of it as is processed by now."""
        self._count(entry, TokenCount(uncached, cached, entry.counted.output))

    def output(self, entry: Entry, tokens: int) -> Verdict:
        """Count and charge further output; say whether a quota ends the answer."""
        if not entry.counted.prompt:
            self._count(entry, entry.prompt)
        counted = entry.counted
        self._count(
            entry, TokenCount(counted.uncached, counted.cached, counted.output + tokens)
        )
        if entry.counted.output > entry.prepaid_output:
            self._book(entry)
        if entry.counted.output - entry.checked_output < STOP_CHUNK_TOKENS:
            return Verdict.CONTINUE
        entry.checked_output = entry.counted.output
        exhausted = any(node.window.exhausted for node in entry.path)
        return Verdict.STOP_QUOTA if exhausted else Verdict.CONTINUE

    def settle(self, entry: Entry, tokens: TokenCount) -> None:
        """Correct the account to what the server counted."""
        entry.prompt = TokenCount(tokens.uncached, tokens.cached)
        self._count(entry, tokens)
        self._book(entry)

    def close(self, entry: Entry) -> None:
        """Refund what was paid for but not delivered."""
        entry.prompt = TokenCount(entry.counted.uncached, entry.counted.cached)
        entry.prepaid_output = 0
        self._book(entry)

    def _count(self, entry: Entry, tokens: TokenCount) -> None:
        uncached = tokens.uncached - entry.counted.uncached
        cached = tokens.cached - entry.counted.cached
        output = tokens.output - entry.counted.output
        entry.counted = tokens
        for node in entry.path:
            node.count(uncached, cached, output)

    def _book(self, entry: Entry) -> None:
        due = entry.costs.charge(
            entry.prompt.uncached,
            entry.prompt.cached,
            max(entry.counted.output, entry.prepaid_output),
        )
        delta = due - entry.booked
        entry.booked = due
        for node in entry.path:
            node.charge += delta
            node.counter += delta / node.weight
        self._gauge.charged(entry, delta)
