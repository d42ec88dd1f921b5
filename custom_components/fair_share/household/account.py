"""What a running answer costs, booked delta by delta."""

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

_STOPS = {
    Verdict.STOP_QUOTA: RejectReason.QUOTA,
    Verdict.STOP_CLOSED: RejectReason.CLOSED,
}


class RunningAccount:
    """Reports every delta of one answer to the queue.

    A server that says nothing of its progress may have read the whole prompt by the
    time anybody can know.
    """

    def __init__(
        self, grant: Grant, request: Request, capabilities: Capabilities | None
    ) -> None:
        """Account for ``request``, which runs by ``grant``."""
        self._grant = grant
        self._total = request.prompt_tokens
        self._cached = self._done = request.cached_tokens
        reports = capabilities is not None and capabilities.reports_progress
        self._batch = _BATCH_TOKENS if reports else request.prompt_tokens
        self._answering = False
        self._verdict = Verdict.CONTINUE

    def note(self, delta: Delta) -> None:
        """Book a delta."""
        match delta:
            case Content() | Thinking() | ToolCallDelta():
                self._answering = True
                if delta.tokens:
                    self._verdict = self._grant.output(delta.tokens)
            case PromptProgress():
                self._total, self._cached = delta.total, delta.cached
                self._done = delta.processed
                self._report_prompt()
            case Usage():
                self._settle(delta)
            case Finish():
                self._grant.finish()

    def check(self) -> None:
        """Raise ``Rejected`` if the answer has to stop here."""
        if self._verdict is not Verdict.CONTINUE:
            raise Rejected(_STOPS[self._verdict])

    def left(self) -> None:
        """Note that the client left; the batch that is being read is still finished."""
        if not self._answering:
            self._done = min(self._total, self._done + self._batch)
            self._report_prompt()

    def _settle(self, usage: Usage) -> None:
        total, cached = usage.prompt_tokens, usage.cached_tokens
        if not total:
            # The server counts nothing. It has read what was measured before.
            total, cached = self._total, self._cached
        tokens = TokenCount(total - cached, cached, usage.output_tokens)
        self._grant.settle(tokens, estimated=usage.estimated)

    def _report_prompt(self) -> None:
        uncached = self._done - self._cached
        self._grant.prompt_progress(uncached=uncached, cached=self._cached)
