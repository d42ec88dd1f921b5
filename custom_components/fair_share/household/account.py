"""What a running answer costs, booked delta by delta."""

from dataclasses import replace

from ..admission.model import Rejected, RejectReason, Request, TokenCount, Verdict
from ..admission.queue import Grant
from ..engines.base import (
    Capabilities,
    Content,
    Delta,
    Finish,
    PromptProgress,
    Thinking,
    ToolCallDelta,
    Usage,
)

_BATCH_TOKENS = 2048
"""What llama.cpp reads in one go unless told otherwise; it can't be left in between."""

_FAR_BEYOND = 10
"""A prompt that a server counts so many times longer than it was measured, beyond a
full context, was never there."""

_STOPS = {
    Verdict.STOP_QUOTA: RejectReason.QUOTA,
    Verdict.STOP_CANCELLED: RejectReason.CANCELLED,
    Verdict.STOP_CLOSED: RejectReason.CLOSED,
}


class RunningAccount:
    """Reports every delta of one answer, in however many runs, to the queue.

    A server that says nothing of its progress may have read the whole prompt by the
    time anybody can know.
    """

    def __init__(self, grant: Grant, request: Request) -> None:
        """Account for ``request``, which runs by ``grant``."""
        self._grant = grant
        self._request = request
        self._first: Usage | None = None
        self._before = self._written = 0
        self._total = self._cached = self._done = 0
        self._batch = self._longest = 0
        self._ends_at = 0
        self._answering = False
        self._verdict = Verdict.CONTINUE

    def begin_run(self, capabilities: Capabilities | None) -> None:
        """Begin a run: the first, or one that reads all that was written once more."""
        request = self._request
        self._total = request.prompt_tokens + self._before
        self._cached = request.cached_tokens if self._first is None else self._total - 1
        self._done = self._cached
        reports = capabilities is not None and capabilities.reports_progress
        self._batch = _BATCH_TOKENS if reports else self._total
        context = capabilities.context_tokens if capabilities else None
        self._longest = _FAR_BEYOND * self._total + (context or 0)
        self._ends_at = self._before + self._grant.dispatch.max_output_tokens
        self._answering = False

    @property
    def reading(self) -> bool:
        """Whether nothing has come of this run yet."""
        return not self._answering

    @property
    def full(self) -> bool:
        """Whether all that may be written has been written."""
        return self._before + self._written >= self._ends_at

    def usage(self) -> Usage:
        """Return the count of an answer that its server could not count any more."""
        return self._of_all_runs(Usage(self._total, self._cached, 0, estimated=True))

    def end_run(self, untold: int) -> None:
        """End a run in the middle, ``untold`` tokens after the last delta."""
        if untold:
            self._grant.output(untold)
        self._before += self._written + untold
        self._written = 0
        self._first = self._first or Usage(self._total, self._cached, 0)

    def note(self, delta: Delta) -> Delta:
        """Book a delta and return it; the final count made whole where it was not."""
        match delta:
            case Content() | Thinking() | ToolCallDelta():
                self._answering = True
                self._written += delta.tokens
                if delta.tokens:
                    self._verdict = self._grant.output(delta.tokens)
            case PromptProgress() if delta.total <= self._longest:
                self._total, self._cached = delta.total, delta.cached
                self._done = delta.processed
                self._report_prompt()
            case Usage():
                run = self._whole(delta)
                self._settle(run)
                delta = self._of_all_runs(run)
            case Finish():
                self._grant.finish()
        return delta

    def check(self) -> None:
        """Raise ``Rejected`` if the answer has to stop here."""
        if self._verdict is not Verdict.CONTINUE:
            raise Rejected(_STOPS[self._verdict])

    def left(self) -> bool:
        """Note that the client left; return whether the prompt was still being read.

        The server still finishes the batch that it reads.
        """
        if self._answering:
            return False
        self._done = min(self._total, self._done + self._batch)
        self._report_prompt()
        return True

    def _whole(self, usage: Usage) -> Usage:
        """Return the count with the prompt as it was measured if it was not told."""
        if usage.prompt_tokens is not None and usage.prompt_tokens <= self._longest:
            return usage
        return Usage(self._total, self._cached, usage.output_tokens, estimated=True)

    def _of_all_runs(self, run: Usage) -> Usage:
        """Return what a client is told: the prompt once, and all that was written."""
        first = self._first or run
        return replace(
            run,
            prompt_tokens=first.prompt_tokens,
            cached_tokens=first.cached_tokens,
            output_tokens=self._before + run.output_tokens,
        )

    def _settle(self, usage: Usage) -> None:
        cached = usage.cached_tokens
        uncached = (usage.prompt_tokens or 0) - cached
        tokens = TokenCount(uncached, cached, usage.output_tokens)
        self._grant.settle(tokens, estimated=usage.estimated)

    def _report_prompt(self) -> None:
        uncached = self._done - self._cached
        self._verdict = self._grant.prompt_progress(
            uncached=uncached, cached=self._cached
        )
