"""Tell people in their words what a probe found."""

from collections.abc import Mapping
from typing import Any

from homeassistant.core import HomeAssistant
from homeassistant.helpers.translation import async_get_translations
from yarl import URL

from ..const import (
    CONF_CONTEXT_TOKENS,
    CONF_MEMORY,
    CONF_SLOTS,
    DOMAIN,
    MEMORY_SEPARATE,
    MEMORY_SHARED,
)
from ..engines.base import Capabilities, EngineKind

_UNKNOWN = "unknown"


def short_model(model: str) -> str:
    """Return the model's name without folders and the ending of its file."""
    return model.rstrip("/").rsplit("/", maxsplit=1)[-1].removesuffix(".gguf")


def server_title(model: str, url: str) -> str:
    """Return the name under which a server is listed."""
    return f"{short_model(model)} ({URL(url).authority})"


async def async_describe(
    hass: HomeAssistant, found: Capabilities, declared: Mapping[str, Any]
) -> dict[str, str]:
    """Return the placeholders that describe a server.

    ``declared`` is what people said of it earlier, as in the data of a subentry; it
    stands in for what the server does not tell.
    """
    texts = await async_get_translations(
        hass, hass.config.language, "selector", [DOMAIN]
    )

    def text(selector: str, option: str) -> str:
        key = f"component.{DOMAIN}.selector.{selector}.options.{option}"
        return texts.get(key, option)

    def size(told: int | None, key: str) -> str:
        return str(declared.get(key, unknown) if told is None else told)

    unknown = text("memory", _UNKNOWN)
    memory = _memory(found) or declared.get(CONF_MEMORY, _UNKNOWN)
    return {
        "kind": text("kind", found.kind),
        "model": short_model(found.model),
        "slots": size(found.slots, CONF_SLOTS),
        "context": size(found.context_tokens, CONF_CONTEXT_TOKENS),
        "memory": text("memory", memory),
    }


def hides_memory(found: Capabilities) -> bool:
    """Tell whether the server keeps to itself if its slots share their memory.

    llama.cpp's does; what the probe says is then only what is certain.
    """
    return found.kind is EngineKind.LLAMA_CPP and found.kv_tokens is not None


def _memory(found: Capabilities) -> str | None:
    """Return what the server tells of its memory."""
    if hides_memory(found) or (found.slots is None and found.kv_tokens is None):
        return None
    return MEMORY_SEPARATE if found.kv_tokens is None else MEMORY_SHARED
