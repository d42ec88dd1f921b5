"""What a server says went wrong, as the typed errors of ``base``.

The same bodies arrive with an error status and inside streams that began with 200, so
both are read here. Of a server's message only ``known_phrase`` gets into an error: the
rest may repeat the prompt, the answer or the key, and errors end up in logs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
import json
import re
from typing import Any

from .base import (
    AuthError,
    BusyError,
    ClientFaultError,
    ContextOverflowError,
    EngineError,
    LoadingError,
    PoolExhaustedError,
    ServerFaultError,
)
from .dispensable import named_in
from .phrases import known_phrase
from .values import whole

_STATUS = re.compile("[45][0-9]{2}")
_RETRY_AFTER = re.compile("[0-9]{1,6}")

_OVERFLOW_TYPES = {"exceed_context_size_error", "context_length_exceeded"}
_OVERFLOW_PHRASES = (
    "exceeds the available context size",
    "context size has been exceeded",
    "maximum context length",
    "longer than the maximum model length",
    "context_length_exceeded",
    "exceed context",
    "exceeds context",
    "context window",
)
_EXHAUSTED_PHRASE = "context size has been exceeded"
_LOADING_PHRASES = ("loading model", "model is loading", "model is still loading")
_REQUEST_PHRASES = (
    "image input is not supported",
    "audio input is not supported",
    "not a multimodal model",
    "mmproj",
    "jinja",
    "chat template",
)


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The fields of an error body that mean something, of whatever shape it was."""

    message: str = ""
    type: str = ""
    code: str = ""
    param: str = ""
    prompt_tokens: int | None = None
    context_tokens: int | None = None

    @property
    def status(self) -> int | None:
        """The HTTP status that the body itself names, if it does."""
        return int(self.code) if _STATUS.fullmatch(self.code) else None


def parse_body(text: str) -> ErrorBody | None:
    """Return the error in a body, ``None`` if the body is not JSON with an error."""
    try:
        value = json.loads(text)
    except ValueError, RecursionError:
        return None
    return error_in(value)


def error_of_event(value: object) -> ErrorBody:
    """Return the error in an event that is named one, whatever its shape."""
    if error := error_in(value):
        return error
    return _fields(value) if isinstance(value, Mapping) else ErrorBody(_text(value))


def error_in(value: object) -> ErrorBody | None:
    """Return the error that a decoded JSON value holds.

    Knows OpenAI's shape, a bare text, older vLLM's flat object and FastAPI's detail.
    """
    if not isinstance(value, Mapping):
        return None
    error = value.get("error")
    if isinstance(error, str) and error:
        return ErrorBody(message=error)
    if isinstance(error, Mapping):
        return _fields(error)
    if value.get("object") == "error":
        return _fields(value)
    if "detail" in value and "choices" not in value:
        return ErrorBody(message=_text(value["detail"]))
    return None


def error_from_status(
    status: int, text: str, retry_after: str | None = None
) -> EngineError:
    """Return the error for an HTTP answer with an error status."""
    body = parse_body(text)
    if body is None and status == HTTPStatus.SERVICE_UNAVAILABLE:
        # No words from an engine: what stands in front of it, or it is dead.
        return ServerFaultError(f"HTTP status {status}", status=status)
    body = body or ErrorBody()
    detail = _detail(status, body)
    if retry_after and _RETRY_AFTER.fullmatch(retry_after):
        detail = f"{detail} (retry after {retry_after})"
    return _typed(status, body, detail)


def error_from_stream(body: ErrorBody) -> EngineError:
    """Return the error for an error object inside a stream."""
    status = body.status or HTTPStatus.INTERNAL_SERVER_ERROR
    if _EXHAUSTED_PHRASE in body.message.lower():
        return PoolExhaustedError(_detail(status, body), status=status)
    return _typed(status, body, _detail(status, body))


def _detail(status: int, body: ErrorBody) -> str:
    phrase = known_phrase(body.message)
    return f"HTTP status {status}: {phrase}" if phrase else f"HTTP status {status}"


def _typed(status: int, body: ErrorBody, detail: str) -> EngineError:
    if _is_overflow(body):
        return ContextOverflowError(
            detail,
            status=status,
            prompt_tokens=body.prompt_tokens,
            context_tokens=body.context_tokens,
        )
    kind = _class_of(status, body)
    if kind is ClientFaultError:
        named = named_in(f"{body.param} {body.message}")
        return ClientFaultError(detail, status=status, dispensable=named)
    return kind(detail, status=status)


def _class_of(status: int, body: ErrorBody) -> type[EngineError]:
    message = body.message.lower()
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return AuthError
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return BusyError
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        loading = any(phrase in message for phrase in _LOADING_PHRASES)
        return LoadingError if loading else BusyError
    if (
        status < HTTPStatus.INTERNAL_SERVER_ERROR
        or status == HTTPStatus.NOT_IMPLEMENTED
    ):
        return ClientFaultError
    if any(phrase in message for phrase in _REQUEST_PHRASES):
        # llama.cpp answers 500 to a picture that its model cannot see, and to messages
        # that its chat template refuses.
        return ClientFaultError
    return ServerFaultError


def _is_overflow(body: ErrorBody) -> bool:
    if body.type in _OVERFLOW_TYPES or body.code in _OVERFLOW_TYPES:
        return True
    message = body.message.lower()
    if body.param == "max_tokens":
        return False
    return any(phrase in message for phrase in _OVERFLOW_PHRASES)


def _fields(error: Mapping[str, Any]) -> ErrorBody:
    return ErrorBody(
        message=_text(error.get("message")),
        type=_text(error.get("type")),
        code=_text(error.get("code")),
        param=_text(error.get("param")),
        prompt_tokens=whole(error.get("n_prompt_tokens")),
        context_tokens=whole(error.get("n_ctx")),
    )


def _text(value: object) -> str:
    """Return any JSON value as a text to search in."""
    try:
        return str(value or "")
    except RecursionError:
        return ""
