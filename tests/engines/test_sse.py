"""The parser of server-sent events."""

from hypothesis import given, strategies as st
import pytest

from custom_components.fair_share.engines.sse import (
    EventTooLargeError,
    SseEvent,
    SseParser,
)


def events_of(*pieces: bytes) -> list[SseEvent]:
    parser = SseParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.close()


def data_of(*pieces: bytes) -> list[str]:
    return [event.data for event in events_of(*pieces)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(b"data: a\n\ndata: b\n\n", ["a", "b"], id="two events"),
        pytest.param(b"data:a\n\n", ["a"], id="no space after the colon"),
        pytest.param(b"data:  a\n\n", [" a"], id="only one space belongs to the field"),
        pytest.param(b"data: a\ndata: b\n\n", ["a\nb"], id="data over two lines"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"], id="CRLF"),
        pytest.param(b"data: a\r\rdata: b\r\r", ["a", "b"], id="CR"),
        pytest.param(b"data: a\r\n\ndata: b\n\r\n", ["a", "b"], id="mixed line ends"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", ["a"], id="byte order mark"),
        pytest.param(b":\n\n: ping\n\ndata: a\n\n", ["a"], id="comments are no events"),
        pytest.param(b"data: a\n: ping\ndata: b\n\n", ["a\nb"], id="comment inside"),
        pytest.param(
            b"id: 1\nretry: 5\n\ndata: a\n\n", ["a"], id="fields without data"
        ),
        pytest.param(b"data\n\n", [""], id="a field name alone has an empty value"),
        pytest.param(b"\n\n\ndata: a\n\n\n\n", ["a"], id="blank lines between"),
        pytest.param(b"data: a\n\ndata: b", ["a", "b"], id="end without a blank line"),
        pytest.param(b"data: a\n\n: pin", ["a"], id="end inside a comment"),
        pytest.param(b"data: \xff\xc3\n\n", ["��"], id="not UTF-8"),
        pytest.param(b"", [], id="nothing at all"),
    ],
)
def test_events_follow_the_rules(stream: bytes, expected: list[str]) -> None:
    assert data_of(stream) == expected


def test_a_named_event_keeps_its_name_for_itself_only() -> None:
    events = events_of(b"event: ping\ndata: {}\n\ndata: a\n\n")
    assert events == [SseEvent("{}", "ping"), SseEvent("a", "message")]


@pytest.mark.parametrize(
    "stream",
    [b'error: {"code": 500}\n\n', b'error: {"code": 500}', b'error:{"code": 500}\r\n'],
)
def test_a_line_that_tells_an_error_is_an_event(stream: bytes) -> None:
    """See llama.cpp #14566: older builds end a stream with such a line."""
    assert events_of(stream) == [SseEvent('{"code": 500}', "error")]


STREAM = (
    "\ufeff: hello\r\n\r\nevent: ping\r\ndata: {}\r\n\r\n"
    'data: {"t":"õhtu 한국 🙂"}\r\n\r\n:\n\ndata: a\ndata: b\r\rdata: [DONE]\n\n'
).encode()


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_a_cut_at_any_byte_changes_nothing(cut: int) -> None:
    assert events_of(STREAM[:cut], STREAM[cut:]) == events_of(STREAM)


def test_one_byte_at_a_time_changes_nothing() -> None:
    pieces = [STREAM[number : number + 1] for number in range(len(STREAM))]
    assert events_of(*pieces) == events_of(STREAM)


LINES = st.lists(
    st.one_of(
        st.binary(max_size=12),
        st.text(max_size=8).map(lambda text: b"data: " + text.encode()),
        st.sampled_from(
            [b"", b":", b": ping", b"event: ping", b"data", b"\xef\xbb\xbf"]
        ),
    ),
    max_size=12,
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """Return a stream of bytes and the same in pieces."""
    stream = b"".join(line + draw(ENDS) for line in draw(LINES))
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    edges = zip([0, *cuts], [*cuts, len(stream)], strict=True)
    return stream, [stream[start:end] for start, end in edges]


@given(cut_streams())
def test_events_do_not_depend_on_how_the_bytes_are_cut(
    cut_stream: tuple[bytes, list[bytes]],
) -> None:
    stream, pieces = cut_stream
    assert events_of(*pieces) == events_of(stream)


@given(st.lists(st.text().filter(lambda t: not set(t) & {"\r", "\n"}), min_size=1))
def test_whatever_text_goes_in_comes_out(texts: list[str]) -> None:
    stream = "".join(f"data: {text}\n\n" for text in texts)
    assert data_of(stream.encode()) == texts


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"data: " + b"x" * 200], id="one long line"),
        pytest.param([b"data: xxxxxxxx\n"] * 20, id="many lines of one event"),
        pytest.param([b"x"] * 200, id="a line that never ends"),
    ],
)
def test_an_event_that_never_ends_is_refused(pieces: list[bytes]) -> None:
    parser = SseParser(max_event_bytes=100)
    with pytest.raises(EventTooLargeError, match="longer than 100 bytes"):
        [parser.feed(piece) for piece in pieces]


def test_many_events_together_may_be_larger_than_one() -> None:
    parser = SseParser(max_event_bytes=100)
    assert len(parser.feed(b"data: " + b"x" * 50 + b"\n\n")) == 1
    assert len(parser.feed(b"data: " + b"x" * 50 + b"\n\n")) == 1
