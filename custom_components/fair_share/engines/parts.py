"""Text and reasoning of a delta, in whatever fields and shapes they are sent."""

from collections.abc import Mapping
from typing import Any


def text_and_thought(delta: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a delta adds to the answer, and to the reasoning."""
    content = delta.get("content")
    thought = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
    if not isinstance(content, list):
        return _text(content), thought
    parts = [part for part in content if isinstance(part, Mapping)]
    text = "".join(_text(part.get("text")) for part in parts)
    return text, thought or "".join(_thought(part.get("thinking")) for part in parts)


def _thought(thinking: object) -> str:
    """Return the reasoning of a part: text, or a list of parts again."""
    if not isinstance(thinking, list):
        return _text(thinking)
    return "".join(_text(p.get("text")) for p in thinking if isinstance(p, Mapping))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
