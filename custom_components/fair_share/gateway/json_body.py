"""Reading the JSON that a client sends."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import ClientPayloadError, web
from aiohttp.http_exceptions import BadHttpMessage
from homeassistant.util.json import JSON_DECODE_EXCEPTIONS, json_loads

from . import errors

_JSON = "application/json"
_UNREADABLE = (BadHttpMessage, ClientPayloadError, web.RequestPayloadError)
"""What a body is that is not packed as it says."""


async def json_body(request: web.Request) -> Mapping[str, Any]:
    """Return the object that was sent. Raises ``ApiError``."""
    if request.content_type not in (_JSON, "application/octet-stream"):
        raise errors.ApiError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Send {_JSON}.", code="not_json"
        )
    try:
        body = json_loads(await request.read())
    except web.HTTPRequestEntityTooLarge:
        raise errors.ApiError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "This is too large.", code="too_large"
        ) from None
    except (*_UNREADABLE, *JSON_DECODE_EXCEPTIONS, RecursionError):
        raise errors.invalid("This is not JSON.", code="not_json") from None
    if not isinstance(body, Mapping):
        raise errors.invalid("Send a JSON object.", code="not_an_object")
    return body
