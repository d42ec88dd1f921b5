"""The cases of ``tests/corpus/cases``: what a server sends, and what comes of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "corpus" / "cases"
_OFFSETS = 20


@dataclass(frozen=True, slots=True)
class Case:
    """One stream.

    ``data`` is all that the server sends as its answer, ``end`` how it ends then: by
    closing (``close``), without the end of the body (``drop``) or with a reset
    (``reset``). ``calls`` are names and arguments of the tools to be called, ``usage``
    the tokens of prompt and answer, ``None`` where they are not told. With ``error``
    the answer breaks off after ``text``.

    ``then`` is what the server answers to results of tools: the same data ``again``,
    ``nothing``, or that it is ``done``. ``agent_calls`` and ``said`` are what an agent
    makes of it, where that is not just what came: a client of the gateway runs its own
    tools, an agent corrects, refuses and stops.
    """

    name: str
    about: str
    source: str
    data: bytes
    end: str
    text: str
    thinking: str
    calls: Sequence[tuple[str, str]]
    finish: str | None
    error: bool
    usage: tuple[int, int] | None
    then: str
    agent_calls: Sequence[str]
    said: str | None


def cases() -> list[Case]:
    """Return all of them, by name."""
    return [_case(path) for path in sorted(FOLDER.glob("*.json"))]


def splits(data: bytes) -> Iterator[list[bytes]]:
    """Yield the data whole, in single bytes, and in two at places all over it."""
    yield [data]
    yield [data[n : n + 1] for n in range(len(data))]
    step = max(1, len(data) // _OFFSETS)
    for at in range(1, len(data), step):
        yield [data[:at], data[at:]]


def _case(path: Path) -> Case:
    told: dict[str, Any] = json.loads(path.read_text())
    expected = told["expect"]
    usage = expected["usage"]
    agent = expected.get("agent", {})
    calls = [(name, arguments) for name, arguments in expected["calls"]]
    return Case(
        name=path.stem,
        about=told["about"],
        source=told["source"],
        data="".join(told["chunks"]).encode(),
        end=told["end"],
        text=expected["text"],
        thinking=expected["thinking"],
        calls=calls,
        finish=expected["finish"],
        error=expected["error"],
        usage=usage and (usage[0], usage[1]),
        then=told.get("then", "done"),
        agent_calls=agent.get("calls", [arguments for _, arguments in calls]),
        said=agent.get("said"),
    )
