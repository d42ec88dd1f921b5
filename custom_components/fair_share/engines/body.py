"""The body of a chat completion request."""

from collections.abc import Mapping
from typing import Any

from .base import GenerationRequest

# Decided here and by the queue, never by a caller's parameters.
_OURS = {
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "model",
    "n",
    "priority",
    "stream",
    "stream_options",
    "tools",
}


def chat_body(
    request: GenerationRequest,
    model: str,
    *,
    defaults: Mapping[str, Any] | None = None,
    stream_options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the body that asks for this answer, streamed and with a limit.

    ``defaults`` are fields of this kind of server; the request's parameters go before
    them.
    """
    body: dict[str, Any] = dict(defaults or {})
    body |= {k: v for k, v in request.parameters.items() if k not in _OURS}
    body["messages"] = [_message(message) for message in request.messages]
    if request.tools:
        body["tools"] = list(request.tools)
    body["model"] = model
    body["max_tokens"] = max(1, request.max_output_tokens)
    body["stream"] = True
    if stream_options:
        body["stream_options"] = dict(stream_options)
    return body


def raw_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body that has the text of a chat's only message gone on with."""
    told = {name: value for name, value in body.items() if name != "messages"}
    (message,) = body["messages"]
    return {**told, "prompt": message["content"]}


def _message(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message; many chat templates break on a content of ``null``."""
    if message.get("content") is None:
        return {**message, "content": ""}
    return message
