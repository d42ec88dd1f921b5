"""Pictures and sound in a conversation."""

import base64
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from homeassistant.components.conversation import Attachment, Content, UserContent
from homeassistant.core import HomeAssistant

from ..engines.media import Medium
from .errors import AgentError
from .prompt import Attached

_SOUNDS = {
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/vnd.wave": "wav",
    "audio/x-wav": "wav",
}
"""The names of the two forms that OpenAI's interface has."""

_NOT_TAKEN = {Medium.PICTURE: "no_vision", Medium.SOUND: "no_audio"}


async def async_load_attached(
    hass: HomeAssistant, contents: Sequence[Content], taken: Collection[Medium]
) -> Attached:
    """Return all that is attached in a conversation in OpenAI's shape.

    Raises ``AgentError`` if there is something that no server takes (``taken``), if
    it is neither a picture nor sound, or if a file is gone.
    """
    attachments = [
        attachment
        for content in contents
        if isinstance(content, UserContent)
        for attachment in content.attachments or ()
    ]
    for medium in map(_medium, attachments):
        if medium not in taken:
            raise AgentError(_NOT_TAKEN[medium])
    return await hass.async_add_executor_job(_read, attachments) if attachments else {}


def _medium(attachment: Attachment) -> Medium:
    if attachment.mime_type.startswith("image/"):
        return Medium.PICTURE
    if attachment.mime_type in _SOUNDS:
        return Medium.SOUND
    raise AgentError("attachment_unknown")


def _read(attachments: Sequence[Attachment]) -> Attached:
    return {attachment: _part(attachment) for attachment in attachments}


def _part(attachment: Attachment) -> Mapping[str, Any]:
    try:
        data = base64.b64encode(attachment.path.read_bytes()).decode()
    except OSError as err:
        raise AgentError("attachment_gone") from err
    if _medium(attachment) is Medium.SOUND:
        sound = {"data": data, "format": _SOUNDS[attachment.mime_type]}
        return {"type": "input_audio", "input_audio": sound}
    url = f"data:{attachment.mime_type};base64,{data}"
    return {"type": "image_url", "image_url": {"url": url}}
