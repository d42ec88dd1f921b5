"""Which of our own fields a server names when it refuses a request."""

from typing import Any

import pytest

from custom_components.fair_share.engines.base import ClientFaultError
from custom_components.fair_share.engines.dispensable import without
from custom_components.fair_share.engines.errors import error_from_status

PYDANTIC = (
    '{"error": {"message": "1 validation error: extra_forbidden", '
    '"param": "body.stream_options.continuous_usage_stats", "code": 400}}'
)
DETAIL = '{"detail": [{"loc": ["body", "priority"], "type": "extra_forbidden"}]}'
OPENAI = '{"error": {"message": "Unknown parameter: \'stream_options\'."}}'
UNNAMED = '{"error": {"message": "Something is wrong with prioritys"}}'


@pytest.mark.parametrize(
    ("status", "text", "named"),
    [
        (400, PYDANTIC, {"continuous_usage_stats"}),
        (422, DETAIL, {"priority"}),
        (400, OPENAI, {"stream_options"}),
        (400, UNNAMED, set()),
    ],
)
def test_the_fields_that_are_refused_are_found(
    status: int, text: str, named: set[str]
) -> None:
    error = error_from_status(status, text)
    assert isinstance(error, ClientFaultError)
    assert error.dispensable == named


OPTIONS = {"include_usage": True, "continuous_usage_stats": True}


@pytest.mark.parametrize(
    ("names", "left"),
    [
        (set(), {"priority": 1, "stream_options": OPTIONS}),
        ({"priority"}, {"stream_options": OPTIONS}),
        ({"stream_options"}, {"priority": 1}),
        (
            {"continuous_usage_stats"},
            {"priority": 1, "stream_options": {"include_usage": True}},
        ),
        ({"continuous_usage_stats", "stream_options"}, {"priority": 1}),
    ],
)
def test_a_body_goes_without_them(names: set[str], left: dict[str, Any]) -> None:
    body = {"model": "m", "priority": 1, "stream_options": OPTIONS}
    assert without(body, frozenset(names)) == {"model": "m", **left}
    assert body["stream_options"] == {
        "include_usage": True,
        "continuous_usage_stats": True,
    }
