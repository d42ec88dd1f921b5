"""Prompt length where no server can count it, or where none has to.

All of it costs next to nothing: texts are not walked through in Python, however long
they are.
"""

from collections.abc import Iterator, Mapping
import json
from typing import Any

from ..engines.base import GenerationRequest
from ..engines.media import media_of, media_tokens

_CHARACTERS_PER_TOKEN = 3.5
_TOKENS_PER_WIDE_CHARACTER = 1.2
_TOKENS_PER_MESSAGE = 6
_TOKENS_PER_MESSAGE_AT_MOST = 16
_BYTES_PER_TOKEN_OF_PROSE = 4
_SHORT_TOKENS = 512
_BYTES_PER_TOKEN_AT_MOST = 16
"""No tokenizer in use packs text tighter: the average of English prose is 4 to 5 bytes.

Single tokens are longer (runs of blanks, mostly), but no message for a model is made
of nothing else.
"""
_NARROW = bytes(range(0xCA))
"""What the UTF-8 of a Latin letter consists of, and what follows the first byte of any
character. The first byte of all others is higher, and such a character is about one
token."""


def estimate_tokens(request: GenerationRequest) -> int:
    """Return a prompt length in tokens that is more likely too high than too low."""
    media = sum(media_tokens(part) for part in _parts(request))
    texts = sum(_text_tokens(text) for text in _texts(request))
    messages = len(request.messages) * _TOKENS_PER_MESSAGE
    return texts + media + messages


def fewest_tokens(request: GenerationRequest) -> int:
    """Return a prompt length in tokens below which no server would count it."""
    size = sum(text_bytes(text) for text in _texts(request))
    return size // _BYTES_PER_TOKEN_AT_MOST


def is_surely_short(request: GenerationRequest, room_tokens: int) -> bool:
    """Whether a prompt is so short that its exact length in tokens decides nothing.

    No tokenizer in use makes more tokens of a text than it has bytes: even then, and
    with the answer, it would fit into the room.
    """
    if any(media_of(request)):
        return False
    size = sum(text_bytes(text) for text in _texts(request))
    size += len(request.messages) * _TOKENS_PER_MESSAGE_AT_MOST
    return (
        size // _BYTES_PER_TOKEN_OF_PROSE <= _SHORT_TOKENS
        and size + request.max_output_tokens <= room_tokens
    )


def text_bytes(text: str) -> int:
    """Return the size of a text in UTF-8."""
    return len(text) if text.isascii() else len(_utf8(text))


def _texts(request: GenerationRequest) -> Iterator[str]:
    for part in _parts(request):
        text = part.get("text")
        if isinstance(text, str):
            yield text
    extras = [message.get("tool_calls") for message in request.messages]
    for extra in (*extras, *request.tools):
        if extra:
            yield json.dumps(extra, ensure_ascii=False)


def _parts(request: GenerationRequest) -> Iterator[Mapping[str, Any]]:
    for message in request.messages:
        content = message.get("content")
        if isinstance(content, list):
            yield from content
        else:
            yield {"text": content}


def _text_tokens(text: str) -> int:
    wide = 0 if text.isascii() else len(_utf8(text).translate(None, _NARROW))
    narrow = len(text) - wide
    return int(narrow / _CHARACTERS_PER_TOKEN + wide * _TOKENS_PER_WIDE_CHARACTER) + 1


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
