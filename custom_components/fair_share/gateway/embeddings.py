"""Embeddings of texts, which wait for their turn as background work."""

from collections.abc import Mapping
from typing import Any

from homeassistant.helpers.json import json_bytes
from homeassistant.util.json import JSON_ENCODE_EXCEPTIONS

from ..admission.model import Rejected, RejectReason, Workload
from ..engines.base import EngineError, GenerationRequest, ServerFaultError
from ..engines.values import whole
from ..household.estimate import estimate_tokens
from ..household.outside_work import OutsideWork, admitted
from ..household.runtime import Household
from ..household.watched import WatchedServer
from . import errors
from .callers import Caller
from .wanted import model_of

_PASSED = ("dimensions", "encoding_format", "input")


async def embed(
    household: Household, caller: Caller, body: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return what a server answers. Raises ``ApiError``."""
    told = {name: body[name] for name in _PASSED if name in body}
    prompt_tokens = _length(told.get("input"))
    try:
        server = _server(household, model_of(body.get("model")))
        work = OutsideWork(
            caller.asker,
            Workload.BACKGROUND,
            server.subentry.subentry_id,
            prompt_tokens,
            output_tokens=1,
        )
        async with admitted(household, work) as spending:
            answer = _checked(await server.engine.embed(told))
            told_tokens = _used(answer)
            spending.spent(
                prompt=told_tokens or prompt_tokens,
                cached=0,
                output=0,
                estimated=told_tokens is None,
            )
    except (Rejected, EngineError) as err:
        raise errors.explain(err) from err
    return answer


def _checked(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an answer that holds embeddings and can be passed on.

    Raises ``ServerFaultError``.
    """
    try:
        json_bytes(answer)
    except JSON_ENCODE_EXCEPTIONS:
        raise ServerFaultError("embeddings that are no JSON") from None
    if not isinstance(answer.get("data"), list):
        raise ServerFaultError("an answer without embeddings")
    return answer


def _server(household: Household, model: str | None) -> WatchedServer:
    """Return a server that has the model. Raises ``Rejected``."""
    for server in household.servers.ready():
        known = server.capabilities
        if model is None or known is None or model in (known.model, *known.models):
            return server
    ready = bool(household.servers.ready())
    raise Rejected(RejectReason.NO_MODEL if ready else RejectReason.NO_SERVER)


def _length(texts: object) -> int:
    """Return about how many tokens there are. Raises ``ApiError``."""
    if isinstance(texts, str):
        texts = [texts] if texts else []
    if not isinstance(texts, list) or not texts:
        raise errors.invalid("There has to be a text, or a list of texts.", "input")
    if all(type(token) is int for token in texts):
        return len(texts)
    if all(isinstance(text, str) for text in texts):
        messages = [{"role": "user", "content": text} for text in texts]
        return estimate_tokens(GenerationRequest(messages, 1))
    if all(isinstance(text, list) for text in texts):
        return sum(map(len, texts))
    raise errors.invalid("There has to be a text, or a list of texts.", "input")


def _used(answer: Mapping[str, Any]) -> int | None:
    usage = answer.get("usage")
    return whole(usage.get("prompt_tokens")) if isinstance(usage, Mapping) else None
