"""Which web pages may ask the gateway from a browser: cross-origin requests.

No page may unless the household lists where it comes from. Browsers send no cookie with
such a request here, so a page can do no more than whoever has its key.
"""

from collections.abc import Mapping
from http import HTTPStatus
import re

from aiohttp import hdrs, web
from yarl import URL

from ..const import CONF_WEB_PAGES
from ..household.runtime import Household

_SCHEMES = ("http", "https")
_METHODS = "GET, POST"
_HEADER_NAMES = re.compile(r"[A-Za-z0-9-]{1,64}(?:\s*,\s*[A-Za-z0-9-]{1,64}){0,31}")
_USUAL_HEADERS = "authorization, content-type"
_HOLDS_S = 600


def origin_of(text: str) -> str:
    """Return an address as browsers name the origin of its pages.

    Raises ``ValueError`` if it is not the address of a web server alone.
    """
    url = URL(text.strip())
    rest = url.path.strip("/") or url.query_string or url.fragment or url.user
    if url.scheme not in _SCHEMES or not url.host or "*" in url.host or rest:
        raise ValueError("not the address of a web server")
    return str(url.origin()).lower()


def origin_headers(request: web.Request, household: Household) -> Mapping[str, str]:
    """Return the headers that let a listed page read the answer; none for others."""
    pages = household.entry.options.get(CONF_WEB_PAGES)
    if not pages:
        return {}
    headers = {hdrs.VARY: hdrs.ORIGIN}
    if (origin := request.headers.get(hdrs.ORIGIN)) in pages:
        headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = str(origin)
        headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = "*"
    return headers


def preflight(request: web.Request, household: Household | None) -> web.Response:
    """Answer a browser that asks, before it sends a page's request, if it may."""
    headers = origin_headers(request, household) if household else {}
    if hdrs.ACCESS_CONTROL_ALLOW_ORIGIN not in headers:
        return web.Response(status=HTTPStatus.FORBIDDEN, headers=headers)
    wanted = request.headers.get(hdrs.ACCESS_CONTROL_REQUEST_HEADERS, "")
    known = _HEADER_NAMES.fullmatch(wanted)
    return web.Response(
        status=HTTPStatus.NO_CONTENT,
        headers={
            **headers,
            hdrs.ACCESS_CONTROL_ALLOW_METHODS: _METHODS,
            hdrs.ACCESS_CONTROL_ALLOW_HEADERS: wanted if known else _USUAL_HEADERS,
            hdrs.ACCESS_CONTROL_MAX_AGE: str(_HOLDS_S),
        },
    )
