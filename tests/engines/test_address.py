"""Addresses as people type them."""

import pytest

from custom_components.fair_share.engines.address import (
    candidate_addresses,
    normalise_address,
)
from custom_components.fair_share.engines.base import InvalidAddressError


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("http://host:8080", "http://host:8080"),
        ("http://host:8080/", "http://host:8080"),
        (" host:8080 ", "http://host:8080"),
        ("host :8080", "http://host:8080"),
        ("http: //host / v1", "http://host"),
        ("HOST.local:8080", "http://host.local:8080"),
        ("HTTP://host:8080", "http://host:8080"),
        ("host", "http://host"),
        ("192.168.1.5:8000/v1", "http://192.168.1.5:8000"),
        ("http://host:8000/v1/", "http://host:8000"),
        ("http://host:8000/v1/chat/completions", "http://host:8000"),
        ("https://host/llm/v1/models?x=1#y", "https://host/llm"),
        ("https://host/llm/", "https://host/llm"),
        ("http://[::1]:8080/v1", "http://[::1]:8080"),
        ("fe80::1", "http://[fe80::1]"),
        ("bücher.example:80", "http://bücher.example:80"),
    ],
)
def test_what_people_type_becomes_one_address(typed: str, expected: str) -> None:
    assert normalise_address(typed) == expected
    assert normalise_address(expected) == expected


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "   ",
        "http://",
        "ftp://host",
        "unix:///run/llm.sock",
        "hello world",
        "host 8080",
        "host:notaport",
        "host:99999",
        "host:0",
        "http://user:secret@host:8080",
        "http://[::1",
    ],
)
def test_what_is_no_address_is_refused_without_repeating_it(typed: str) -> None:
    with pytest.raises(InvalidAddressError) as error:
        normalise_address(typed)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("host:9", ["http://host:9"]),
        ("https://host", ["https://host"]),
        ("host", ["http://host:8080", "http://host:8000", "http://host"]),
        ("http://host/v1", ["http://host", "http://host:8080", "http://host:8000"]),
        ("::1", ["http://[::1]:8080", "http://[::1]:8000", "http://[::1]"]),
    ],
)
def test_without_a_port_the_usual_ports_are_tried(
    typed: str, expected: list[str]
) -> None:
    assert candidate_addresses(typed) == expected
