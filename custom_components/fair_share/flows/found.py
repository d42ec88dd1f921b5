"""Tell people in their words what a probe found."""

from homeassistant.core import HomeAssistant
from homeassistant.helpers.translation import async_get_translations
from yarl import URL

from ..const import DOMAIN, MEMORY_SEPARATE, MEMORY_SHARED
from ..engines.base import Capabilities, EngineKind


def short_model(model: str) -> str:
    """Return the model's name without folders and the ending of its file."""
    return model.rstrip("/").rsplit("/", maxsplit=1)[-1].removesuffix(".gguf")


def server_title(model: str, url: str) -> str:
    """Return the name under which a server is listed."""
    return f"{short_model(model)} ({URL(url).authority})"


async def async_describe(hass: HomeAssistant, found: Capabilities) -> dict[str, str]:
    """Return the placeholders that describe a server."""
    texts = await async_get_translations(
        hass, hass.config.language, "selector", [DOMAIN]
    )

    def text(selector: str, option: str) -> str:
        key = f"component.{DOMAIN}.selector.{selector}.options.{option}"
        return texts.get(key, option)

    unknown = text("memory", "unknown")
    return {
        "kind": text("kind", found.kind),
        "model": short_model(found.model),
        "slots": unknown if found.slots is None else str(found.slots),
        "context": unknown
        if found.context_tokens is None
        else str(found.context_tokens),
        "memory": text("memory", _memory(found)),
    }


def hides_memory(found: Capabilities) -> bool:
    """Tell whether the server keeps to itself if its slots share their memory.

    llama.cpp's does; what the probe says is then only what is certain.
    """
    return found.kind is EngineKind.LLAMA_CPP and found.kv_tokens is not None


def _memory(found: Capabilities) -> str:
    if hides_memory(found) or (found.slots is None and found.kv_tokens is None):
        return "unknown"
    return MEMORY_SEPARATE if found.kv_tokens is None else MEMORY_SHARED
