"""Prompt length where no server can count it."""

import pytest

from custom_components.fair_share.engines.base import GenerationRequest
from custom_components.fair_share.household.estimate import estimate_tokens


def tokens(*contents: object, tools: tuple[dict[str, object], ...] = ()) -> int:
    messages = [{"role": "user", "content": content} for content in contents]
    return estimate_tokens(GenerationRequest(messages, 10, tools=tools))


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("The quick brown fox jumps over the lazy dog. " * 10, 100, 150),
        ("寝室の電気を消してください。" * 10, 140, 190),
        ("Schöne Grüße aus Köln" * 10, 55, 75),
    ],
)
def test_the_estimate_is_of_the_right_size_in_every_script(
    text: str, least: int, most: int
) -> None:
    assert least <= tokens(text) <= most


def test_every_message_costs_something() -> None:
    assert tokens("", None) > tokens("") > 0


def test_parts_pictures_calls_and_tools_count() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert tokens([{"type": "text", "text": "see"}, picture]) > 1000
    assert tokens("hi", tools=({"name": "x" * 70},)) >= tokens("hi") + 20
    calls = [{"role": "assistant", "content": "", "tool_calls": [{"id": "x" * 70}]}]
    assert estimate_tokens(GenerationRequest(calls, 10)) > tokens("") + 20
