"""Calls in shapes that no specification knows, from the wire to the tool."""

import json
from typing import Any

import pytest

from tests.agents.conftest import LOOK, TURN_ON, House, speech
from tests.fake_server import DONE, answer, chunk, raw

LAMP = {"name": "lamp"}
ON = json.dumps(LAMP)
ROLE = chunk({"role": "assistant"})
END = chunk({}, "tool_calls") + DONE


def part(name: str | None, arguments: object, **head: Any) -> str:
    """Return the chunk of one fragment of a call."""
    function = {"name": name, "arguments": arguments}
    return chunk({"tool_calls": [{**head, "function": function}]})


SHAPES = {
    "no index": [part(TURN_ON, ON, id="a")],
    "numbered from one": [
        part(TURN_ON, ON[:4], index=1, id="a"),
        part(None, ON[4:], index=1),
    ],
    "empty id": [part(TURN_ON, ON, index=0, id="")],
    "id is a number": [part(TURN_ON, ON, index=0, id=7)],
    "empty name and id later": [
        part(TURN_ON, "", index=0, id="a"),
        part("", ON, index=0, id=""),
    ],
    "name in pieces": [
        part("intent__", None, index=0, id="a"),
        part("HassTurnOn", None, index=0),
        part(None, ON, index=0),
    ],
    "name with blanks": [part(f" {TURN_ON}\n", ON, index=0, id="a")],
    "name with a namespace": [part(f"functions.{TURN_ON}", ON, index=0, id="a")],
    "arguments as an object": [part(TURN_ON, LAMP, index=0, id="a")],
    "arguments written down twice": [part(TURN_ON, json.dumps(ON), index=0, id="a")],
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_call_in_an_odd_shape_is_made_once(house: House, shape: str) -> None:
    house.server.script(raw(ROLE, *SHAPES[shape], END), answer("It is on."))
    assert speech(await house.say()) == "It is on."
    assert house.api.called() == [(TURN_ON, LAMP)]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param({"index": 1, "id": "a"}, id="one id for all calls"),
        pytest.param({"index": 0, "id": "b"}, id="one number for all calls"),
        pytest.param({"index": 1, "id": ""}, id="no id"),
        pytest.param({"id": "b"}, id="no number"),
    ],
)
async def test_two_calls_that_are_hard_to_tell_apart_are_both_made(
    house: House, second: dict[str, Any]
) -> None:
    first = {**second, "index": 0, "id": "a"}
    house.server.script(
        raw(ROLE, part(TURN_ON, ON, **first), part(LOOK, "{}", **second), END),
        answer("Both."),
    )
    assert speech(await house.say()) == "Both."
    assert house.api.called() == [(TURN_ON, LAMP), (LOOK, {})]
    ids = [call["id"] for call in house.sent_messages()[-3]["tool_calls"]]
    assert len(set(ids)) == 2


@pytest.mark.parametrize("arguments", ["", " ", "null", '""', "[]", None, {}])
async def test_no_arguments_may_be_written_in_many_ways(
    house: House, arguments: object
) -> None:
    """See haystack #9408."""
    house.server.script(
        raw(ROLE, part(LOOK, arguments, index=0, id="a"), END), answer("Looked.")
    )
    assert speech(await house.say()) == "Looked."
    assert house.api.called() == [(LOOK, {})]


async def test_a_number_that_is_no_json_is_told_to_the_model(house: House) -> None:
    house.server.script(
        raw(ROLE, part(TURN_ON, '{"name": NaN}', index=0, id="a"), END),
        answer("Sorry."),
    )
    assert speech(await house.say()) == "Sorry."
    assert house.api.called() == []


@pytest.mark.parametrize(
    "printed",
    [
        "functions.HassTurnOn({})",
        "HassTurnOn()",
        "```tool_code\nprint(HassTurnOn())\n```",
        '{"action": "HassTurnOn", "action_input": {}}',
        f"{TURN_ON}(name={{1, 2}})",
    ],
)
async def test_a_printed_call_that_does_not_name_a_tool_exactly_is_reported(
    house: House, printed: str
) -> None:
    house.server.script(answer(*printed), answer("Sorry."))
    assert speech(await house.say()) == "Sorry."
    assert house.api.called() == []
