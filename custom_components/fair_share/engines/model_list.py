"""The list of models of a server: the one question that all of them answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .base import EngineError, NoChatModelError, NotAnEngineError
from .http import ServerHttp
from .surrogates import well_formed

_NO_SUCH_PATH = {400, 404, 405, 501}
# Models that a server may list but that cannot chat; only decides which is tried first.
_NO_CHAT_NAMES = ("embed", "rerank", "whisper", "tts")


@dataclass(frozen=True, slots=True)
class ModelList:
    """The entries, likely chat models first, and the name of the web server."""

    entries: Sequence[Mapping[str, Any]]
    server: str


async def list_models(http: ServerHttp) -> ModelList:
    """Return the models of a server.

    Raises ``NotAnEngineError`` if it has no such list, ``NoChatModelError`` if the list
    is empty, or another ``EngineError``.
    """
    try:
        answer = await http.get("/v1/models")
    except EngineError as err:
        if err.status in _NO_SUCH_PATH:
            raise NotAnEngineError("there is no list of models") from None
        raise
    fields = answer.fields()
    if "data" not in fields:
        raise NotAnEngineError("the answer is not a list of models")
    data = fields["data"]
    entries = [
        {**entry, "id": well_formed(entry["id"])}
        for entry in (data if isinstance(data, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"]
    ]
    if not entries:
        raise NoChatModelError("the list of models is empty")
    return ModelList(sorted(entries, key=_looks_unfit), answer.server)


def _looks_unfit(entry: Mapping[str, Any]) -> bool:
    name = entry["id"].lower()
    return any(part in name for part in _NO_CHAT_NAMES)
