"""What a server says went wrong, as the typed errors of ``base``.

The same bodies arrive with an error status and inside streams that began with 200, so
both are read here. A server's message may repeat the prompt or the key; ``Redactor``
keeps such messages out of errors, which end up in logs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
import json
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

_LONGEST_DETAIL = 300
_SHORTEST_KEY = 4
_TELLTALE = 16
"""So many characters in a row that are also in the prompt are taken for the prompt."""

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
        return int(self.code) if self.code.isdecimal() else None


class Redactor:
    """Knows what must not appear in an error: the key and the prompt."""

    def __init__(self, key: str | None = None, prompt: object = None) -> None:
        """``prompt`` is any JSON value; its texts are what is kept out."""
        self._key = key
        self._prompt = prompt

    def clean(self, message: str) -> str:
        """Return the message, shortened, or a note in its place."""
        if self._key and len(self._key) >= _SHORTEST_KEY and self._key in message:
            return "(message withheld: it repeats the key)"
        message = " ".join(message.split())[:_LONGEST_DETAIL]
        if any(_repeats(message, text) for text in _texts(self._prompt)):
            return "(message withheld: it repeats the request)"
        return message


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
    return _fields(value) if isinstance(value, Mapping) else ErrorBody(str(value))


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
        return ErrorBody(message=str(value["detail"]))
    return None


def error_from_status(
    status: int, text: str, redactor: Redactor, retry_after: str | None = None
) -> EngineError:
    """Return the error for an HTTP answer with an error status."""
    body = parse_body(text)
    if body is None and status == HTTPStatus.SERVICE_UNAVAILABLE:
        # No words from an engine: what stands in front of it, or it is dead.
        return ServerFaultError(f"HTTP status {status}", status=status)
    body = body or ErrorBody()
    detail = redactor.clean(body.message) or f"HTTP status {status}"
    if retry_after:
        detail = f"{detail} (retry after {retry_after[:20]})"
    return _typed(status, body, detail)


def error_from_stream(body: ErrorBody, redactor: Redactor) -> EngineError:
    """Return the error for an error object inside a stream."""
    status = body.status or HTTPStatus.INTERNAL_SERVER_ERROR
    if _EXHAUSTED_PHRASE in body.message.lower():
        return PoolExhaustedError(redactor.clean(body.message), status=status)
    return _typed(status, body, redactor.clean(body.message))


def _typed(status: int, body: ErrorBody, detail: str) -> EngineError:
    if _is_overflow(body):
        return ContextOverflowError(
            detail,
            status=status,
            prompt_tokens=body.prompt_tokens,
            context_tokens=body.context_tokens,
        )
    return _class_of(status, body)(detail, status=status)


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
        message=str(error.get("message") or ""),
        type=str(error.get("type") or ""),
        code=str(error.get("code") or ""),
        param=str(error.get("param") or ""),
        prompt_tokens=_whole(error.get("n_prompt_tokens")),
        context_tokens=_whole(error.get("n_ctx")),
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _repeats(message: str, text: str) -> bool:
    if len(text) < _TELLTALE or text.startswith("data:"):
        # A picture is megabytes of text that nobody repeats.
        return False
    text = " ".join(text.split())
    windows = range(len(message) - _TELLTALE + 1)
    return any(message[start : start + _TELLTALE] in text for start in windows)


def _texts(value: object) -> Iterable[str]:
    """Yield the texts of a JSON value, at any depth, without the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _texts(part)
