"""The shapes in which models print a tool call into their text."""

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
import json
import re
from typing import Any

NAME_KEYS = ("name", "tool", "tool_name", "function", "function_name", "action")
ARGUMENT_KEYS = (
    "arguments",
    "parameters",
    "args",
    "tool_args",
    "tool_input",
    "input",
    "action_input",
)
WRAPPER_KEYS = ("tool_calls", "tool_call", "function_call", "function")
_FUNCTION_TAG = re.compile(r"<function=([^>\s]+)>(.*?)</function>", re.DOTALL)
_PARAMETER_TAG = re.compile(r"<parameter=([^>\s]+)>(.*?)</parameter>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PrintedCall:
    """A tool call found in the text; ``arguments`` is ``None`` if it can't be read."""

    name: str
    arguments: Mapping[str, Any] | None


def calls_in_json(value: object, names: Collection[str]) -> list[PrintedCall]:
    """Return the calls that a JSON value stands for, none if it is something else."""
    if isinstance(value, list):
        found = [calls_in_json(item, names) for item in value]
        return [call for calls in found for call in calls] if all(found) else []
    if not isinstance(value, dict):
        return []
    for wrapper in WRAPPER_KEYS:
        if isinstance(inner := value.get(wrapper), dict | list):
            return calls_in_json(inner, names)
    call = _call(value, names)
    return [call] if call else []


def call_in_tags(text: str) -> PrintedCall | None:
    """Return the call in ``<function=...>`` tags, its arguments in JSON or in tags."""
    if not (match := _FUNCTION_TAG.search(text)):
        return None
    name, body = match.groups()
    if parameters := _PARAMETER_TAG.findall(body):
        return PrintedCall(name, {key: _value(text) for key, text in parameters})
    return PrintedCall(name, _object(body))


def call_in_python(text: str) -> PrintedCall | None:
    """Return the call in ``name(key=value)``, ``None`` if it is not complete yet.

    The name may have a namespace before it, and the arguments may be one object.
    """
    try:
        node = ast.parse(text.lstrip("[ "), mode="eval").body
    except SyntaxError, ValueError:
        return None
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return PrintedCall(name, _arguments(node))
        case _:
            return None


def _call(value: Mapping[str, Any], names: Collection[str]) -> PrintedCall | None:
    service = value.get("service")
    if isinstance(service, str) and "target_device" in value:
        # As models print it that were made for Home Assistant. A service call without
        # this key may be what somebody asked to be shown.
        return PrintedCall(service, {k: v for k, v in value.items() if k != "service"})
    name = next((value[k] for k in NAME_KEYS if isinstance(value.get(k), str)), None)
    if name is None:
        return None
    for key in ARGUMENT_KEYS:
        if isinstance(arguments := value.get(key), dict | str):
            return PrintedCall(name, _object(arguments))
    return PrintedCall(name, {}) if name in names else None


def _object(value: Mapping[str, Any] | str) -> Mapping[str, Any] | None:
    if isinstance(value, Mapping):
        return value
    try:
        parsed = json.loads(value or "{}")
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _value(text: str) -> object:
    text = text.strip()
    try:
        return json.loads(text)
    except ValueError:
        return text


def _arguments(call: ast.Call) -> Mapping[str, Any] | None:
    try:
        match call:
            case ast.Call(args=[]):
                arguments = dict(_literals(call))
            case ast.Call(args=[ast.Dict() as one], keywords=[]):
                arguments = ast.literal_eval(one)
            case _:
                return None
        # Python writes more than JSON can: sets, bytes, keys of any kind.
        return _object(json.dumps(arguments, allow_nan=False))
    except ValueError, TypeError:
        return None


def _literals(call: ast.Call) -> Iterator[tuple[str, object]]:
    for keyword in call.keywords:
        if keyword.arg is None:
            raise ValueError
        yield keyword.arg, ast.literal_eval(keyword.value)
