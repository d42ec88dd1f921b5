"""What a turn of another integration's agent has cost.

Home Assistant's agents for language models put the server's count of every answer into
the trace of the conversation. What is not told is estimated from the chat log.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from homeassistant.components.conversation import AssistantContent, ChatLog, Content

from ..engines.base import GenerationRequest
from ..household.estimate import estimate_tokens
from .prompt import build
from .tools import Toolbox

_STATS, _TRACE = "stats", "async_trace"
_INPUT, _CACHED, _OUTPUT = "input_tokens", "cached_input_tokens", "output_tokens"


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens of one turn; ``cached`` are part of the ``prompt``."""

    prompt: int = 0
    cached: int = 0
    output: int = 0
    estimated: bool = False

    def __add__(self, other: Cost) -> Cost:
        """Return the cost of both."""
        return Cost(
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.output + other.output,
            self.estimated or other.estimated,
        )

    @classmethod
    def told(cls, stats: object) -> Self | None:
        """Return what an agent says of one answer, ``None`` if it says nothing."""
        if not isinstance(stats, Mapping):
            return None
        numbers = [stats.get(name) for name in (_INPUT, _CACHED, _OUTPUT)]
        prompt, cached, output = (
            max(number, 0) if isinstance(number, int) else 0 for number in numbers
        )
        if not prompt and not output:
            return None
        # Most count cached tokens as part of the prompt. Who has more of them does not.
        return cls(prompt + cached if cached > prompt else prompt, cached, output)


class TurnCost:
    """Adds up what one turn of an agent costs, while it goes on.

    Not what another agent costs that is asked in its course: that one has its own.
    """

    def __init__(self, chat_log: ChatLog) -> None:
        """Begin with the question, which is the latest in the chat log."""
        self._chat_log = chat_log
        self._agent_id = ""
        self._begin = len(chat_log.content)
        self._told: list[Cost] = []
        self._writing = ""

    def expected_prompt(self) -> int:
        """Return about how long the first prompt will be, in tokens."""
        return self._prompt_tokens(self._begin)

    @contextmanager
    def watch(self, agent_id: str) -> Iterator[None]:
        """Listen to what the agent tells, in the trace and of its answer."""
        self._agent_id = agent_id
        # Not the trace itself: it can't be read without a copy of all that is in it,
        # tools and what they hold included.
        methods = vars(self._chat_log)
        replaced = methods.get(_TRACE)
        listener = self._chat_log.delta_listener

        def note_trace(details: dict[str, Any]) -> None:
            if cost := Cost.told(details.get(_STATS)):
                self._told.append(cost)
                self._writing = ""
            ChatLog.async_trace(self._chat_log, details)

        def note_delta(chat_log: ChatLog, delta: dict[str, Any]) -> None:
            self._note_delta(delta)
            if listener:
                listener(chat_log, delta)

        methods[_TRACE] = note_trace
        self._chat_log.delta_listener = note_delta
        try:
            yield
        finally:
            if replaced is None:
                del methods[_TRACE]
            else:
                methods[_TRACE] = replaced
            self._chat_log.delta_listener = listener

    def in_all(self, answer: str) -> Cost:
        """Return what the turn has cost that ended with this answer.

        That alone is known where the agent leaves nothing in the chat log.
        """
        if self._told or any(self._answers()):
            return self._finished()
        prompt = self.expected_prompt()
        return Cost(prompt, 0, _text_tokens(answer), estimated=True)

    def broken_off(self) -> Cost:
        """Return what a turn has cost that ends in the middle of an answer."""
        cost = self._finished()
        if self._writing:
            prompt = self._prompt_tokens(len(self._chat_log.content))
            output = _text_tokens(self._writing)
            cost += Cost(prompt, min(cost.prompt, prompt), output, estimated=True)
        return cost

    def _note_delta(self, delta: Mapping[str, Any]) -> None:
        if "role" in delta:
            self._writing = ""
        if delta.get("role", "assistant") == "assistant":
            parts = (delta.get("thinking_content"), delta.get("content"))
            self._writing += "".join(part for part in parts if part)

    def _answers(self) -> Iterator[tuple[int, AssistantContent]]:
        for number, content in enumerate(self._chat_log.content):
            if number < self._begin or not isinstance(content, AssistantContent):
                continue
            if content.agent_id == self._agent_id:
                yield number, content

    def _finished(self) -> Cost:
        """Return what the finished answers have cost, told or else estimated.

        Each was a request with all that stood before it. Of what one request has read
        the next finds the beginning in the server's cache.
        """
        if self._told:
            return sum(self._told, Cost())
        cost, cached = Cost(estimated=True), 0
        for number, content in self._answers():
            prompt = self._prompt_tokens(number)
            cost += Cost(prompt, min(cached, prompt), _output_tokens(content))
            cached = prompt
        return cost

    def _prompt_tokens(self, end: int) -> int:
        contents: Sequence[Content] = self._chat_log.content[:end]
        messages = build(contents, {}).messages()
        tools = Toolbox(self._chat_log.llm_api).definitions
        return estimate_tokens(GenerationRequest(messages, 0, tools=tools))


def _output_tokens(content: AssistantContent) -> int:
    calls = (f"{call.tool_name} {call.tool_args}" for call in content.tool_calls or ())
    parts = (content.thinking_content or "", content.content or "", *calls)
    return _text_tokens(" ".join(part for part in parts if part))


def _text_tokens(text: str) -> int:
    return estimate_tokens(GenerationRequest([{"content": text}], 0))
