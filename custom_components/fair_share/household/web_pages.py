"""The web pages that may use the gateway, by their origins as browsers name them."""

from collections.abc import Mapping
import re
from typing import Any

from yarl import URL

from ..const import CONF_WEB_PAGES
from .stored import Stored

_ORIGIN = re.compile(
    r"https?://(?:\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?)(?::[0-9]{1,5})?"
)


class PageError(ValueError):
    """What was typed is not where web pages come from."""


class AnyPageError(PageError):
    """It stands for pages that nobody knows."""


class PageWithPathError(PageError):
    """It names more than where a page comes from."""


def origin_of(text: str) -> str:
    """Return an address as browsers send it in ``Origin`` (RFC 6454, section 6.2).

    A slash at its end and the usual port are dropped. Raises ``PageError``.
    """
    text = text.strip()
    if "*" in text:
        raise AnyPageError
    try:
        url = URL(text)
        origin = str(url.origin()).lower()
    except ValueError:
        raise PageError from None
    if not _ORIGIN.fullmatch(origin) or url.user or url.password:
        raise PageError
    if url.path.strip("/") or url.query_string or url.fragment:
        raise PageWithPathError
    return origin


def listed_origins(options: Mapping[str, Any]) -> frozenset[str]:
    """Return the origins that a household's options list."""
    return Stored(options, "options").names(CONF_WEB_PAGES)
