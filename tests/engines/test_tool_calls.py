"""Tool calls out of fragments, numbered by servers of all kinds."""

from collections.abc import Mapping
import json
from typing import Any

import pytest

from custom_components.fair_share.engines.tool_calls import (
    CallIndexer,
    ToolCall,
    assemble,
)


def part(
    index: int | None = 0,
    call_id: str | None = None,
    name: str | None = None,
    arguments: object = None,
) -> Mapping[str, Any]:
    """Return one entry of ``delta.tool_calls``, without what is ``None``."""
    function = {"name": name, "arguments": arguments}
    raw = {
        "index": index,
        "id": call_id,
        "function": {k: v for k, v in function.items() if v is not None},
    }
    return {k: v for k, v in raw.items() if v is not None}


def calls(*fragments: Mapping[str, Any]) -> list[ToolCall]:
    indexer = CallIndexer()
    deltas = [delta for raw in fragments for delta in indexer.fragment(raw, 1)]
    return assemble(deltas)


def summary(
    *fragments: Mapping[str, Any],
) -> list[tuple[str, Mapping[str, Any] | None]]:
    return [(call.name, call.arguments) for call in calls(*fragments)]


ON = '{"name":"lamp"}'
ON_ARGS = {"name": "lamp"}


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        pytest.param(
            [
                part(0, "a", "on", ""),
                part(0, arguments='{"na'),
                part(0, arguments='me":"lamp"}'),
            ],
            [("on", ON_ARGS)],
            id="one call in fragments",
        ),
        pytest.param(
            [part(0, "a", "on", ON), part(1, "b", "off", ON)],
            [("on", ON_ARGS), ("off", ON_ARGS)],
            id="two calls, numbered",
        ),
        pytest.param(
            [part(0, "a", "on", ON), part(0, "b", "off", ON)],
            [("on", ON_ARGS), ("off", ON_ARGS)],
            id="two calls, both numbered 0",
        ),
        pytest.param(
            [
                part(0, "a", "on", ""),
                part(0, arguments=ON),
                part(0, "b", "on", ""),
                part(0, arguments=ON),
            ],
            [("on", ON_ARGS), ("on", ON_ARGS)],
            id="two equal calls in fragments, both numbered 0",
        ),
        pytest.param(
            [part(0, "a", "on", ON), part(1, "b", "on", ON)],
            [("on", ON_ARGS), ("on", ON_ARGS)],
            id="equal but different calls stay two",
        ),
        pytest.param(
            [part(0, "a", "on", ON), part(0, "a", "on", ON)],
            [("on", ON_ARGS)],
            id="a call that is sent twice stays one",
        ),
        pytest.param(
            [part(0, "a", "on", '{"name":'), part(0, "a", "on", '"lamp"}')],
            [("on", ON_ARGS)],
            id="id and name in every fragment",
        ),
        pytest.param(
            [part(0, "a", "on", '{"name":'), part(0, "zz", None, '"lamp"}')],
            [("on", ON_ARGS)],
            id="a new id for every fragment",
        ),
        pytest.param(
            [part(None, "a", "on", '{"name":'), part(None, arguments='"lamp"}')],
            [("on", ON_ARGS)],
            id="no index",
        ),
        pytest.param(
            [part(0, None, "on", ON), part(0, None, "on", ON)],
            [("on", ON_ARGS), ("on", ON_ARGS)],
            id="no ids, two whole calls",
        ),
        pytest.param(
            [part(0, None, "on", ""), part(0, None, "off", "")],
            [("on", {}), ("off", {})],
            id="no ids, no arguments, two names",
        ),
        pytest.param([part(0, "a", "now", "")], [("now", {})], id="no arguments"),
        pytest.param([part(0, "a", "now")], [("now", {})], id="arguments missing"),
        pytest.param([part(0, "a", "now", "null")], [("now", {})], id="null"),
        pytest.param([part(0, "a", "on", ON_ARGS)], [("on", ON_ARGS)], id="an object"),
        pytest.param([{"index": 0, "id": "a"}], [("", {})], id="no function at all"),
        pytest.param([part(0, "a", "now", '""')], [("now", {})], id="an empty text"),
        pytest.param([part(0, "a", "now", "[]")], [("now", {})], id="an empty list"),
        pytest.param(
            [part(0, "a", "on", json.dumps(ON))],
            [("on", ON_ARGS)],
            id="written down twice",
        ),
        pytest.param(
            [part(0, "a", "turn", ""), part(0, name="_on"), part(0, arguments=ON)],
            [("turn_on", ON_ARGS)],
            id="a name in pieces",
        ),
        pytest.param([part(0, "a", " on\n", ON)], [("on", ON_ARGS)], id="blanks"),
        pytest.param(
            [part(0, "a"), part(0, name="on", arguments=ON)],
            [("on", ON_ARGS)],
            id="a name that comes after the id",
        ),
        pytest.param(
            [part(0, "a", "on", ON), part(1, "a", "off", ON)],
            [("on", ON_ARGS), ("off", ON_ARGS)],
            id="one id for all calls",
        ),
    ],
)
def test_fragments_become_the_calls_that_were_meant(
    fragments: list[Mapping[str, Any]], expected: list[tuple[str, Mapping[str, Any]]]
) -> None:
    assert summary(*fragments) == expected


@pytest.mark.parametrize(
    "text",
    ['{"name": "la', "on", "[1]", '"on"', "{'a': 1}", '{"a": NaN}', "[" * 99999],
)
def test_malformed_arguments_are_told_not_raised(text: str) -> None:
    (call,) = calls(part(0, "a", "on", text))
    assert call.arguments is None
    assert call.raw_arguments == text
    assert call.error == "The arguments are not a valid JSON object."


def test_a_call_without_name_says_so() -> None:
    (call,) = calls(part(0, "a", None, ON))
    assert call.error == "The tool call has no name."


def test_a_call_without_id_gets_one_of_its_own() -> None:
    ids = [
        call.call_id for call in calls(part(0, None, "on", ON), part(1, None, "off"))
    ]
    assert ids == ["call_0", "call_1"]


def test_every_call_has_an_id_of_its_own() -> None:
    fragments = [part(n, "a", "on", f'{{"level": {n}}}') for n in range(3)]
    assert [call.call_id for call in calls(*fragments)] == ["a", "a_1", "a_2"]


def test_a_call_that_comes_again_under_its_id_is_the_same() -> None:
    assert len(calls(part(0, "a", "on", ON), part(1, "a", "on", ON))) == 1


def test_arguments_keep_their_characters() -> None:
    (call,) = calls(part(0, "a", "say", '{"text":"õhtu 寝室"}'))
    assert call.arguments == {"text": "õhtu 寝室"}
