"""Prompt length where no server can count it."""

from base64 import b64decode, b64encode
from io import BytesIO
import time
import wave

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


def wav(seconds: int, rate: int = 16_000) -> str:
    """Return a recording in base64."""
    file = BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(bytes(2 * rate * seconds))
    return b64encode(file.getvalue()).decode()


@pytest.mark.parametrize(
    ("data", "windows"),
    [
        (wav(1), 1),
        (wav(29), 1),
        (wav(31), 2),
        (wav(31, rate=48_000), 2),
        # Of what is no WAV file, or says nothing of use, only the size is known.
        ("A" * 800_000, 3),
        ("", 1),
        ("no base64 at all", 1),
    ],
    ids=["second", "window", "next window", "finer", "compressed", "empty", "odd"],
)
def test_sound_counts_by_how_long_it_is(data: str, windows: int) -> None:
    text = {"type": "text", "text": "hear"}
    sent = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    url = f"data:audio/wav;base64,{data}"
    named = {"type": "audio_url", "audio_url": {"url": url}}
    alone = tokens([text])
    assert tokens([text, sent]) - alone == 750 * windows
    assert tokens([text, named]) - alone == 750 * windows


def test_a_recording_that_lies_about_itself_is_not_taken_for_short() -> None:
    head = bytearray(b64decode(wav(60)))
    head[28:32] = b"\xff" * 4
    data = b64encode(bytes(head)).decode()
    part = {"type": "input_audio", "input_audio": {"data": data}}
    assert tokens([part]) >= 750
    head[28:32] = bytes(4)
    data = b64encode(bytes(head)).decode()
    part = {"type": "input_audio", "input_audio": {"data": data}}
    assert tokens([part]) < 750 * 10


def test_the_least_counts_texts_calls_and_tools_but_no_pictures() -> None:
    picture = {"type": "image_url", "image_url": {"url": "x" * 16_000}}
    content = [{"type": "text", "text": "x" * 1600}, picture]
    calls = [{"id": "x" * 1600}]
    messages = [{"role": "user", "content": content, "tool_calls": calls}]
    request = GenerationRequest(messages, 10, tools=({"name": "x" * 1600},))
    assert 300 <= fewest_tokens(request) <= 305
