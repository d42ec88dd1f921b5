"""Prompt length where no server can count it."""

import time

import pytest

from custom_components.fair_share.engines.base import GenerationRequest
from custom_components.fair_share.household.estimate import (
    estimate_tokens,
    fewest_tokens,
)


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


@pytest.mark.parametrize("letter", ["a", "\u00e9", "\u5ba4", "\ud800"])
def test_a_text_of_megabytes_does_not_hold_everything_up(letter: str) -> None:
    size = len(letter.encode("utf-8", "surrogatepass"))
    content = letter * (16_000_000 // size)
    request = GenerationRequest([{"role": "user", "content": content}], 10)
    began = time.thread_time()
    assert 999_900 < fewest_tokens(request) < estimate_tokens(request)
    assert time.thread_time() - began < 0.2


def test_the_least_counts_texts_calls_and_tools_but_no_pictures() -> None:
    picture = {"type": "image_url", "image_url": {"url": "x" * 16_000}}
    content = [{"type": "text", "text": "x" * 1600}, picture]
    calls = [{"id": "x" * 1600}]
    messages = [{"role": "user", "content": content, "tool_calls": calls}]
    request = GenerationRequest(messages, 10, tools=({"name": "x" * 1600},))
    assert 300 <= fewest_tokens(request) <= 305
