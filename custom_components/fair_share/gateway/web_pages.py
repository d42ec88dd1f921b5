"""Which web pages may ask the gateway from a browser: cross-origin requests.

No page may unless the household lists where it comes from. Browsers send no cookie with
such a request here, so a page can do no more than whoever has its key.
"""

from collections.abc import Mapping
from http import HTTPStatus
import re

from aiohttp import hdrs, web

from ..household.runtime import Household
from ..household.web_pages import listed_origins

_METHODS = "GET, POST"
_HEADER_NAMES = re.compile(r"[A-Za-z0-9-]{1,64}(?:\s*,\s*[A-Za-z0-9-]{1,64}){0,31}")
_USUAL_HEADERS = "authorization, content-type"
_HOLDS_S = 600


def origin_headers(request: web.Request, household: Household) -> Mapping[str, str]:
    """Return the headers that let a listed page read the answer; none for others."""
    origins = listed_origins(household.entry.options)
    if not origins:
        return {}
    headers: dict[str, str] = {hdrs.VARY: hdrs.ORIGIN}
    if (origin := request.headers.get(hdrs.ORIGIN, "")) in origins:
        headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
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
