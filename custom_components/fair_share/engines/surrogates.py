"""Characters that were escaped as two UTF-16 halves and torn apart.

JSON may write an emoji as two escapes. One of them on its own is no text: encoding it
again fails. Halves that arrive in two chunks are joined, a half that stays alone
becomes U+FFFD.
"""

from collections.abc import Mapping
from typing import Any

_FIRST_HALF_FROM, _FIRST_HALF_TO = "\ud800", "\udbff"


class SurrogatePairs:
    """Joins halves across the pieces of one text."""

    def __init__(self) -> None:
        self._half = ""

    def join(self, text: str) -> str:
        """Return the next piece, well-formed; a first half at its end is held."""
        text = self._half + text
        self._half = ""
        if text and _FIRST_HALF_FROM <= text[-1] <= _FIRST_HALF_TO:
            text, self._half = text[:-1], text[-1]
        return well_formed(text)


def well_formed(text: str) -> str:
    """Return the text with pairs joined and lone halves replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def well_formed_texts(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value with all texts in it well-formed, names of fields too."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, Mapping):
        return {
            well_formed_texts(name): well_formed_texts(part)
            for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [well_formed_texts(part) for part in value]
    return value
