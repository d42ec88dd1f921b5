"""Takes ``<think>`` blocks out of an answer's text.

Models that reason write ``<think>``...``</think>`` into their text when the server does
not separate it. What is inside is ``Thinking`` and must never be spoken.

Some chat templates open the block in the prompt, so that an answer starts with
reasoning and only ``</think>`` is seen. Holding back every answer until it is known
not to contain that tag would cost the first words of all voice answers, so nothing is
held back by default: what came before a lone ``</think>`` has then been given out as
content already, and is taken back with ``WasThinking``. The filter tells it, too
(``opens_unseen``): the engine remembers it for this server and has the filter of the
next answers start inside a block (``starts_inside``), as it does from the beginning
where the server shows its prompt (``opens_block``). Such an assumed block that never
closes in a finished answer was none: its text is given out as content at the end, late
but not lost, and the engine forgets the assumption.
"""

import re

from .base import Content, Thinking, WasThinking

type Piece = Content | Thinking | WasThinking

# A tag's attributes longer than this are no tag but text with a "<" in it.
_LONGEST_TAG = 200

_NAMES = ("thinking", "thought", "think", "reasoning", "seed:think")
_NAME = f"(?:{'|'.join(_NAMES)})"
_OPEN = re.compile(rf"<{_NAME}(?:\s[^<>]*)?>", re.IGNORECASE)
_CLOSE = re.compile(rf"</{_NAME}\s*>", re.IGNORECASE)
_ANY = re.compile(f"{_OPEN.pattern}|{_CLOSE.pattern}", re.IGNORECASE)
_STARTED_TAG = re.compile(rf"</?{_NAME}(?:\s[^<>]*)?", re.IGNORECASE)
_TAG_STARTS = tuple(f"<{slash}{name}" for slash in ("", "/") for name in _NAMES)


class ThinkFilter:
    """Splits the text of one answer, piece by piece, into content and thinking."""

    def __init__(self, *, starts_inside: bool = False) -> None:
        """``starts_inside``: assume that the prompt opened a block."""
        self.opens_unseen = False
        """A ``</think>`` closed a block whose opening was not seen."""
        self.closed_nothing = False
        """The assumed block of ``starts_inside`` was none."""
        self._assumed = starts_inside
        self._inside = starts_inside
        self._assumed_text = ""
        self.held = ""
        """What could be the beginning of a tag."""
        self._tokens = 0
        self._trim = False
        self._gave_content = False

    @property
    def inside(self) -> bool:
        """Whether the text is inside a block, as far as is known."""
        return self._inside

    def feed(self, text: str, tokens: int) -> list[Piece]:
        """Take the next piece of text; ``tokens`` it stands for are never lost.

        What could be the beginning of a tag is held until more is known.
        """
        self._tokens += tokens
        text = self.held + text
        pieces: list[Piece] = []
        position = 0
        for tag in _ANY.finditer(text):
            self._emit(pieces, text[position : tag.start()])
            self._pass_tag(pieces, closes=tag.group().startswith("</"))
            position = tag.end()
        rest = text[position:]
        keep = _possible_tag(rest)
        self.held = rest[keep:]
        self._emit(pieces, rest[:keep])
        self._gave_content |= any(isinstance(piece, Content) for piece in pieces)
        return pieces

    def separated_by_server(self) -> None:
        """Drop the assumption: this server sends reasoning in a field of its own."""
        if self._assumed:
            self._assumed = self._inside = False

    def close(self, *, complete: bool) -> list[Piece]:
        """End the answer; ``complete`` unless it was cut off at its limit."""
        pieces: list[Piece] = []
        held, self.held = self.held, ""
        if held and not _STARTED_TAG.fullmatch(held):
            self._emit(pieces, held)
        if self._assumed and complete:
            self._release_assumed(pieces)
        if self._tokens:
            pieces.append(Thinking("", self.take_tokens()))
        return pieces

    def _pass_tag(self, pieces: list[Piece], *, closes: bool) -> None:
        if closes and (self._assumed or not self._inside):
            self.opens_unseen = True
            self._take_back(pieces)
        elif self._assumed and self._assumed_text.strip():
            self._release_assumed(pieces)
        self._assumed = False
        self._inside = not closes
        self._trim = closes

    def _take_back(self, pieces: list[Piece]) -> None:
        """Make thinking of what was taken for content."""
        for number, piece in enumerate(pieces):
            if isinstance(piece, Content):
                pieces[number] = Thinking(piece.text, piece.tokens)
        if self._gave_content:
            self._gave_content = False
            pieces.append(WasThinking())

    def _release_assumed(self, pieces: list[Piece]) -> None:
        self._assumed = self._inside = False
        self.closed_nothing = True
        if self._assumed_text:
            pieces.append(Content(self._assumed_text, self.take_tokens()))

    def _emit(self, pieces: list[Piece], text: str) -> None:
        if self._inside:
            if text:
                pieces.append(Thinking(text, self.take_tokens()))
            if self._assumed:
                self._assumed_text += text
            return
        if self._trim:
            # The blank lines between a block and the answer are no answer.
            text = text.lstrip()
        if text:
            self._trim = False
            pieces.append(Content(text, self.take_tokens()))

    def take_tokens(self) -> int:
        """Return the tokens that no piece has told yet, and take them as told."""
        tokens, self._tokens = self._tokens, 0
        return tokens


def opens_block(prompt: str) -> bool:
    """Tell whether an answer to this prompt begins inside a block."""
    tags = [*_ANY.finditer(prompt)]
    return bool(
        tags
        and not tags[-1].group().startswith("</")
        and not prompt[tags[-1].end() :].strip()
    )


def closes_block(prompt: str) -> bool:
    """Tell whether a block ends in a text."""
    return _CLOSE.search(prompt) is not None


def _possible_tag(text: str) -> int:
    """Return where a tag that is not complete yet may begin, else the length."""
    start = text.rfind("<")
    if start < 0 or len(text) - start > _LONGEST_TAG:
        return len(text)
    tail = text[start:].lower()
    if _STARTED_TAG.fullmatch(tail) or any(t.startswith(tail) for t in _TAG_STARTS):
        return start
    return len(text)
