"""How prompts of one agent begin: with its system prompt and its tools."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import takewhile
import json
from typing import Any, Self

from ..engines.base import GenerationRequest

_ANY_QUESTION: Mapping[str, Any] = {"role": "user", "content": "."}


@dataclass(frozen=True, slots=True)
class Opening:
    """What all first questions to one agent have in common, and a digest to know it by.

    The digest stands in for texts that nobody but the server needs to see.
    """

    opening_id: str
    request: GenerationRequest

    @classmethod
    def of(cls, request: GenerationRequest) -> Self | None:
        """Return the opening of a request, ``None`` if it has neither prompt nor tools.

        Its own request has a server read the opening, and write next to nothing.
        """
        system = list(_system(request))
        if not system and not request.tools:
            return None
        read = GenerationRequest(
            messages=[*system, _ANY_QUESTION],
            max_output_tokens=1,
            model=request.model,
            tools=request.tools,
            parameters=_template_parameters(request),
        )
        shown = json.dumps(
            [read.model, read.messages, read.tools, read.parameters],
            default=str,
            ensure_ascii=True,
            sort_keys=True,
        )
        digest = blake2b(shown.encode(), digest_size=16).hexdigest()
        return cls(digest, read)


def _system(request: GenerationRequest) -> Iterator[Mapping[str, Any]]:
    return takewhile(lambda each: each.get("role") == "system", request.messages)


def _template_parameters(request: GenerationRequest) -> Mapping[str, Any]:
    """Return the parameters that change how a prompt is rendered."""
    names = ("chat_template_kwargs", "reasoning_effort")
    return {n: request.parameters[n] for n in names if n in request.parameters}
