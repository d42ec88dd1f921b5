"""How much of a conversation is sent: whole turns, the newest always."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
import json
from typing import Any

from ..admission.model import Rejected, RejectReason
from ..engines.media import media_tokens
from ..household.estimate import text_bytes

type Counter = Callable[[int], Awaitable[int]]
"""Counts the tokens of the prompt that begins with this turn, exactly if possible."""

_BYTES_PER_TOKEN = 2  # fewer than in any language the models speak
_TOKENS_PER_MESSAGE = 16
_ROOM_LEFT = 0.25
_COUNTS = 4


async def first_turn_to_send(
    fixed_tokens: int,
    turn_tokens: Sequence[int],
    budget_tokens: int,
    count: Counter,
    first_turn: int = 0,
) -> int:
    """Return the oldest turn from which on the conversation fits into the budget.

    ``fixed_tokens`` (system prompt and tools) and ``turn_tokens`` are estimates from
    above (``most_tokens``). Nothing is counted if they fit. Otherwise old turns go
    until a quarter of the room for turns is free: with just one turn dropped the next
    question would have to drop another, and the server's cache would never match.
    ``first_turn`` is where the conversation began last time.

    Raises ``Rejected`` (too long) if the newest turn alone does not fit.
    """
    newest = len(turn_tokens) - 1
    first = min(first_turn, newest)
    if fixed_tokens + sum(turn_tokens[first:]) <= budget_tokens:
        return first
    for _ in range(_COUNTS):
        exact = await count(first)
        if exact <= budget_tokens:
            return first
        if first == newest:
            raise Rejected(RejectReason.TOO_LONG, limit_tokens=budget_tokens)
        scale = exact / (fixed_tokens + sum(turn_tokens[first:]))
        room = budget_tokens / scale - fixed_tokens
        first = _shortened(turn_tokens, first + 1, room * (1 - _ROOM_LEFT))
    if await count(newest) > budget_tokens:
        raise Rejected(RejectReason.TOO_LONG, limit_tokens=budget_tokens)
    return newest


def most_tokens(messages: Iterable[Mapping[str, Any]]) -> int:
    """Return a number of tokens that these messages or tools surely do not exceed."""
    return sum(_TOKENS_PER_MESSAGE + _tokens(message) for message in messages)


def _shortened(turn_tokens: Sequence[int], first: int, room: float) -> int:
    """Return the oldest turn, from ``first`` on, with which the turns fit the room."""
    while first < len(turn_tokens) - 1 and sum(turn_tokens[first:]) > room:
        first += 1
    return first


def _tokens(message: Mapping[str, Any]) -> int:
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    media = sum(map(media_tokens, parts))
    texts = "".join(part["text"] for part in parts if "text" in part)
    rest = {name: value for name, value in message.items() if name != "content"}
    size = text_bytes(texts) + text_bytes(json.dumps(rest, ensure_ascii=False))
    return media + size // _BYTES_PER_TOKEN
