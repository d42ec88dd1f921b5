"""Calls in the text, whatever shape a model gives them and wherever it is cut."""

import pytest

from custom_components.fair_share.agents.printed_calls import PrintedCalls
from custom_components.fair_share.agents.printed_shapes import (
    PrintedCall,
    call_in_python,
)

NAMES = frozenset({"turn_on", "house__look"})
LAMP = PrintedCall("turn_on", {"name": "lamp"})

CALLS = [
    ('{"name": "turn_on", "arguments": {"name": "lamp"}}', "", [LAMP]),
    ('{"name": "turn_on", "arguments": "{\\"name\\": \\"lamp\\"}"}', "", [LAMP]),
    ('{ "tool": "turn_on", "parameters": {"name": "lamp"} }', "", [LAMP]),
    ('{"function": {"name": "turn_on", "arguments": {"name": "lamp"}}}', "", [LAMP]),
    ('{"tool_calls": [{"name": "turn_on", "args": {"name": "lamp"}}]}', "", [LAMP]),
    ('[{"name": "turn_on", "arguments": {"name": "lamp"}}] Ok.', "", [LAMP]),
    ('{"name": "house__look"}', "", [PrintedCall("house__look", {})]),
    ('{"name": "other", "arguments": {}}', "", [PrintedCall("other", {})]),
    ('{"name": "turn_on", "arguments": "lamp"}', "", [PrintedCall("turn_on", None)]),
    ('{"name": "turn_on", "arguments": "[1]"}', "", [PrintedCall("turn_on", None)]),
    (
        (
            'On it. <tool_call>{"name": "turn_on", "arguments": {"name": "lamp"}}'
            "</tool_call>It is on."
        ),
        "On it. ",
        [LAMP],
    ),
    (
        (
            "<tool_call>\n<function=turn_on>\n<parameter=name>\nlamp\n</parameter>\n"
            "<parameter=level>\n3\n</parameter>\n</function>\n</tool_call>"
        ),
        "",
        [PrintedCall("turn_on", {"name": "lamp", "level": 3})],
    ),
    ('<function=turn_on>{"name": "lamp"}</function>', "", [LAMP]),
    ('[TOOL_CALLS][{"name":"turn_on","arguments":{"name":"lamp"}}]', "", [LAMP]),
    ('[TOOL_CALLS]turn_on[ARGS]{"name": "lamp"}', "", [LAMP]),
    ('```json\n{"name": "turn_on", "parameters": {"name": "lamp"}}\n```', "", [LAMP]),
    (
        '```\n{"service": "light.turn_on", "target_device": "light.lamp"}\n```',
        "",
        [PrintedCall("light.turn_on", {"target_device": "light.lamp"})],
    ),
    ('turn_on(name="lamp")', "", [LAMP]),
    ('[turn_on(name="lamp")]', "", [LAMP]),
    (
        'Now turn_on (name="(lamp)").',
        "Now ",
        [PrintedCall("turn_on", {"name": "(lamp)"})],
    ),
    ('turn_on("lamp")', "", [PrintedCall("turn_on", None)]),
    ("turn_on(name=lamp)", "", [PrintedCall("turn_on", None)]),
    ("turn_on(**lamp)", "", [PrintedCall("turn_on", None)]),
    ('turn_on({"name": "lamp"})', "", [LAMP]),
    ('functions.turn_on({"name": "lamp"})', "", [LAMP]),
    ("turn_on({[]: 1})", "", [PrintedCall("turn_on", None)]),
    ("turn_on(name={1, 2})", "", [PrintedCall("turn_on", None)]),
    ('look(name="lamp")', "", [PrintedCall("look", {"name": "lamp"})]),
    ('{"action": "turn_on", "action_input": {"name": "lamp"}}', "", [LAMP]),
    (
        (
            '{"name": "turn_on", "arguments": {"name": "lamp"}}\n'
            '{"name": "turn_on", "arguments": {"name": "lamp"}}'
        ),
        "",
        [LAMP, LAMP],
    ),
]

UNREADABLE = [
    '{"name": "turn_on", "argum',
    '{"name": "turn_on", "arguments": {name: lamp}}',
    "{'name': 'turn_on', 'arguments': {}}",
    "<tool_call>turn_on</tool_call>",
    "<tool_call>{}</tool_call>",
    "<|python_tag|>turn_on.call()",
    "<function=turn_on>",
    'turn_on(name="lamp',
    "```tool_code\nprint(turn_on(name=1))\n```",
    "turn_on(" + "x" * 5000,
]

PLAIN = [
    'Use {"service": "light.turn_on", "data": {}} there.',
    "It is 20 degrees.",
    'The data is {"temperature": 20, "name": "hall"}.',
    '{"name": "Child", "age": 3} is Child.',
    '{"name": "Child"}',
    "[1] and [2]; {{ states('light.lamp') }}; a < b; <b>bold</b>; `code`",
    '```json\n{"a": [1, 2]}\n```\nThat was it.',
    "```python\nprint([1])\n```",
    "turn_on is a tool. I could turn_on",
    "These functions. They look good",
    '{"action": "light.turn_on", "data": {"entity_id": "light.lamp"}}',
    "It ends with {",
    "It ends with [",
    "It ends with <tool",
    '{"type": "cat", "legs": four}',
    '[{"a": 1}, {"b": 2}]',
    '[{"a": 1}, 2]',
    '{"id": "' + "x" * 5000 + '"}',
]


def read(
    text: str, step: int, names: frozenset[str] = NAMES
) -> tuple[PrintedCalls, str]:
    """Feed the text in pieces of so many characters."""
    printed = PrintedCalls(names)
    pieces = [text[at : at + step] for at in range(0, len(text), step)]
    spoken = "".join([printed.feed(piece) for piece in pieces])
    return printed, spoken + printed.finish()


@pytest.mark.parametrize("step", [1, 2, 5, 10_000])
@pytest.mark.parametrize(("text", "spoken", "calls"), CALLS)
def test_a_call_is_found_and_not_spoken(
    text: str, spoken: str, calls: list[PrintedCall], step: int
) -> None:
    printed, said = read(text, step)
    assert (said, printed.calls, printed.found) == (spoken, calls, True)


@pytest.mark.parametrize("step", [1, 2, 5, 10_000])
@pytest.mark.parametrize("text", UNREADABLE)
def test_what_is_meant_as_a_call_is_not_spoken(text: str, step: int) -> None:
    printed, said = read(text, step)
    assert (said, printed.calls, printed.unreadable) == ("", [], True)


@pytest.mark.parametrize("step", [1, 2, 5, 10_000])
@pytest.mark.parametrize("text", PLAIN)
def test_all_other_text_is_spoken_as_it_is(text: str, step: int) -> None:
    printed, said = read(text, step)
    assert (said, printed.found) == (text, False)


def test_an_expression_that_calls_nothing_is_no_call() -> None:
    assert call_in_python("1 + (2)") is None


def test_text_without_any_tools_is_spoken_as_it_is() -> None:
    printed, said = read("turn_on(1)", 1, frozenset())
    assert (said, printed.found) == ("turn_on(1)", False)


def test_text_is_spoken_as_soon_as_it_can_be_no_call() -> None:
    printed = PrintedCalls(NAMES)
    assert printed.feed("It is ") == "It is "
    assert printed.feed("t") == ""
    assert printed.feed("wenty") == "twenty"
    assert printed.feed(" {") == " "
    assert printed.feed('"temperature": ') == '{"temperature": '
    assert printed.feed("20}") == "20}"
