"""Finding out what listens at an address, and the engine for it."""

from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

from .address import candidate_addresses, normalise_address
from .base import (
    Capabilities,
    Engine,
    EngineError,
    EngineKind,
    NotAnEngineError,
    UnreachableError,
)
from .chat_engine import ChatEngine
from .http import ServerHttp, Timeouts
from .llama_cpp import LlamaCppEngine
from .model_list import list_models
from .openai_compatible import OpenAICompatibleEngine
from .scheduling_fields import Scheduling
from .vllm import VllmEngine

_ENGINES: Mapping[EngineKind, type[ChatEngine]] = {
    EngineKind.LLAMA_CPP: LlamaCppEngine,
    EngineKind.VLLM: VllmEngine,
    EngineKind.OPENAI_COMPATIBLE: OpenAICompatibleEngine,
}
_OWNERS = {"llamacpp": EngineKind.LLAMA_CPP, "vllm": EngineKind.VLLM}


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A server that was found: its address as it should be kept, and its engine."""

    address: str
    engine: Engine
    capabilities: Capabilities


def create_engine(
    session: aiohttp.ClientSession,
    address: str,
    api_key: str | None,
    kind: EngineKind,
    *,
    model: str | None = None,
    scheduling: Scheduling = Scheduling.NONE,
    timeouts: Timeouts | None = None,
) -> Engine:
    """Return the engine for a server of a known kind; asks the server nothing yet.

    ``model`` is used where a request names none; by default the server's first.
    ``scheduling`` is what the server schedules by. Raises ``InvalidAddressError``.
    """
    http = ServerHttp(session, normalise_address(address), api_key, timeouts)
    return _ENGINES[kind](http, model, scheduling=scheduling)


async def find_server(
    session: aiohttp.ClientSession,
    address: str,
    api_key: str | None = None,
    *,
    model: str | None = None,
    timeouts: Timeouts | None = None,
) -> FoundServer:
    """Find out what listens at an address as typed by a person, and try it.

    Raises ``InvalidAddressError`` for something that is no address,
    ``UnreachableError`` if nothing listens, ``NotAnEngineError`` if it is some other
    web server, and what ``Engine.probe`` raises.
    """
    failures: list[EngineError] = []
    for candidate in candidate_addresses(address):
        http = ServerHttp(session, candidate, api_key, timeouts)
        try:
            kind = await identify(http)
        except (UnreachableError, NotAnEngineError) as err:
            failures.append(err)
            continue
        engine = create_engine(
            session, candidate, api_key, kind, model=model, timeouts=timeouts
        )
        return FoundServer(candidate, engine, await engine.probe())
    # That something else answered there says more than that nothing listens elsewhere.
    raise min(failures, key=lambda err: isinstance(err, UnreachableError))


async def identify(http: ServerHttp) -> EngineKind:
    """Return the kind of server. Raises ``EngineError``."""
    models = await list_models(http)
    for entry in models.entries:
        if kind := _OWNERS.get(str(entry.get("owned_by"))):
            return kind
    if "llama.cpp" in models.server:
        return EngineKind.LLAMA_CPP
    return EngineKind.OPENAI_COMPATIBLE
