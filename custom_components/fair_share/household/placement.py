"""Which servers are able to answer a request, whether they can be reached or not.

A server that is away was seen able and may come back; one that was never seen may turn
out to be. Only when every server is known not to be able, nothing is gained by waiting.
"""

from collections.abc import Collection, Mapping

from ..admission.model import Rejected, RejectReason
from ..engines.base import Capabilities, GenerationRequest
from ..engines.media import Medium, media_of, takes
from .watched import ServerView

_MISSING: Mapping[Medium, RejectReason] = {
    Medium.PICTURE: RejectReason.NO_VISION,
    Medium.SOUND: RejectReason.NO_AUDIO,
}


def servers_for(
    request: GenerationRequest, servers: Collection[ServerView]
) -> frozenset[str]:
    """Return the ids of the servers that are able to answer a request.

    They have the model that it names, if it does, take pictures and sound if it has
    some, and take tools if it brings some and any of them does: one that drops them can
    still talk. Raises ``Rejected`` with what is missing if there are servers and none
    is.
    """
    have = [each for each in servers if _has_model(each.capabilities, request.model)]
    if servers and not have:
        raise Rejected(RejectReason.NO_MODEL)
    for medium in sorted(set(media_of(request))):
        have = [each for each in have if _takes(each.capabilities, medium)]
        if servers and not have:
            raise Rejected(_MISSING[medium])
    call = [each for each in have if _takes_tools(each.capabilities)]
    able = call if request.tools and call else have
    return frozenset(each.server_id for each in able)


def _has_model(known: Capabilities | None, model: str | None) -> bool:
    if known is None or model is None:
        return True
    return model in (known.model, *known.models)


def _takes(known: Capabilities | None, medium: Medium) -> bool:
    return known is None or takes(known, medium)


def _takes_tools(known: Capabilities | None) -> bool:
    return known is None or known.tools
