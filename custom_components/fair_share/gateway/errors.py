"""What went wrong, in the shape that programs written for OpenAI's interface know."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil
from typing import Any

from ..admission.model import Rejected, RejectReason
from ..engines.base import (
    AuthError,
    BusyError,
    ClientFaultError,
    ContextOverflowError,
    EngineError,
    LoadingError,
    PoolExhaustedError,
    UnreachableError,
)

INVALID = "invalid_request_error"
_AUTHENTICATION = "authentication_error"
_PERMISSION = "permission_error"
_RATE = "rate_limit_error"
_SERVER = "server_error"

_SOON_S = 5.0
"""When to ask again where nobody can know."""


@dataclass(eq=False)
class ApiError(Exception):
    """A request that is answered with an error.

    ``param`` names the field that is wrong. ``retry_after_s`` is when to ask again.
    No message repeats anything that a client sent but the names of fields and models.
    """

    status: HTTPStatus
    message: str
    type: str = INVALID
    code: str | None = None
    param: str | None = None
    retry_after_s: float | None = None

    def body(self) -> dict[str, Any]:
        """Return OpenAI's error object."""
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "code": self.code,
            }
        }

    def headers(self) -> dict[str, str]:
        """Return the headers that say when to ask again."""
        if self.retry_after_s is None:
            return {}
        return {"Retry-After": str(max(1, ceil(self.retry_after_s)))}


def invalid(
    message: str, param: str | None = None, code: str | None = None
) -> ApiError:
    """Return the error of a request that is wrong in itself."""
    return ApiError(HTTPStatus.BAD_REQUEST, message, INVALID, code, param)


def wrong_key(retry_after_s: float = 0.0) -> ApiError:
    """Return the error of a missing, wrong or revoked key."""
    if retry_after_s > 0:
        return ApiError(
            HTTPStatus.TOO_MANY_REQUESTS,
            "Too many wrong keys came from this address.",
            _AUTHENTICATION,
            "too_many_wrong_keys",
            retry_after_s=retry_after_s,
        )
    return ApiError(
        HTTPStatus.UNAUTHORIZED,
        "This key is not one of the household's. Keys are made in Home Assistant, "
        "under Fair Share, Add client.",
        _AUTHENTICATION,
        "invalid_api_key",
    )


def outside() -> ApiError:
    """Return the error of a request from outside the house that may not come so."""
    return ApiError(
        HTTPStatus.FORBIDDEN,
        "This key may only be used inside the house.",
        _PERMISSION,
        "outside_not_allowed",
    )


def too_fast(retry_after_s: float) -> ApiError:
    """Return the error of more requests per minute than the key allows."""
    return ApiError(
        HTTPStatus.TOO_MANY_REQUESTS,
        "This key sends more requests per minute than it may.",
        _RATE,
        "rate_limit_exceeded",
        retry_after_s=retry_after_s,
    )


def not_found() -> ApiError:
    """Return the error of a path behind which there is nothing."""
    return ApiError(HTTPStatus.NOT_FOUND, "There is nothing here.", code="not_found")


def no_model() -> ApiError:
    """Return the error of a model that no server has."""
    return ApiError(
        HTTPStatus.NOT_FOUND,
        "No server of the household has this model. The models are listed at /models; "
        "without a model any server answers.",
        INVALID,
        "model_not_found",
        "model",
    )


def unexpected() -> ApiError:
    """Return the error of a fault of our own."""
    return ApiError(
        HTTPStatus.BAD_GATEWAY,
        "The request failed. Home Assistant's log says more.",
        _SERVER,
        "internal_error",
    )


def explain(error: Rejected | EngineError) -> ApiError:
    """Return what to tell a client whose request ended like this."""
    if isinstance(error, Rejected):
        return _explain_rejected(error)
    return _explain_engine(error)


def _explain_rejected(error: Rejected) -> ApiError:
    again_s = error.retry_after_s
    match error.reason:
        case RejectReason.TOO_LONG:
            return _too_long(error.limit_tokens)
        case RejectReason.QUOTA:
            return _quota_used_up(again_s)
        case RejectReason.QUEUE_FULL:
            return _queue_full(_SOON_S if again_s is None else again_s)
    known = _REJECTED.get(error.reason)
    return _away(again_s) if known is None else known()


def _no_vision() -> ApiError:
    return invalid(
        "No server of the household can see pictures.", "messages", "no_vision"
    )


def _no_audio() -> ApiError:
    return invalid(
        "No server of the household that can answer this takes sound.",
        "messages",
        "no_audio",
    )


def _cancelled() -> ApiError:
    return ApiError(
        HTTPStatus.FORBIDDEN,
        "The household cancelled this request.",
        _PERMISSION,
        "cancelled",
    )


_REJECTED: Mapping[RejectReason, Callable[[], ApiError]] = {
    RejectReason.NO_MODEL: no_model,
    RejectReason.NO_VISION: _no_vision,
    RejectReason.NO_AUDIO: _no_audio,
    RejectReason.CANCELLED: _cancelled,
    RejectReason.CLASS_REMOVED: wrong_key,
}


def _quota_used_up(retry_after_s: float | None) -> ApiError:
    return ApiError(
        HTTPStatus.TOO_MANY_REQUESTS,
        "The quota of this member is used up.",
        "insufficient_quota",
        "insufficient_quota",
        retry_after_s=retry_after_s,
    )


def _queue_full(retry_after_s: float) -> ApiError:
    return ApiError(
        HTTPStatus.TOO_MANY_REQUESTS,
        "Too many requests are waiting already.",
        _RATE,
        "queue_full",
        retry_after_s=retry_after_s,
    )


def _explain_engine(error: EngineError) -> ApiError:
    match error:
        case PoolExhaustedError() | BusyError() | LoadingError() | UnreachableError():
            return _away(None)
        case ContextOverflowError():
            return _too_long(error.context_tokens)
        case ClientFaultError():
            return invalid(
                f"The server refused the request: {error.detail}", code="refused"
            )
        case AuthError():
            message = "The server refused the household's own key."
        case _:
            message = "The server failed while it answered."
    return ApiError(HTTPStatus.BAD_GATEWAY, message, _SERVER, "server_failed")


def _away(retry_after_s: float | None) -> ApiError:
    return ApiError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "No server of the household can answer now.",
        _SERVER,
        "no_server",
        retry_after_s=_SOON_S if retry_after_s is None else retry_after_s,
    )


def _too_long(limit_tokens: int | None) -> ApiError:
    most = "" if limit_tokens is None else f" At most {limit_tokens} tokens fit."
    return invalid(
        f"The messages, with room for an answer, are too long.{most}",
        "messages",
        "context_length_exceeded",
    )
