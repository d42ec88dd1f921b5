"""Reading a completion of a text that a client asks for."""

from collections.abc import Mapping
from typing import Any

from ..admission.model import Workload
from ..engines.surrogates import well_formed
from . import errors
from .wanted import Wanted, read_wanted


def read_completion(
    body: Mapping[str, Any], workload: Workload, room_tokens: int | None
) -> Wanted:
    """Return what the body of a completion asks for.

    See ``read_wanted`` for the other two. Raises ``ApiError``.
    """
    prompt = body.get("prompt")
    match prompt:
        case [str() as only]:
            prompt = only
    if not isinstance(prompt, str) or not prompt:
        raise errors.invalid("The prompt has to be one text.", "prompt")
    message = {"role": "user", "content": well_formed(prompt)}
    return read_wanted(body, workload, room_tokens, [message], raw=True)
