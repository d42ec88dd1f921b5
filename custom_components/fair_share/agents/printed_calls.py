"""Keeps tool calls that a model printed as text from being spoken.

Small models often write a call into their answer instead of making it. As the answer
is spoken while it is written, text is held back from the first character that could
begin such a call until it is clear what it is.
"""

from collections.abc import Collection
import json
import re

from .printed_shapes import (
    ARGUMENT_KEYS,
    NAME_KEYS,
    WRAPPER_KEYS,
    PrintedCall,
    call_in_python,
    call_in_tags,
    calls_in_json,
)

_TAG = (
    r"<[|\uff5c]?/?(?:(?:tool|function)[_\u2581]?calls?|tool_code|python_tag|function=)"
    r"|\[/?TOOL_CALLS?\b|```(?:tool_code|tool_calls?|function_calls?)\b"
)
_FENCE = r"```\w*\s*(?=[{\[])"
_JSON = r"(?:\[\s*)*\{\s*[\"']"
# What a piece may end with so that the next one completes a beginning.
_HALF_BEGUN = re.compile(
    r"(?:<[|\uff5c]?/?[\w\u2581]{0,14}|\[[/A-Z_]{0,10}|`{1,3}\w*\s*"
    r"|(?:\[\s*)*\{\s*|\[\s*)\Z"
)
_LAST_WORD = re.compile(r"(?:\[\s*)?\b\w[\w.]*\s*\Z")
_FIRST_KEY = re.compile(r"[\[{\s]*[\"'](\w+)[\"']\s*:")
_KEYS_OF_CALLS = frozenset(
    [*NAME_KEYS, *ARGUMENT_KEYS, *WRAPPER_KEYS, "service", "type", "id"]
)
_CALL_KEYS = re.compile(
    rf"[\"'](?:{'|'.join(NAME_KEYS)})[\"']\s*:.*"
    rf"[\"'](?:{'|'.join(ARGUMENT_KEYS)})[\"']\s*:"
    r"|[\"'](?:tool_calls?|function_call)[\"']\s*:",
    re.DOTALL,
)
_MOST_HELD = 4_000


class PrintedCalls:
    """Splits the text of one answer into what is to be spoken and what is a call.

    ``calls`` are the calls found. ``unreadable`` tells that there was something that
    is meant to be one but can't be read. Text after a call is not spoken: it was
    written before the call had any result.
    """

    def __init__(self, names: Collection[str]) -> None:
        """Know the names of the tools that were offered."""
        self.calls: list[PrintedCall] = []
        self.unreadable = False
        self._names = names
        self._held = ""
        # As models write them: without the provider, or with a namespace before.
        short = {name.rpartition("__")[2] for name in names} | {*names}
        self._spellings = short | {f"functions.{name}" for name in short}
        python = "|".join(re.escape(name) for name in sorted(self._spellings))
        in_python = rf"(?:\[\s*)?\b(?:{python})\s*\("
        self._sure = re.compile(rf"{_TAG}|{in_python}" if names else _TAG)
        self._begin = re.compile(rf"{self._sure.pattern}|{_FENCE}|{_JSON}")

    @property
    def found(self) -> bool:
        """Whether the model printed a call."""
        return bool(self.calls) or self.unreadable

    def feed(self, text: str) -> str:
        """Take a piece of the answer and return what can be spoken now."""
        self._held += text
        spoken = ""
        while begin := self._begin.search(self._held):
            spoken += self._release(begin.start())
            released = self._decide(begin.group())
            if released is None:
                return spoken
            spoken += self._release(released)
        return spoken + self._release(self._undecided())

    def finish(self) -> str:
        """Return what is left to be spoken at the end of the answer."""
        self._judge_unfinished()
        return self._release(len(self._held))

    def _release(self, end: int) -> str:
        """Take text from what is held and return it if it is to be spoken."""
        text, self._held = self._held[:end], self._held[end:]
        return "" if self.found else text

    def _undecided(self) -> int:
        """Return where an end begins that the next piece may turn into a call."""
        half = _HALF_BEGUN.search(self._held)
        start = half.start() if half else len(self._held)
        word = _LAST_WORD.search(self._held)
        if word and any(
            name.startswith(word.group().strip("[ ")) for name in self._spellings
        ):
            start = min(start, word.start())
        return start

    def _decide(self, begin: str) -> int | None:
        """Judge what is held; return how much of it, ``None`` to wait for more."""
        if len(self._held) > _MOST_HELD:
            self._judge_unfinished()
            return len(self._held)
        if begin.endswith("("):
            return self._decide_python()
        if "<function=" in self._held:
            return self._decide_tags()
        return self._decide_json(0 if re.match(_JSON, begin) else len(begin))

    def _decide_python(self) -> int | None:
        for bracket in re.finditer(r"\)", self._held):
            if call := call_in_python(self._held[: bracket.end()]):
                self.calls.append(call)
                return bracket.end()
        return None

    def _decide_tags(self) -> int | None:
        if call := call_in_tags(self._held):
            self.calls.append(call)
            return self._held.index("</function>")
        return None

    def _decide_json(self, after_begin: int) -> int | None:
        start = re.compile(r"[{\[](?!ARGS)").search(self._held, after_begin)
        if start is None:
            return None
        try:
            value, end = json.JSONDecoder(strict=False).raw_decode(
                self._held, start.start()
            )
        except ValueError:
            return self._decide_broken(start.start())
        calls = calls_in_json(value, self._names)
        if not calls and self._sure.match(self._held):
            # [TOOL_CALLS]HassTurnOn{"name": "lamp"}
            name = re.search(r"\w[\w.]*", self._held[after_begin : start.start()])
            calls = [PrintedCall(name.group(), value)] if name else []
            self.unreadable = not calls
        self.calls += calls
        return end

    def _decide_broken(self, start: int) -> int | None:
        """Judge what is no JSON: not complete yet, broken, or something else."""
        key = _FIRST_KEY.match(self._held, start)
        if key and key[1] not in _KEYS_OF_CALLS and not self._sure.match(self._held):
            return key.end()
        end = _closing(self._held, start)
        if end is not None:
            self._judge_unfinished()
        return end

    def _judge_unfinished(self) -> None:
        if not self.found:
            self.unreadable = bool(
                self._sure.match(self._held)
                or _CALL_KEYS.search(self._held)
                or any(f'"{name}"' in self._held for name in self._names)
            )


def _closing(text: str, start: int) -> int | None:
    """Return where the bracket that opens at ``start`` is closed, if it is."""
    depth = 0
    for token in re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\]]').finditer(text, start):
        depth += token.group() in "{["
        depth -= token.group() in "}]"
        if depth == 0:
            return token.end()
    return None
