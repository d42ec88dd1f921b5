"""Booking: what a request costs, to whom, as it is processed."""

from collections.abc import Callable

from .entry import Entry
from .fairness import FairnessGauge
from .model import CostWeights, QuotaEnd, TokenCount, Verdict
from .quota import QUOTA_CHUNK_TOKENS
from .reserve import BackgroundReserve


class Accounts:
    """Books charges and tokens on every account of a request's path.

    The charge for the prompt and for the next part of the predicted output is booked
    before it comes, and a refund at the end, so that at every moment an account holds
    the delivered work plus open prepayments. (Paying for a whole answer in advance
    would be fair in the end only: whoever has begun a long one would get nothing else
    meanwhile.) Tokens are counted (and
    taken off quotas) only as they are processed. What an interruption makes the
    server read again is charged to nobody and summed up in ``recomputed``.
    """

    def __init__(
        self,
        gauge: FairnessGauge,
        reserve: BackgroundReserve,
        background_waits: Callable[[], bool],
        costs: CostWeights,
    ) -> None:
        """Book with these prices; a running request keeps those it started with."""
        self._gauge = gauge
        self._reserve = reserve
        self._background_waits = background_waits
        self.costs = costs
        self.recomputed = TokenCount()

    def open(self, entry: Entry) -> None:
        """Prepay the prompt and the predicted output of a request that starts."""
        if not entry.reads_again and not entry.keeps_read:
            self._read_in_vain(entry)
        self._book(entry)

    def prompt(
        self, entry: Entry, *, uncached: int, cached: int, again: int = 0
    ) -> None:
        """Count a prompt, or as much of it as is processed by now.

        ``again`` is what had to be read once more since the latest start, of what is
        counted already.
        """
        if entry.reads_again:
            self._recompute(entry, TokenCount(uncached + again, cached))
        else:
            self._count(entry, TokenCount(uncached, cached, entry.counted.output))
            self._recompute(entry, TokenCount(again))

    def output(self, entry: Entry, tokens: int) -> Verdict:
        """Count and charge further output; say whether a quota ends the answer."""
        if not entry.counted.prompt:
            self._count(entry, entry.prompt)
        elif entry.keeps_read and not entry.counted.output:
            # Whatever was not read in slices was read in one go after them.
            self._count(entry, entry.kept_prompt())
        counted = entry.counted
        output = counted.output + tokens
        self._count(entry, TokenCount(counted.uncached, counted.cached, output))
        if entry.pay_ahead():
            self._book(entry)
        if output - entry.checked_output < QUOTA_CHUNK_TOKENS:
            return Verdict.CONTINUE
        entry.checked_output = output
        return self.verdict(entry)

    def verdict(self, entry: Entry) -> Verdict:
        """Say whether a quota ends what runs."""
        stopped = any(
            node.window.exhausted and node.window.at_end is QuotaEnd.STOP
            for node in entry.path
        )
        return Verdict.STOP_QUOTA if stopped else Verdict.CONTINUE

    def settle(self, entry: Entry, tokens: TokenCount) -> None:
        """Correct the account to what the server counted since the latest start."""
        if entry.reads_again:
            self._recompute(entry, TokenCount(tokens.uncached, tokens.cached))
            output = entry.counted.output - entry.run_output + tokens.output
            prompt = entry.counted
        else:
            entry.prompt = TokenCount(tokens.uncached, tokens.cached)
            output, prompt = tokens.output, tokens
        self._count(entry, TokenCount(prompt.uncached, prompt.cached, output))
        entry.run_output = tokens.output
        self._book(entry)

    def prepaid(self, entry: Entry) -> float:
        """Return what is booked of a running request but not delivered yet."""
        counted = entry.counted
        delivered = entry.costs.charge(counted.uncached, counted.cached, counted.output)
        return entry.booked - delivered

    def close(self, entry: Entry) -> None:
        """Refund what was paid for but not delivered."""
        entry.prompt = TokenCount(entry.counted.uncached, entry.counted.cached)
        entry.prepaid_output = 0
        entry.close_reading()
        self._book(entry)

    def _count(self, entry: Entry, tokens: TokenCount) -> None:
        uncached = tokens.uncached - entry.counted.uncached
        cached = tokens.cached - entry.counted.cached
        output = tokens.output - entry.counted.output
        entry.counted = tokens
        charge = entry.costs.charge(uncached, cached, output)
        for node in entry.path:
            node.count(uncached, cached, output)
            node.delivered += charge / node.weight

    def _read_in_vain(self, entry: Entry) -> None:
        """Charge nobody for what was read of a prompt before an interruption.

        It is read from its beginning now and paid as if it had not run before.
        """
        lost = TokenCount(entry.counted.uncached, entry.counted.cached)
        self._recompute(entry, lost)
        entry.close_reading()
        self._count(entry, TokenCount())

    def _recompute(self, entry: Entry, tokens: TokenCount) -> None:
        self.recomputed = TokenCount(
            self.recomputed.uncached + tokens.uncached - entry.recomputed.uncached,
            self.recomputed.cached + tokens.cached - entry.recomputed.cached,
        )
        entry.recomputed = tokens

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
        self._reserve.charged(entry, delta, waiting=self._background_waits())
