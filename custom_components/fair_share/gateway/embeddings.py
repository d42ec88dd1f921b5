"""Embeddings of texts, which wait for their turn as background work."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from homeassistant.helpers.json import json_bytes
from homeassistant.util.json import JSON_ENCODE_EXCEPTIONS

from ..admission.model import Rejected, RejectReason, Workload
from ..engines.base import EngineError, GenerationRequest, ServerFaultError
from ..engines.values import whole
from ..household.estimate import estimate_tokens
from ..household.outside_work import OutsideWork, Spending, admitted
from ..household.runtime import Household
from ..household.watched import WatchedServer
from . import errors
from .callers import Caller
from .wanted import model_of

_PASSED = ("dimensions", "encoding_format", "input")
_TEXTS_AT_ONCE = 32


async def embed(
    household: Household, caller: Caller, body: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return what a server answers. Raises ``ApiError``."""
    told = {name: body[name] for name in _PASSED if name in body}
    if (model := model_of(body.get("model"))) is not None:
        told["model"] = model
    prompt_tokens = _length(told.get("input"))
    try:
        server = _server(household, model)
        work = OutsideWork(
            caller.asker,
            Workload.BACKGROUND,
            server.subentry.subentry_id,
            prompt_tokens,
            output_tokens=1,
        )
        async with admitted(household, work) as spending:
            return await _embed_all(server, told, spending)
    except (Rejected, EngineError) as err:
        raise errors.explain(err) from err


async def _embed_all(
    server: WatchedServer, told: Mapping[str, Any], spending: Spending
) -> Mapping[str, Any]:
    """Return the embeddings of all texts, which the server is asked for bit by bit.

    Whoever leaves has to pay what the server may have read by then. Raises
    ``EngineError``.
    """
    answers: list[Mapping[str, Any]] = []
    spent, estimated = 0, False
    for texts in _batches(told["input"]):
        expected = _length(texts)
        spending.spent(prompt=spent + expected, cached=0, output=0, estimated=True)
        answer = _checked(await server.engine.embed({**told, "input": texts}))
        used = _used(answer)
        spent += expected if used is None else used
        estimated |= used is None
        answers.append(answer)
        spending.spent(prompt=spent, cached=0, output=0, estimated=estimated)
    return answers[0] if len(answers) == 1 else _joined(answers, spent)


def _batches(texts: Any) -> Iterator[Any]:  # noqa: ANN401 - as a client sends it
    if isinstance(texts, str) or isinstance(texts[0], int):
        yield texts
        return
    for begin in range(0, len(texts), _TEXTS_AT_ONCE):
        yield texts[begin : begin + _TEXTS_AT_ONCE]


def _joined(answers: Sequence[Mapping[str, Any]], used: int) -> Mapping[str, Any]:
    data = [
        {**(each if isinstance(each, Mapping) else {}), "index": number}
        for number, each in enumerate(chain(*(answer["data"] for answer in answers)))
    ]
    usage = {"prompt_tokens": used, "total_tokens": used}
    return {**answers[0], "data": data, "usage": usage}


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
