"""Which servers are able to answer a request."""

import pytest

from custom_components.fair_share.admission.model import Rejected, RejectReason
from custom_components.fair_share.engines.base import (
    Capabilities,
    EngineKind,
    GenerationRequest,
)
from custom_components.fair_share.household.placement import servers_for
from custom_components.fair_share.household.watched import ServerState, ServerView
from tests.engines.helpers import TOOL

PICTURE = [
    {"type": "text", "text": "What is this?"},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
]

SOUND = [
    {"type": "text", "text": "What do you hear?"},
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
]


def view(server_id: str, *models: str, away: bool = False, **can: bool) -> ServerView:
    """Return a server with these models; without any it was never seen."""
    known = Capabilities(EngineKind.VLLM, models[0], models, **can) if models else None
    state = ServerState.UNREACHABLE if away else ServerState.READY
    return ServerView(server_id, server_id, state, known, "")


def ask(content: object = "hello", **fields: object) -> GenerationRequest:
    """Return a request."""
    return GenerationRequest([{"role": "user", "content": content}], 8, **fields)  # type: ignore[arg-type]


SMALL = view("small", "small")
LARGE = view("large", "large", "small-too", vision=True)
HEARING = view("hearing", "hearing", audio=True)
MUTE = view("mute", "mute", tools=False)
NEVER_SEEN = view("new")


@pytest.mark.parametrize(
    ("request_", "servers", "able"),
    [
        pytest.param(ask(), [SMALL, LARGE, MUTE], "small large mute", id="no wishes"),
        pytest.param(ask(model="small-too"), [SMALL, LARGE], "large", id="by name"),
        pytest.param(ask(PICTURE), [SMALL, LARGE], "large", id="picture"),
        pytest.param(ask(tools=[TOOL]), [SMALL, MUTE], "small", id="tools"),
        pytest.param(ask(tools=[TOOL]), [MUTE], "mute", id="better than nothing"),
        pytest.param(
            ask(PICTURE),
            [SMALL, view("away", "large", away=True, vision=True)],
            "away",
            id="away but able",
        ),
        pytest.param(ask(PICTURE), [SMALL, NEVER_SEEN], "new", id="never seen"),
        pytest.param(ask(PICTURE, model="x"), [], "", id="no server yet"),
        pytest.param(ask(SOUND), [SMALL, LARGE, HEARING], "hearing", id="sound"),
        pytest.param(
            ask(PICTURE + SOUND),
            [LARGE, HEARING, view("both", "both", vision=True, audio=True)],
            "both",
            id="picture and sound",
        ),
    ],
)
def test_a_request_may_run_where_it_can_be_answered(
    request_: GenerationRequest, servers: list[ServerView], able: str
) -> None:
    assert servers_for(request_, servers) == set(able.split())


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (ask(model="unknown"), RejectReason.NO_MODEL),
        (ask(PICTURE), RejectReason.NO_VISION),
        (ask(PICTURE, model="small"), RejectReason.NO_VISION),
        (ask(PICTURE, model="unknown"), RejectReason.NO_MODEL),
        (ask(SOUND), RejectReason.NO_AUDIO),
    ],
)
def test_what_nobody_can_answer_is_refused_with_what_is_missing(
    request_: GenerationRequest, reason: RejectReason
) -> None:
    with pytest.raises(Rejected) as refusal:
        servers_for(request_, [SMALL, MUTE])
    assert refusal.value.reason is reason
    assert refusal.value.retry_after_s is None


def test_words_in_parts_are_no_picture() -> None:
    assert servers_for(ask([PICTURE[0]]), [SMALL]) == {"small"}
