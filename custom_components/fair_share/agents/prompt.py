"""The messages of a request: first what never changes, last what always does.

Servers keep the beginning of a prompt in their cache. Home Assistant writes the time
and the area of the satellite into the system prompt, in front of the tools and of
everything that was said. Here such lines go along with the message of the user they
belong to, as a note.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import datetime
import json
import re
from typing import Any

from homeassistant.components.conversation import (
    AssistantContent,
    Attachment,
    Content,
    SystemContent,
    ToolResultContent,
    UserContent,
)
from homeassistant.helpers.json import json_dumps

from ..engines.surrogates import well_formed, well_formed_texts

type Message = dict[str, Any]
type Attached = Mapping[Attachment, Mapping[str, Any]]

# What Home Assistant adds to a system prompt depending on time and device. A wording
# that is not recognised stays where it is: slower, not wrong.
_TIME = re.compile(r"Current time is [\d:]+\. Today's date is [\d-]+\.")
_VOLATILE = re.compile(
    r"""^(?:
        Current\ time\ is\ [\d:]+\.\ Today's\ date\ is\ [\d-]+\.
      | You\ are\ in\ area\ .+\ should\ target\ this\ area\.
      | When\ a\ user\ asks\ to\ turn\ on\ all\ devices\ of\ a\ specific\ type,
        \ ask\ the\ user\ to\ specify\ an\ area,.+
      | This\ device\ is\ not\ able\ to\ start\ timers\.
    )[ ]*\n?""",
    re.MULTILINE | re.VERBOSE,
)
_INTERRUPTED = json.dumps(
    {"data": {"error": "The call was interrupted."}, "error": True}
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation as the server sees it.

    Each turn begins with a message of the user and holds everything up to the next.
    """

    system: tuple[Message, ...]
    turns: tuple[tuple[Message, ...], ...]

    def messages(self, first_turn: int = 0) -> list[Message]:
        """Return all messages but those of the turns before ``first_turn``."""
        kept = (message for turn in self.turns[first_turn:] for message in turn)
        return [*self.system, *kept]


def build(
    contents: Sequence[Content],
    notes: Mapping[int, str],
    attached: Attached | None = None,
) -> Prompt:
    """Return the prompt for what a chat log holds, of which the first is the system's.

    ``notes`` has the note for each message of the user, by its number in the log.
    Whoever wrote a text, it can be encoded: halves of characters are replaced.
    """
    system, _ = split_system(_system_text(contents))
    turns = _turns(contents, notes, attached or {})
    return Prompt(
        ({"role": "system", "content": well_formed(system)},) if system else (),
        tuple(tuple(map(well_formed_texts, turn)) for turn in turns),
    )


def note_question(
    contents: Sequence[Content], notes: MutableMapping[int, str], now: datetime
) -> None:
    """Note what belongs to the newest message of the user; once for each turn.

    Home Assistant may have written the system prompt with an earlier turn: the time
    in the note is ``now``.
    """
    _, volatile = split_system(_system_text(contents))
    number = max(i for i, c in enumerate(contents) if isinstance(c, UserContent))
    notes[number] = _TIME.sub(
        f"Current time is {now:%H:%M:%S}. Today's date is {now:%Y-%m-%d}.", volatile
    )


def split_system(text: str) -> tuple[str, str]:
    """Return the lines of a system prompt that stay, and those that change."""
    volatile = " ".join(match.group().strip() for match in _VOLATILE.finditer(text))
    return _VOLATILE.sub("", text).strip(), volatile


def _system_text(contents: Sequence[Content]) -> str:
    first = contents[0]
    return first.content if isinstance(first, SystemContent) else ""


def _turns(
    contents: Sequence[Content], notes: Mapping[int, str], attached: Attached
) -> Iterator[tuple[Message, ...]]:
    turn = _Turn()
    opening = ""
    for number, content in enumerate(contents):
        match content:
            case UserContent():
                if turn.answered:
                    yield turn.finished()
                    turn = _Turn()
                turn.add_user(content, _notes(opening, notes.get(number)), attached)
                opening = ""
            case AssistantContent() if not turn.messages:
                # The house spoke first. Templates want the user to.
                opening = _notes(opening, f"You said: {content.content or ''}")
            case AssistantContent():
                turn.add_assistant(content)
            case ToolResultContent():
                turn.add_result(content)
    if turn.messages:
        turn.close_calls()
        yield tuple(turn.messages)


def _notes(*notes: str | None) -> str:
    return " ".join(note for note in notes if note)


class _Turn:
    """Puts one turn together: roles alternate, every call has a result."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._open_calls: list[str] = []

    @property
    def answered(self) -> bool:
        return bool(self.messages) and self.messages[-1]["role"] != "user"

    def finished(self) -> tuple[Message, ...]:
        """Return the messages; the last one is the assistant's."""
        self.close_calls()
        if self.messages[-1]["role"] == "tool":
            self.messages.append({"role": "assistant", "content": ""})
        return tuple(self.messages)

    def add_user(self, content: UserContent, note: str, attached: Attached) -> None:
        text = f"({note})\n\n{content.content}" if note else content.content
        if self.messages:
            # Nobody answered the message before.
            self.messages[-1]["content"] = _joined(self.messages[-1]["content"], text)
        else:
            self.messages.append({"role": "user", "content": text})
        media = [attached[a] for a in content.attachments or () if a in attached]
        if media:
            self.messages[-1]["content"] = [
                *_parts(self.messages[-1]["content"]),
                *media,
            ]

    def add_assistant(self, content: AssistantContent) -> None:
        self.close_calls()
        text = content.content or ""
        last = self.messages[-1]
        if last["role"] == "assistant":
            last["content"] = _joined(last["content"], text)
        elif text or content.tool_calls:
            last = {"role": "assistant", "content": text}
            self.messages.append(last)
        if content.tool_calls:
            last["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": call.tool_name,
                        "arguments": json.dumps(call.tool_args, ensure_ascii=False),
                    },
                }
                for call in content.tool_calls
            ]
            self._open_calls = [call.id for call in content.tool_calls]

    def add_result(self, content: ToolResultContent) -> None:
        if content.tool_call_id in self._open_calls:
            self._open_calls.remove(content.tool_call_id)
            result = {"data": content.result.data, "error": content.result.error}
            self._add_tool(content.tool_call_id, json_dumps(well_formed_texts(result)))

    def close_calls(self) -> None:
        """Servers refuse a call without a result."""
        for call_id in self._open_calls:
            self._add_tool(call_id, _INTERRUPTED)
        self._open_calls = []

    def _add_tool(self, call_id: str, text: str) -> None:
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": text})


def _joined(first: Any, text: str) -> Any:  # noqa: ANN401 - text or a list of parts
    if isinstance(first, str):
        return "\n\n".join(part for part in (first, text) if part)
    return [*first, *_parts(text)]


def _parts(content: Any) -> Iterable[Mapping[str, Any]]:  # noqa: ANN401 - text or parts
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
