"""OpenAI's chat completion chunks as typed deltas.

Takes the bytes of a streamed answer, gives deltas, and at the end one ``Usage`` and one
``Finish``. Pure: no I/O, no clock. What servers do differently is settled here:

* the usage may come first, last, in every chunk, or not at all;
* an answer is complete with a finish reason or with ``[DONE]``, cut with neither;
* the last text, or arguments, may ride in the chunk that finishes;
* an error object may arrive inside a stream that began with status 200;
* an answer that goes on past its limit is ended here.
"""

from collections.abc import Iterator, Mapping
import json
from typing import Any

from .base import (
    Delta,
    Finish,
    FinishReason,
    InterruptedAnswer,
    PromptProgress,
    ServerFaultError,
    StreamCutError,
)
from .errors import error_from_stream, error_in, error_of_event
from .open_answer import OpenAnswer
from .parts import text_and_thought
from .sse import ERROR, EventTooLargeError, SseEvent, SseParser
from .tool_calls import CallIndexer
from .usage import TokenMeter
from .values import whole

_DONE = "[DONE]"
_FINISHES = {
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
}
_BROKEN_FINISHES = {"abort", "error"}
_LEAST_TOLERANCE = 16
_TOLERANCE = 0.125
"""How far an answer may go past its limit: some servers do not send token by token."""


class ChatStream:
    """Reads one streamed answer."""

    def __init__(
        self, answer: OpenAnswer | None = None, *, max_output_tokens: int | None = None
    ) -> None:
        """``answer`` is what this run begins or goes on with."""
        self.done = False
        """Nothing more will come, or is wanted: the server said ``[DONE]``, or goes on
        past ``max_output_tokens``."""
        self.started = False
        """Output of the model has arrived."""
        self.news = 0
        """Number of chunks so far that brought the answer on. Comments, pings and
        chunks without output are no news: a server that hangs may go on sending
        them."""
        self._answer = answer or OpenAnswer()
        self._text = self._answer.text
        self._sse = SseParser()
        self._limit = max_output_tokens
        self._meter = TokenMeter(max_output_tokens)
        self._progressed: PromptProgress | None = None
        self._calls = CallIndexer()
        self._finish: FinishReason | None = None

    @property
    def finished(self) -> bool:
        """Whether the answer is complete; only its usage may be missing."""
        return self.done or self._finish is not None

    def feed(self, data: bytes) -> Iterator[Delta]:
        """Take the next bytes and give their deltas.

        Raises an ``EngineError`` for an error inside the stream, and
        ``InterruptedAnswer`` when the answer is to be left here, after all that came
        before was given.
        """
        try:
            events = self._sse.feed(data)
        except EventTooLargeError as err:
            raise ServerFaultError(str(err)) from err
        for event in events:
            if not self.done:
                yield from self._event(event)
                if self._answer.asked:
                    self._leave_after()

    def close(self) -> Iterator[Delta]:
        """End of the stream: give what is left, the ``Usage`` and the ``Finish``.

        Raises ``StreamCutError`` when the answer is not complete.
        """
        for event in self._sse.close():
            if not self.done:
                yield from self._event(event)
        if not self.finished:
            raise StreamCutError("the stream ended before the answer was complete")
        reason = self._finish or FinishReason.STOP
        if reason is FinishReason.STOP and self._calls.any:
            # Several servers say "stop" after tool calls.
            reason = FinishReason.TOOL_CALLS
        yield from self._text.close(complete=reason is not FinishReason.LENGTH)
        yield self._meter.usage()
        yield Finish(reason)

    def _event(self, event: SseEvent) -> Iterator[Delta]:
        data = event.data.strip()
        if data == _DONE:
            self.done = True
            return
        is_error = event.name == ERROR
        try:
            chunk = json.loads(data)
        except ValueError, RecursionError:
            if not is_error:
                self._skip(data)
                return
            chunk = data
        if error := error_of_event(chunk) if is_error else error_in(chunk):
            if not self.finished:
                raise error_from_stream(error)
        elif isinstance(chunk, Mapping):
            yield from self._chunk(chunk)

    def _skip(self, data: str) -> None:
        """Skip words that only keep the connection alive; never skip a torn chunk."""
        if data.startswith("{") and not self.finished:
            raise StreamCutError("the stream holds a chunk that is not whole")

    def _chunk(self, chunk: Mapping[str, Any]) -> Iterator[Delta]:
        told = self._meter.told
        self._meter.chunk(chunk)
        self.news += self._meter.told > told
        progress = chunk.get("prompt_progress")
        if isinstance(progress, Mapping):
            yield self._progress(progress)
        choice = _first_choice(chunk.get("choices"))
        if choice is None:
            return
        # Some servers send messages where deltas belong; completions have neither.
        delta = choice.get("delta", choice.get("message"))
        if delta is None:
            delta = {"content": choice.get("text")}
        if isinstance(delta, Mapping):
            if self._answer.asked and not choice.get("finish_reason"):
                self._leave_before(delta)
            yield from self._delta(delta)
        self._note_finish(choice.get("finish_reason"))
        self._note_limit()
        if self._text.stopped and not self.finished:
            self._finish, self.done = FinishReason.STOP, True

    def _progress(self, progress: Mapping[str, Any]) -> PromptProgress:
        total, cached, processed = (
            whole(progress.get(name)) or 0 for name in ("total", "cache", "processed")
        )
        cached = min(cached, total)
        progressed = PromptProgress(total, cached, min(max(processed, cached), total))
        self.news += progressed != self._progressed
        self._progressed = progressed
        self._meter.progress(total, cached)
        return progressed

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[Delta]:
        text, thought = text_and_thought(delta)
        if thought:
            self._note_output()
            yield from self._text.add_thought(thought, self._meter.take())
        if text:
            self._note_output()
            yield from self._text.add(text, self._meter.take())
        calls = delta.get("tool_calls")
        for raw in calls if isinstance(calls, list) else ():
            if isinstance(raw, Mapping):
                self._note_output()
                self._text.called = True
                yield from self._calls.fragment(raw, self._meter.take())

    def _leave_before(self, delta: Mapping[str, Any]) -> None:
        text, thought = text_and_thought(delta)
        if (piece := thought or text) and self._answer.leaves_before(piece):
            raise InterruptedAnswer

    def _leave_after(self) -> None:
        if not self.finished and self._answer.leaves_now():
            raise InterruptedAnswer

    def _note_output(self) -> None:
        self.started = True
        self.news += 1

    def _note_limit(self) -> None:
        if self._limit is None or self.finished:
            return
        tolerance = max(_LEAST_TOLERANCE, int(self._limit * _TOLERANCE))
        if self._meter.output > self._limit + tolerance:
            self._finish, self.done = FinishReason.LENGTH, True

    def _note_finish(self, reason: object) -> None:
        if not isinstance(reason, str) or not reason:
            return
        self.news += 1
        if reason in _BROKEN_FINISHES:
            raise StreamCutError(f"the server ended the answer with '{reason}'")
        self._finish = _FINISHES.get(reason, FinishReason.STOP)


def _first_choice(choices: object) -> Mapping[str, Any] | None:
    """Return the choice with index 0; others were not asked for."""
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, Mapping) and (choice.get("index") or 0) == 0:
            return choice
    return None
