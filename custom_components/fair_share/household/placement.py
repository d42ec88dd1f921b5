"""Which servers are able to answer a request, whether they can be reached or not.

A server that is away was seen able and may come back; one that was never seen may turn
out to be. Only when every server is known not to be able, nothing is gained by waiting.
"""

from collections.abc import Collection

from ..admission.model import Rejected, RejectReason
from ..engines.base import Capabilities, GenerationRequest
from .watched import ServerView


def servers_for(
    request: GenerationRequest, servers: Collection[ServerView]
) -> frozenset[str]:
    """Return the ids of the servers that are able to answer a request.

    They have the model that it names, if it does, can see if it shows pictures, and
    take tools if it brings some and any of them does: one that drops them can still
    talk. Raises ``Rejected`` with what is missing if there are servers and none is.
    """
    shows = _shows_pictures(request)
    have = [each for each in servers if _has_model(each.capabilities, request.model)]
    if servers and not have:
        raise Rejected(RejectReason.NO_MODEL)
    see = [each for each in have if not shows or _sees(each.capabilities)]
    if servers and not see:
        raise Rejected(RejectReason.NO_VISION)
    call = [each for each in see if _takes_tools(each.capabilities)]
    able = call if request.tools and call else see
    return frozenset(each.server_id for each in able)


def _has_model(known: Capabilities | None, model: str | None) -> bool:
    if known is None or model is None:
        return True
    return model in (known.model, *known.models)


def _sees(known: Capabilities | None) -> bool:
    return known is None or known.vision


def _takes_tools(known: Capabilities | None) -> bool:
    return known is None or known.tools


def _shows_pictures(request: GenerationRequest) -> bool:
    return any(
        isinstance(part, dict) and part.get("type") == "image_url"
        for message in request.messages
        if isinstance(content := message.get("content"), list)
        for part in content
    )
