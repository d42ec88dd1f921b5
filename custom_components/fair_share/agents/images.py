"""Pictures in a conversation."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from homeassistant.components.conversation import Attachment, Content, UserContent
from homeassistant.core import HomeAssistant

from .errors import AgentError
from .prompt import Images


async def async_load_images(
    hass: HomeAssistant, contents: Sequence[Content], *, can_see: bool
) -> Images:
    """Return all pictures of a conversation in OpenAI's shape.

    Raises ``AgentError`` if there are some but no server can see (``can_see``), if
    something else than a picture is attached, or if a file is gone.
    """
    attachments = [
        attachment
        for content in contents
        if isinstance(content, UserContent)
        for attachment in content.attachments or ()
    ]
    if attachments and not can_see:
        raise AgentError("no_vision")
    if not all(a.mime_type.startswith("image/") for a in attachments):
        raise AgentError("attachment_no_image")
    return await hass.async_add_executor_job(_read, attachments) if attachments else {}


def _read(attachments: Sequence[Attachment]) -> Images:
    return {attachment: _part(attachment) for attachment in attachments}


def _part(attachment: Attachment) -> Mapping[str, Any]:
    try:
        data = base64.b64encode(attachment.path.read_bytes()).decode()
    except OSError as err:
        raise AgentError("attachment_gone") from err
    url = f"data:{attachment.mime_type};base64,{data}"
    return {"type": "image_url", "image_url": {"url": url}}
