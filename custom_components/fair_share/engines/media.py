"""Pictures and sound in messages: what they count for, and who takes them."""

import asyncio
from base64 import b64encode
from collections.abc import Iterator, Mapping
from enum import StrEnum
from io import BytesIO
from typing import Any
import wave

from .base import Capabilities, Engine, EngineError, GenerationRequest
from .sound import sound_tokens

_LIMIT_S = 60.0
_TOKENS_PER_PICTURE = 1024


class Medium(StrEnum):
    """What a part of a message can be beside text."""

    PICTURE = "picture"
    SOUND = "sound"


_MEDIA: Mapping[object, Medium] = {
    "image_url": Medium.PICTURE,
    "input_audio": Medium.SOUND,
    # vLLM's own form, with an address.
    "audio_url": Medium.SOUND,
}


def medium_of(part: Mapping[str, Any]) -> Medium | None:
    """Return what a part of a message is, ``None`` if it is text."""
    return _MEDIA.get(part.get("type"))


def media_of(request: GenerationRequest) -> Iterator[Medium]:
    """Return what each part of a request is, beside those that are text."""
    for message in request.messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if (medium := medium_of(part)) is not None:
                yield medium


def media_tokens(part: Mapping[str, Any]) -> int:
    """Return about how many tokens a part is for a model, 0 if it is text."""
    match medium_of(part):
        case Medium.PICTURE:
            return _TOKENS_PER_PICTURE
        case Medium.SOUND:
            return sound_tokens(_sound_of(part))
        case _:
            return 0


def _sound_of(part: Mapping[str, Any]) -> str:
    """Return the sound in a part in base64, maybe after the name of its type."""
    sound = part.get(str(part.get("type")))
    if not isinstance(sound, Mapping):
        return ""
    return str(sound.get("data") or sound.get("url") or "")


def takes(known: Capabilities, medium: Medium) -> bool:
    """Whether a server is known to take this."""
    return known.vision if medium is Medium.PICTURE else known.audio


async def is_taken(engine: Engine, medium: Medium) -> bool:
    """Return whether the model takes a sample; ``False`` for any kind of refusal."""
    content = [{"type": "text", "text": "Hi"}, _SAMPLES[medium]]
    question = GenerationRequest([{"role": "user", "content": content}], 1)
    try:
        async with asyncio.timeout(_LIMIT_S), engine.stream(question) as deltas:
            async for _ in deltas:
                pass
    except EngineError, TimeoutError:
        return False
    return True


# A grey square of 64 x 64 pixels: smaller ones are refused by some that can see.
_PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAAAAACPAi4CAAAAKUlEQVR42u3MQREAAAwCIKMb3RD7"
    "7SAA6VEEAoFAIBAIBAKBQCAQfA8G320AeXC6efoAAAAASUVORK5CYII="
)


def _wav() -> str:
    """Return a second of a quiet hum, in the form that models are trained on."""
    file = BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(16_000)
        sound.writeframes((b"\x00\x04" * 40 + b"\x00\xfc" * 40) * 200)
    return b64encode(file.getvalue()).decode()


_SAMPLES: Mapping[Medium, Mapping[str, Any]] = {
    Medium.PICTURE: {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;base64,{_PNG}"},
    },
    Medium.SOUND: {
        "type": "input_audio",
        "input_audio": {"data": _wav(), "format": "wav"},
    },
}
