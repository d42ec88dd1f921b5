"""Server-sent events out of a stream of bytes, however the bytes are cut.

Follows the WHATWG rules for parsing an event stream, with three differences that fit
inference servers: only ``data`` and ``event`` are kept; a line ``error: ...``, with
which older builds of llama.cpp end a stream, is an event named ``error``; and an event
that the end of the stream leaves without its blank line still counts, because some
servers end with the line that says what went wrong. Pure: no I/O, no clock.
"""

from dataclasses import dataclass
import re

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Longest event that is accepted; a whole tool call or a picture fits many times."""

ERROR = "error"
"""The name of an event that tells what went wrong."""

_FIELDS = {b"data", b"event", b"error"}
_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"[\r\n]")


class EventTooLargeError(ValueError):
    """An event is longer than allowed; nothing more can be read from this stream."""


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event that has data; ``name`` is ``message`` unless the server named it."""

    data: str
    name: str = "message"


class SseParser:
    """Turns pieces of bytes into events.

    The events do not depend on where the bytes are cut: lines are decoded when they
    are complete, so neither a character nor a CRLF can be torn. Bytes that are not
    UTF-8 become U+FFFD, as the rules demand.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        """Accept events of up to ``max_event_bytes`` bytes."""
        self._max_event_bytes = max_event_bytes
        self._line = bytearray()
        self._data: list[str] = []
        self._name = ""
        self._event_bytes = 0
        self._first_line = True
        self._after_cr = False

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take the next bytes and return the events that they complete.

        Raises ``EventTooLargeError``.
        """
        events: list[SseEvent] = []
        start = 0
        if self._after_cr and data:
            # The line ended with the CR already; an LF right after it belongs to it.
            start = int(data.startswith(b"\n"))
            self._after_cr = False
        while end := _LINE_END.search(data, start):
            self._append(data[start : end.start()])
            self._end_line(events)
            start = end.end()
            if end.group() == b"\r":
                if start == len(data):
                    self._after_cr = True
                elif data.startswith(b"\n", start):
                    start += 1
        self._append(data[start:])
        return events

    def close(self) -> list[SseEvent]:
        """Return the event that the end of the stream left unfinished, if any."""
        events: list[SseEvent] = []
        if self._line:
            self._end_line(events)
        self._dispatch(events)
        return events

    def _append(self, piece: bytes) -> None:
        self._line += piece
        if self._event_bytes + len(self._line) > self._max_event_bytes:
            raise EventTooLargeError(
                f"an event of the stream is longer than {self._max_event_bytes} bytes"
            )

    def _end_line(self, events: list[SseEvent]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(events)
            return
        name, _, value = line.partition(b":")
        if name not in _FIELDS:
            return
        self._event_bytes += len(line)
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if name != b"event":
            self._data.append(text)
        if name != b"data":
            self._name = text if name == b"event" else ERROR

    def _dispatch(self, events: list[SseEvent]) -> None:
        if self._data:
            events.append(SseEvent("\n".join(self._data), self._name or "message"))
        self._data = []
        self._name = ""
        self._event_bytes = 0
