"""Prompt length where no server can count it."""

from collections.abc import Mapping
import json
from typing import Any

from ..engines.base import GenerationRequest

_CHARACTERS_PER_TOKEN = 3.5
_TOKENS_PER_WIDE_CHARACTER = 1.2
_TOKENS_PER_MESSAGE = 6
_TOKENS_PER_IMAGE = 1024
_LAST_NARROW_CHARACTER = 0x024F
"""The end of the Latin blocks; beyond, a character is about one token."""


def estimate_tokens(request: GenerationRequest) -> int:
    """Return a prompt length in tokens that is more likely too high than too low."""
    messages = sum(_message_tokens(message) for message in request.messages)
    tools = (
        _text_tokens(json.dumps(tool, ensure_ascii=False)) for tool in request.tools
    )
    return messages + sum(tools)


def _message_tokens(message: Mapping[str, Any]) -> int:
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    text = sum(
        _TOKENS_PER_IMAGE if "image_url" in part else _text_tokens(part.get("text", ""))
        for part in parts
    )
    calls = message.get("tool_calls")
    extra = _text_tokens(json.dumps(calls, ensure_ascii=False)) if calls else 0
    return text + extra + _TOKENS_PER_MESSAGE


def _text_tokens(text: str) -> int:
    wide = sum(1 for character in text if ord(character) > _LAST_NARROW_CHARACTER)
    narrow = len(text) - wide
    return int(narrow / _CHARACTERS_PER_TOKEN + wide * _TOKENS_PER_WIDE_CHARACTER) + 1
