"""The tools an agent offers to the model."""

from collections.abc import Callable, Mapping
from typing import Any

from homeassistant.helpers import llm
import probatio

from ..engines.surrogates import well_formed_texts


class Toolbox:
    """The tools of one turn, sorted by name so that every request begins alike.

    ``definitions`` has OpenAI's shape.
    """

    def __init__(self, api: llm.APIInstance | None) -> None:
        """Take the tools of the API that was chosen for the agent, if any."""
        tools = sorted(api.tools, key=lambda tool: tool.name) if api else []
        serializer = api.custom_serializer if api else None
        self.names = frozenset(tool.name for tool in tools)
        self.definitions: tuple[Mapping[str, Any], ...] = tuple(
            _definition(tool, serializer) for tool in tools
        )

    def resolve(self, name: str) -> str | None:
        """Return the offered tool that is meant, ``None`` if there is no such tool.

        Home Assistant puts the provider before a tool's name
        (``intent__HassTurnOn``). A model that leaves it out is understood if only one
        tool ends like that. Some put the namespace before it that they learned.
        """
        name = name.removeprefix("functions.")
        if name in self.names:
            return name
        endings = [known for known in self.names if known.endswith(f"__{name}")]
        return endings[0] if name and len(endings) == 1 else None


def _definition(
    tool: llm.Tool, serializer: Callable[[Any], Any] | None
) -> Mapping[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = probatio.to_openapi(
        tool.parameters, custom_serializer=serializer, openapi_version="3.1.0"
    )
    definition: Mapping[str, Any] = well_formed_texts(
        {"type": "function", "function": function}
    )
    return definition
