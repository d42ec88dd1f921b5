"""What the gateway tells of the household's servers, in the shapes clients look for."""

from collections.abc import Iterator
from typing import Any

from ..engines.media import Medium, takes
from ..household.runtime import Household
from ..household.watched import ServerState, ServerView

_MODALITIES = {"image": Medium.PICTURE, "audio": Medium.SOUND}


def model_list(household: Household) -> dict[str, Any]:
    """Return OpenAI's list of models.

    With how many tokens fit, as vLLM tells it, and what a model takes, as OpenRouter
    does: all that any server with it takes, since what is asked goes to such a one.
    """
    models: dict[str, dict[str, Any]] = {}
    for view in _known(household):
        known = view.capabilities
        assert known is not None  # noqa: S101 - as asked for
        taken = [name for name, each in _MODALITIES.items() if takes(known, each)]
        for name in known.models or (known.model,):
            model = models.setdefault(
                name,
                {
                    "id": name,
                    "object": "model",
                    "created": 0,
                    "owned_by": "fair_share",
                    "max_model_len": known.context_tokens,
                    "architecture": {
                        "input_modalities": ["text"],
                        "output_modalities": ["text"],
                    },
                },
            )
            inputs = model["architecture"]["input_modalities"]
            inputs.extend(each for each in taken if each not in inputs)
    return {"object": "list", "data": [*models.values()]}


def served_model(household: Household) -> str:
    """Return the model that answers who names none."""
    views = sorted(_known(household), key=lambda v: v.state is not ServerState.READY)
    return next((v.capabilities.model for v in views if v.capabilities), "")


def is_ready(household: Household) -> bool:
    """Whether a server can answer, maybe not at once."""
    return any(v.state is ServerState.READY for v in household.servers.statuses())


def properties(household: Household) -> dict[str, Any]:
    """Return what llama.cpp's server tells of itself: of all servers together."""
    known = [view.capabilities for view in _known(household)]
    slots = sum(server.slots for server in household.status().servers)
    return {
        "default_generation_settings": {"n_ctx": household.context_limit()},
        "total_slots": slots,
        "model_path": served_model(household),
        "modalities": {
            "vision": any(each is not None and each.vision for each in known),
            "audio": any(each is not None and each.audio for each in known),
        },
        "chat_template_caps": {
            "supports_tools": any(each is not None and each.tools for each in known)
        },
    }


def _known(household: Household) -> Iterator[ServerView]:
    return (view for view in household.servers.statuses() if view.capabilities)
