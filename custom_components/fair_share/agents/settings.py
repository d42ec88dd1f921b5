"""How an agent was set up."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from homeassistant.const import CONF_LLM_HASS_API, CONF_MODEL, CONF_PROMPT

from ..admission.model import Workload
from ..const import (
    CONF_OUTPUT_TOKENS,
    CONF_TEMPERATURE,
    CONF_WORKLOAD,
    DEFAULT_OUTPUT_TOKENS,
)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The data of an ``agent`` subentry.

    ``workload`` is what a turn counts as unless what asks is of another kind (a
    satellite speaks). ``model`` is ``None`` for whatever model the server runs.
    """

    prompt: str | None
    llm_apis: tuple[str, ...]
    workload: Workload
    output_tokens: int
    model: str | None
    parameters: Mapping[str, Any]

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Read the data of a subentry."""
        temperature = data.get(CONF_TEMPERATURE)
        return cls(
            prompt=data.get(CONF_PROMPT),
            llm_apis=tuple(data.get(CONF_LLM_HASS_API) or ()),
            workload=Workload(data.get(CONF_WORKLOAD, Workload.CHAT)),
            # Number selectors hand over floats.
            output_tokens=int(data.get(CONF_OUTPUT_TOKENS, DEFAULT_OUTPUT_TOKENS)),
            model=data.get(CONF_MODEL) or None,
            parameters=(
                {} if temperature is None else {CONF_TEMPERATURE: float(temperature)}
            ),
        )
