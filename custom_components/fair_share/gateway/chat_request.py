"""Reading a chat completion that a client asks for."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..admission.model import Workload
from ..engines.surrogates import well_formed
from . import errors
from .wanted import Wanted, read_wanted, text_of

_ROLES = ("assistant", "developer", "function", "system", "tool", "user")
_SYSTEM_TOO = "developer"
"""OpenAI's newer name of the system role, which chat templates do not know."""


def read_chat(
    body: Mapping[str, Any], workload: Workload, room_tokens: int | None
) -> Wanted:
    """Return what the body of a chat completion asks for.

    See ``read_wanted`` for the other two. Raises ``ApiError``.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise errors.invalid("There has to be a list of messages.", "messages")
    return read_wanted(
        body,
        workload,
        room_tokens,
        [_message(message, n) for n, message in enumerate(messages)],
        tools=_tools(body.get("tools")),
    )


def _message(message: object, number: int) -> Mapping[str, Any]:
    where = f"messages[{number}]"
    if not isinstance(message, Mapping) or message.get("role") not in _ROLES:
        raise errors.invalid("Each message needs a known role.", f"{where}.role")
    content = message.get("content")
    if not isinstance(content, str | list | None):
        raise errors.invalid(
            "A message's content is a text or a list of parts.", f"{where}.content"
        )
    told = {str(key): text_of(value) for key, value in message.items()}
    if message["role"] == _SYSTEM_TOO:
        told["role"] = "system"
    if isinstance(content, list):
        told["content"] = [_part(part, where) for part in content]
    return told


def _part(part: object, where: str) -> Mapping[str, Any]:
    if not isinstance(part, Mapping):
        raise errors.invalid("Each part has to be an object.", f"{where}.content")
    match part.get("type"):
        case "image_url":
            image = part.get("image_url")
            url = image.get("url") if isinstance(image, Mapping) else image
            if not isinstance(url, str) or not url.startswith("data:image/"):
                raise errors.invalid(
                    "Pictures have to be sent as data: addresses; nothing is fetched.",
                    f"{where}.content",
                    "unsupported_image",
                )
            return {"type": "image_url", "image_url": {"url": url}}
        case "input_audio" | "audio_url" as form:
            sound = _sound(form, part.get(form), f"{where}.content")
            return {"type": form, form: sound}
        case "text" | "input_text" | "refusal":
            text = part.get("text", part.get("refusal"))
            if not isinstance(text, str):
                raise errors.invalid("A text is missing.", f"{where}.content")
            return {"type": "text", "text": well_formed(text)}
        case _:
            raise errors.invalid(
                "Parts are texts, pictures or sound.",
                f"{where}.content",
                "unsupported_part",
            )


def _sound(form: str, sound: object, where: str) -> Mapping[str, Any]:
    """Return OpenAI's ``data`` and ``format``, or vLLM's ``url``; nothing beside them.

    No base64 has a colon, which every address has. Raises ``ApiError``.
    """
    told = sound if isinstance(sound, Mapping) else {}
    match form, told:
        case "input_audio", {"data": str(data)} if data and ":" not in data:
            return {name: told[name] for name in ("data", "format") if name in told}
        case "audio_url", {"url": str(url)} if url.startswith("data:audio/"):
            return {"url": url}
    raise errors.invalid(
        "Sound has to be sent as base64; nothing is fetched.",
        where,
        "unsupported_audio",
    )


def _tools(tools: object) -> Sequence[Mapping[str, Any]]:
    if tools is None:
        return ()
    if not isinstance(tools, list) or not all(isinstance(t, Mapping) for t in tools):
        raise errors.invalid("Tools are a list of objects.", "tools")
    return tools
