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
from .read_tokens import ReadTokens

_BATCH_TOKENS = 2048
"""What llama.cpp reads in one go unless told otherwise; it can't be left in between."""

_FAR_BEYOND = 10
"""A prompt that a server counts so many times longer than it was measured, beyond a
full context, was never there."""

_TOLERANCE_TOKENS = 32
"""A server that reads so many tokens once more has not lost what it had read."""

_STOPS = {
    Verdict.STOP_QUOTA: RejectReason.QUOTA,
    Verdict.STOP_CANCELLED: RejectReason.CANCELLED,
    Verdict.STOP_CLOSED: RejectReason.CLOSED,
}


class RunningAccount:
    """Reports every delta of one answer, in however many runs, to the queue.

    A server that says nothing of its progress may have read the whole prompt by the
    time anybody can know. What was read in slices is paid and kept, also when the run
    is interrupted before anything is written; what is read in one go is not.
    """

    def __init__(self, grant: Grant, request: Request) -> None:
        """Account for ``request``, which runs by ``grant``."""
        self._grant = grant
        self._request = request
        self._first: Usage | None = None
        self._again = self._has_read = False
        self._before = self._written = self._left = 0
        self._total = self._cached = self._done = 0
        self._inside = False
        self._upto: int | None = None
        self._base = self._read = ReadTokens()
        self._batch = self._longest = 0
        self._ends_at = 0
        self._answering = False
        self.keeps = False
        """Whether what was read of the prompt is paid, if nothing was written yet."""
        self._verdict = Verdict.CONTINUE

    def begin_run(self, capabilities: Capabilities | None, *, held: bool) -> None:
        """Begin a run: the first, or one that reads all that was written once more.

        ``held`` tells that the server still has what it is thought to have in its
        cache.
        """
        request = self._request
        self._total = request.prompt_tokens + self._before
        kept = self.keeps and not self._before
        self._base = replace(self._read, again=0) if kept else ReadTokens()
        self._read = self._base
        expected = self._left if self._again else self._expected()
        in_cache = self._base.paid if kept else min(expected, self._total - 1)
        self._cached = in_cache if held else 0
        self._has_read = held and self._again
        self._done = self._cached
        self._inside = False
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

    @property
    def done(self) -> int:
        """How much of the prompt is in the server's cache, as far as is known."""
        return self._done

    @property
    def total(self) -> int:
        """How long the prompt of this run is, as far as is known."""
        return self._total

    @property
    def inside(self) -> bool:
        """Whether the server has been given something to do, and is not done yet."""
        return self._inside

    def measure(self, total: int) -> None:
        """Note how long the prompt of this run really is."""
        self._total = total
        self._done = self._cached = min(self._cached, total - 1)

    def ask_slice(self, upto: int) -> None:
        """Note that the server is asked to read the prompt up to there."""
        self._inside, self._upto = True, upto

    def end_slice(self, upto: int, cached: int, seconds: float) -> PromptProgress:
        """Book a slice that was read, of which so much was in the cache.

        ``check`` tells afterwards whether to go on.
        """
        self._inside = False
        lost = self._has_read and cached < self._done - _TOLERANCE_TOKENS
        self._base = self._base.then(upto, cached=cached)
        self._done = self._cached = upto
        self._has_read = self.keeps = True
        self._book(self._base)
        self._verdict = self._grant.note_slice(upto - cached, seconds, lost=lost)
        return PromptProgress(self._total, self._read.cached, upto)

    def ask_rest(self) -> None:
        """Note that the server is asked for the answer, and reads what is left."""
        self._inside, self._upto = True, None

    def usage(self) -> Usage:
        """Return the count of an answer that its server could not count any more."""
        return self._of_all_runs(Usage(self._total, self._cached, 0, estimated=True))

    def end_run(self, untold: int) -> None:
        """End a run in the middle, ``untold`` tokens after the last delta."""
        if untold:
            self._grant.output(untold)
        written = self._written + untold
        self._left = self._total + written if self._answering else self._done
        self._before += written
        self._written = 0
        self._again = True
        if self._before or not self.keeps:
            self._first = self._first or Usage(self._total, self._told_cached(), 0)

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
                self._report_prompt(delta.processed)
                delta = replace(delta, cached=self._told_cached())
            case Usage():
                run = self._whole(delta)
                delta = self._of_all_runs(self._settle(run))
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
        if self._answering or not self._inside:
            return False
        end = self._total if self._upto is None else self._upto
        self._report_prompt(min(end, self._done + self._batch))
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

    def _settle(self, usage: Usage) -> Usage:
        """Book the final count of a run, and return it as if it had had no slices."""
        prompt = usage.prompt_tokens or 0
        read = self._base.then(prompt, cached=usage.cached_tokens)
        if read.again:
            self._book(read)
        tokens = TokenCount(read.uncached, read.cached, usage.output_tokens)
        if self._before:
            tokens = replace(tokens, uncached=read.uncached + read.again)
        self._grant.settle(tokens, estimated=usage.estimated)
        return replace(usage, prompt_tokens=read.paid, cached_tokens=read.cached)

    def _report_prompt(self, upto: int) -> None:
        """Book the prompt as far as the server has processed it."""
        self._done = upto
        self._book(self._base.then(upto, cached=self._cached))

    def _book(self, read: ReadTokens) -> None:
        self._read = read
        self._verdict = self._grant.prompt_progress(
            uncached=read.uncached, cached=read.cached, again=read.again
        )

    def _expected(self) -> int:
        """Return how much of the prompt its server should have from before."""
        return self._request.cached_on(self._grant.dispatch.server_id)

    def _told_cached(self) -> int:
        return self._read.cached if self._base.paid else self._cached
