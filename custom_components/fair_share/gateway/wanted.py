"""What a client asks for, as far as chats and texts have it in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..admission.model import Workload
from ..const import DEFAULT_OUTPUT_TOKENS
from ..engines.base import GenerationRequest
from ..engines.surrogates import well_formed
from . import errors

ANY_MODEL = ("", "default", "fair-share")
"""Names that stand for whatever model the household has."""

_MOST_BY_DEFAULT = 4096
_MOST_STOPS = 64
"""Each is looked for in every piece of the answer; OpenAI takes four."""

_OURS = {
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "model",
    "n",
    "prompt",
    "stream",
    "stream_options",
    "tools",
}
_NEVER_PASSED = {
    # What would take a request past the queue's rules, or ask for more than an answer.
    "best_of",
    "cache_prompt",
    "cache_salt",
    "chat_template",
    "id_slot",
    "ignore_eos",
    "kv_transfer_params",
    "lora",
    "max_new_tokens",
    "metadata",
    "min_tokens",
    "n_cache_reuse",
    "n_cmpl",
    "n_discard",
    "n_indent",
    "n_keep",
    "n_predict",
    "n_probs",
    "post_sampling_probs",
    "priority",
    "prompt_cache_key",
    "prompt_logprobs",
    "reasoning_format",
    "request_id",
    "response_fields",
    "return_progress",
    "return_token_ids",
    "return_tokens",
    "safety_identifier",
    "samplers",
    "service_tier",
    "slot_id",
    "store",
    "t_max_predict_ms",
    "t_max_prompt_ms",
    "timings_per_token",
    "truncate_prompt_tokens",
    "use_beam_search",
    "user",
    "vllm_xargs",
}
_NEVER_PREFIXES = ("speculative.",)
_REFUSED = ("logprobs", "top_logprobs", "echo", "suffix", "audio")
"""What would be asked for in vain."""

_FLEX, _NO_OTHER_TIER = "flex", ("auto", "default", "priority", "scale", None)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a client asks for, and how it wants it."""

    generation: GenerationRequest
    workload: Workload
    stream: bool
    include_usage: bool


def read_wanted(
    body: Mapping[str, Any],
    workload: Workload,
    room_tokens: int | None,
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    raw: bool = False,
) -> Wanted:
    """Return what a body asks for beside its text, which are ``messages`` already.

    ``workload`` is the most urgent that its caller may ask for, ``room_tokens`` the
    longest context of a server. ``raw``: a text to go on with, not a chat. Raises
    ``ApiError``.
    """
    for name in _REFUSED:
        if body.get(name) not in (None, False, 0, ""):
            raise errors.invalid(
                f"Fair Share can't give {name}.", name, "unsupported_parameter"
            )
    if body.get("n") not in (None, 1):
        raise errors.invalid(
            "One answer can be had for each request.", "n", "unsupported_parameter"
        )
    stream = _flag(body, "stream")
    options = body.get("stream_options") or {}
    if not isinstance(options, Mapping):
        raise errors.invalid("These have to be an object.", "stream_options")
    generation = GenerationRequest(
        messages,
        _most_tokens(body, room_tokens),
        model=model_of(body.get("model")),
        tools=tools,
        parameters=_parameters(body),
        raw=raw,
    )
    return Wanted(
        generation,
        _lowered(workload, body),
        stream,
        include_usage=not stream or options.get("include_usage") is True,
    )


def model_of(model: object) -> str | None:
    """Return the model that is named, ``None`` for any. Raises ``ApiError``."""
    if model is not None and not isinstance(model, str):
        raise errors.invalid("A model is named by a text.", "model")
    return None if model is None or model in ANY_MODEL else model


def _most_tokens(body: Mapping[str, Any], room_tokens: int | None) -> int:
    """Return how long the answer may be; half of the context unless it is told."""
    for name in ("max_completion_tokens", "max_tokens"):
        if (most := body.get(name)) is None:
            continue
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise errors.invalid("This has to be a whole number above 0.", name)
        return most if room_tokens is None else min(most, room_tokens)
    if room_tokens is None:
        return DEFAULT_OUTPUT_TOKENS
    return max(1, min(_MOST_BY_DEFAULT, room_tokens // 2))


def _parameters(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields that are passed on: all that do not touch the queue's rules."""
    stop = body.get("stop")
    stops = stop if isinstance(stop, list) else [stop]
    if not all(each is None or isinstance(each, str) for each in stops):
        raise errors.invalid("This is a text or a list of texts.", "stop")
    if len(stops) > _MOST_STOPS:
        raise errors.invalid(f"There may be {_MOST_STOPS} of them.", "stop")
    return {
        name: text_of(value)
        for name, value in body.items()
        if name not in _OURS
        and name not in _NEVER_PASSED
        and name not in _REFUSED
        and not name.startswith(_NEVER_PREFIXES)
        and value is not None
    }


def _lowered(workload: Workload, body: Mapping[str, Any]) -> Workload:
    """Return the kind of request, less urgent if it asks for that; never more.

    OpenAI's ``service_tier`` has ``flex`` for what can wait, vLLM's ``priority`` is
    higher for it.
    """
    tier = body.get("service_tier")
    if tier == _FLEX:
        return Workload.BACKGROUND
    if tier not in _NO_OTHER_TIER:
        raise errors.invalid("This tier is not known.", "service_tier")
    later = body.get("priority")
    if isinstance(later, int | float) and later > 0:
        return Workload.BACKGROUND
    return workload


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise errors.invalid("This is true or false.", name)


def text_of(value: Any) -> Any:  # noqa: ANN401 - JSON of any kind
    """Return a value, well-formed if it is a text."""
    return well_formed(value) if isinstance(value, str) else value
