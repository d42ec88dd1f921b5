"""An answer that may be interrupted, and go on in another run.

Safe places to leave are between two chunks, where everything that came has been given
out or is held in ``AnswerText``. Preferred is the end of a word: what a model goes on
with after half a word, that it would have written in one piece, may be another word. So
whoever is asked to leave reads on for a moment until a word ends.
"""

import asyncio
from math import inf

from .answer_text import AnswerText
from .base import Resume, ResumeWay

_WORD_LIMIT_S = 0.25
"""For so long the end of a word is waited for."""


class OpenAnswer:
    """What there is of an answer, and whether it is to be left.

    Hand the same object to ``Engine.stream`` again to go on. The engine keeps
    ``resume``, what its server can do, and ``text`` up to date.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.text = AnswerText()
        self.resume: Resume | None = None
        self.plain = True
        """Whether it answers text alone, and may call no tools."""
        self.asked = False
        """Whether it is to be left."""
        self._asked_s = 0.0
        self._read: asyncio.Timeout | None = None

    @property
    def begun(self) -> bool:
        """Whether anything of it has come."""
        return bool(self.text.received or self.text.reasoned)

    def begin(self, text: AnswerText) -> None:
        """Begin with the filters that this server needs."""
        self.text = text

    def interrupt(self) -> None:
        """Ask the engine to leave the answer at the next good place."""
        now = asyncio.get_running_loop().time()
        if not self.asked:
            self.asked, self._asked_s = True, now
        if self._read is not None and not self._read.expired():
            limit_s = self.patience_s(inf)
            ends = self._read.when()
            self._read.reschedule(min(now + limit_s, inf if ends is None else ends))

    def stay(self) -> None:
        """Do not leave after all."""
        self.asked = False

    def can_go_on(self) -> bool:
        """Whether the server can go on from here after an interruption."""
        return self._can_go_on(self.resume)

    def can_go_on_at(self, resume: Resume | None) -> bool:
        """Whether a server that can do this can go on with just what there is."""
        return self._can_go_on(resume) and not self._would_trim(resume)

    def _can_go_on(self, resume: Resume | None) -> bool:
        text = self.text
        if resume is None or text.called or text.think.inside or text.think.held:
            return False
        if resume.way is ResumeWay.TEMPLATE and not self.plain:
            # A raw prompt shows no pictures, and calls would come as text.
            return False
        if text.separated and not (
            resume.reasoning or (resume.after_reasoning and not text.blank)
        ):
            return False
        if not text.blank:
            return True
        # White space alone can't be continued everywhere, and reasoning only where the
        # server knows it as such. Where nothing has come the answer begins anew.
        return not text.received and (text.separated or not text.thought)

    def leaves_before(self, text: str) -> bool:
        """Whether to leave before this piece, because no word goes on with it."""
        return (
            self.asked
            and not (self._in_word() and text[0].isalnum())
            and self._can_be_cut()
        )

    def leaves_now(self) -> bool:
        """Whether to leave after what has come."""
        if not (self.asked and self._can_be_cut()):
            return False
        return not self._in_word() or self._waited_long()

    def patience_s(self, limit_s: float) -> float:
        """Return for how long the next piece may be waited for, at most ``limit_s``."""
        if not (self.asked and self._can_be_cut()):
            return limit_s
        if not self._in_word():
            return 0.0
        now = asyncio.get_running_loop().time()
        return max(0.0, min(limit_s, self._asked_s + _WORD_LIMIT_S - now))

    def reads(self, read: asyncio.Timeout | None) -> None:
        """Note what waits for the next piece; an interruption cuts it short."""
        self._read = read

    def left(self) -> int:
        """Note the end of a run in the middle; return the tokens not told yet."""
        self.asked = False
        return self.text.cut()

    def _can_be_cut(self) -> bool:
        """Whether the text may end just here.

        White space at its end that the server would drop would be written once more.
        """
        return self.can_go_on_at(self.resume)

    def _would_trim(self, resume: Resume | None) -> bool:
        trims = resume is not None and resume.trims
        return trims and self.text.received[-1:].isspace()

    def _in_word(self) -> bool:
        return (self.text.received or self.text.reasoned)[-1:].isalnum()

    def _waited_long(self) -> bool:
        now = asyncio.get_running_loop().time()
        return now >= self._asked_s + _WORD_LIMIT_S
