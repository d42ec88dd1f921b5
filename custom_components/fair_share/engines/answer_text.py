"""The text of one answer, across all the runs that it takes."""

from collections.abc import Iterator, Sequence

from .base import Content, Thinking
from .stops import StopFilter
from .surrogates import SurrogatePairs
from .think import Piece, ThinkFilter


class AnswerText:
    """Turns the text that a server sends into deltas, and keeps it.

    An interrupted answer goes on with the same object, so that what was held back, a
    block of reasoning or a stop string that the interruption cut in two is seen whole.
    """

    def __init__(
        self, *, starts_inside_think: bool = False, stops: Sequence[str] = ()
    ) -> None:
        """See ``ThinkFilter`` and ``StopFilter``."""
        self.think = ThinkFilter(starts_inside=starts_inside_think)
        self.content = ""
        self.thought = ""
        self.separated = False
        """The server sends reasoning in a field of its own."""
        self.called = False
        """A tool call has begun."""
        self._blank = True
        self._pairs = SurrogatePairs()
        self._thought_pairs = SurrogatePairs()
        self._stops = StopFilter(stops)
        self._thought_stops = StopFilter(stops)

    @property
    def received(self) -> str:
        """All of the answer that has come, reasoning aside; also what is held back."""
        return self.content + self.think.held + self._stops.held

    @property
    def blank(self) -> bool:
        """Whether nothing but white space has come, reasoning aside."""
        return self._blank and not (self.think.held + self._stops.held).strip()

    @property
    def reasoned(self) -> str:
        """All reasoning that has come."""
        return self.thought + self._thought_stops.held

    @property
    def stopped(self) -> bool:
        """Whether a stop string has ended the answer."""
        return self._stops.stopped or self._thought_stops.stopped

    def add(self, text: str, tokens: int) -> Sequence[Piece]:
        """Take the next piece of text; ``tokens`` it stands for are never lost."""
        shown = self._stops.feed(self._pairs.join(text))
        return self._keep(self.think.feed(shown, tokens))

    def add_thought(self, text: str, tokens: int) -> Sequence[Piece]:
        """Take the next piece of reasoning that the server sent as such."""
        self.separated = True
        self.think.separated_by_server()
        shown = self._thought_stops.feed(self._thought_pairs.join(text))
        return self._keep([Thinking(shown, tokens)])

    def cut(self) -> int:
        """End a run in the middle; return the tokens that were not told yet.

        Half a character is dropped: the next run begins before it.
        """
        self._pairs, self._thought_pairs = SurrogatePairs(), SurrogatePairs()
        return self.think.take_tokens()

    def close(self, *, complete: bool) -> Iterator[Piece]:
        """End the answer; ``complete`` unless it was cut off at its limit."""
        if rest := self._thought_stops.close():
            yield from self._keep([Thinking(rest, 0)])
        yield from self._keep(self.think.feed(self._stops.close(), 0))
        yield from self._keep(self.think.close(complete=complete))

    def _keep(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        for piece in pieces:
            if isinstance(piece, Content):
                self.content += piece.text
                self._blank = self._blank and not piece.text.strip()
            elif isinstance(piece, Thinking):
                self.thought += piece.text
            else:
                self.thought, self.content = self.content + self.thought, ""
                self._blank = True
        return pieces
