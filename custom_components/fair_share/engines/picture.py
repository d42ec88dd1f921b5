"""Whether a server's model can see, found out by showing it a picture."""

import asyncio

from .base import Engine, EngineError, GenerationRequest

_LIMIT_S = 60.0
# A grey square of 64 x 64 pixels: smaller ones are refused by some that can see.
_PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAAAAACPAi4CAAAAKUlEQVR42u3MQREAAAwCIKMb3RD7"
    "7SAA6VEEAoFAIBAIBAKBQCAQfA8G320AeXC6efoAAAAASUVORK5CYII="
)
_QUESTION = GenerationRequest(
    [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Hi"},
                {
                    "type": "image_url",
                    "image_url": {"url": f"data:image/png;base64,{_PNG}"},
                },
            ],
        }
    ],
    max_output_tokens=1,
)


async def sees_pictures(engine: Engine) -> bool:
    """Return whether the model takes a picture; ``False`` for any kind of refusal."""
    try:
        async with asyncio.timeout(_LIMIT_S), engine.stream(_QUESTION) as deltas:
            async for _ in deltas:
                pass
    except EngineError, TimeoutError:
        return False
    return True
