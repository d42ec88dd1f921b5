"""Record what a real server sends as a case of the corpus.

Without ``--url`` the embedded llama.cpp server is started, with what each kind needs.
What is expected is put together here from the fields that the server sent, by no code
of the integration.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from importlib.metadata import version
import json
import os
from pathlib import Path
import signal
import sys
from typing import Any

import aiohttp

from demo.embedded_engine import EngineMissingError, embedded_engine

from .cases import FOLDER

_WORDS = "Grüße aus der Küche: 寝室 🙂, õhtu."
_TOOL = {
    "type": "function",
    "function": {
        "name": "light",
        "description": "Turns on the light of a room.",
        "parameters": {
            "type": "object",
            "properties": {"name": {"type": "string", "enum": ["Küche", "寝室"]}},
            "required": ["name"],
            "additionalProperties": False,
        },
    },
}
_TEMPLATES = Path(__file__).parent / "templates"
_CALL = {
    "id": "a",
    "type": "function",
    "function": {"name": "light", "arguments": '{"name": "Küche"}'},
}
_PRINTED_CALL = """\
<tool_call>
{"name": "light", "arguments": {"name": "Küche"}}
</tool_call>"""
_SHOWN = (
    # A small model does once more what it has done before.
    {"role": "user", "content": "Light Küche"},
    {"role": "assistant", "content": "", "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "a", "content": "ok"},
    {"role": "assistant", "content": "Done."},
    {"role": "user", "content": "Light Küche"},
)
_AT_ONCE = 3
_LIMIT_S = 120.0
_ANY_MODEL = "model"


class RecordError(Exception):
    """What the server sent is not what was to be recorded."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is asked, of an embedded server with these ``options``.

    ``at_once`` requests are sent together, of which the first that ends with an error
    is kept. With ``cut_after`` the server is killed after so many events.
    """

    about: str
    body: Mapping[str, Any]
    options: Mapping[str, Any]
    at_once: int = 1
    cut_after: int = 0
    template: Path | None = None


def _grammar(text: str) -> str:
    return f"root ::= {json.dumps(text, ensure_ascii=False)}"


def _only(text: str) -> Mapping[str, Any]:
    """Return what makes a server say just this, llama.cpp or vLLM."""
    return {"grammar": _grammar(text), "structured_outputs": {"choice": [text]}}


_SMALL: Mapping[str, Any] = {"slots": 1, "context_tokens": 512}
_KINDS = {
    "plain": _Kind(
        "An answer with letters of several bytes.",
        {"max_tokens": 48, **_only(_WORDS)},
        _SMALL,
    ),
    "length": _Kind(
        "An answer that is cut at its length.",
        {"max_tokens": 12, "ignore_eos": True},
        _SMALL,
    ),
    "tools": _Kind(
        "A call of a tool.",
        {
            "max_tokens": 96,
            "messages": _SHOWN,
            "tools": [_TOOL],
            "tool_choice": "auto",
            # vLLM's parser looks for this; llama.cpp takes no grammar beside tools.
            "structured_outputs": {"choice": [_PRINTED_CALL]},
        },
        _SMALL,
        template=_TEMPLATES / "tools.jinja",
    ),
    "reasoning": _Kind(
        "Reasoning, then an answer.",
        {
            "max_tokens": 64,
            "grammar": _grammar(
                f"<think>\nA greeting is wanted.\n</think>\n\n{_WORDS}"
            ),
        },
        _SMALL,
        template=_TEMPLATES / "reasoning.jinja",
    ),
    "error": _Kind(
        "An error inside the stream: three answers have used up the memory.",
        {"max_tokens": 200, "ignore_eos": True},
        {"slots": _AT_ONCE, "context_tokens": 256, "unified": True},
        at_once=_AT_ONCE,
    ),
    "cut": _Kind(
        "The server is killed in the middle of an answer.",
        {"max_tokens": 200, "ignore_eos": True},
        _SMALL,
        cut_after=5,
    ),
}


def add_to(benchmarks: Any) -> None:  # noqa: ANN401 - argparse keeps its type private
    """Add this command to the command line."""
    parser = benchmarks.add_parser("record", help=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=_KINDS, help="of stream")
    parser.add_argument("name", help="of the case, such as llama_cpp_plain")
    parser.add_argument("--url", help="of a server that runs")
    parser.add_argument(
        "--pid", type=int, help="of that server, to be killed for a cut"
    )
    parser.add_argument("--about", help="what comes, if not what it is usually")
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="where the case goes"
    )
    parser.set_defaults(run=run, parser=parser)


def run(arguments: argparse.Namespace) -> None:
    """Record one stream, or say why it can't be."""
    try:
        case = asyncio.run(record(arguments))
    except (EngineMissingError, RecordError, aiohttp.ClientError, OSError) as err:
        sys.exit(f"record: {err}")
    path: Path = arguments.folder / f"{arguments.name}.json"
    path.write_text(json.dumps(case, indent=1, ensure_ascii=False) + "\n")
    print(path)


async def record(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the case that was asked for.

    Raises ``RecordError``, and what the server's library raises.
    """
    kind = _KINDS[arguments.kind]
    async with (
        _server(kind, arguments.url, arguments.pid) as (url, pid),
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_LIMIT_S)) as session,
    ):
        source = await _who(session, url, embedded=arguments.url is None)
        bodies = await asyncio.gather(
            *(_ask(session, url, kind, pid, n) for n in range(kind.at_once))
        )
    case = next(
        (each for each in bodies if _expected(*each)["error"] or not kind.at_once > 1),
        None,
    )
    if case is None:
        raise RecordError("no answer ended with an error")
    if kind.cut_after and case[1] == "close":
        raise RecordError("the answer was whole before the server was gone")
    text, end = case
    return {
        "about": arguments.about or kind.about,
        "source": f"recorded from {source}",
        "chunks": _events(text),
        "end": end,
        "expect": _expected(text, end),
    }


@asynccontextmanager
async def _server(
    kind: _Kind, url: str | None, pid: int | None
) -> AsyncIterator[tuple[str, int | None]]:
    if url is not None:
        yield url.rstrip("/"), pid
        return
    async with embedded_engine(**kind.options, template=kind.template) as engine:
        yield engine.url, engine.pid


async def _who(session: aiohttp.ClientSession, url: str, *, embedded: bool) -> str:
    """Return the name and version of a server, as it tells them."""
    if embedded:
        return f"llama.cpp in xllamacpp {version('xllamacpp')}"
    for path, key, name in (
        ("props", "build_info", "llama.cpp"),
        ("version", "version", "vLLM"),
    ):
        async with session.get(f"{url}/{path}") as response:
            if response.status == HTTPStatus.OK:
                return f"{name} {(await response.json()).get(key, '')}".strip()
    raise RecordError("the server does not say what it is")


async def _ask(
    session: aiohttp.ClientSession, url: str, kind: _Kind, pid: int | None, number: int
) -> tuple[str, str]:
    """Return all that a server sends as its answer, and how it ends."""
    async with session.get(f"{url}/v1/models") as response:
        model = (await response.json())["data"][0]["id"]
    body = {
        "model": model,
        "messages": [{"role": "user", "content": f"Hello {number}"}],
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **kind.body,
    }
    data, end = b"", "close"
    async with session.post(f"{url}/v1/chat/completions", json=body) as response:
        if response.status != HTTPStatus.OK:
            raise RecordError(f"status {response.status}: {await response.text()}")
        try:
            async for piece in response.content.iter_any():
                data += piece
                if 0 < kind.cut_after <= data.count(b"\n\n") and pid is not None:
                    os.kill(pid, signal.SIGKILL)
                    pid = None
        except aiohttp.ClientError:
            end = "drop"
    # A name may be a path on somebody's machine.
    text = data.decode().replace(json.dumps(model), json.dumps(_ANY_MODEL))
    return text, end


def _events(text: str) -> list[str]:
    """Return the events of a stream as they came, the last one whole or not."""
    *whole, rest = text.split("\n\n")
    return [f"{event}\n\n" for event in whole] + [rest] * bool(rest)


def _expected(text: str, end: str) -> dict[str, Any]:
    """Return what has to come of a stream, as the fields of its events say."""
    said = thought = ""
    calls: dict[int, list[str]] = {}
    finish = usage = None
    error = end != "close"
    for line in text.split("\n"):
        if not line.startswith("data: {"):
            error |= line.startswith("error: ")
            continue
        try:
            event = json.loads(line.removeprefix("data: "))
        except ValueError:
            continue  # cut in the middle
        error |= "error" in event
        if counted := event.get("usage"):
            usage = [counted["prompt_tokens"], counted["completion_tokens"]]
        for choice in event.get("choices", ()):
            delta = choice["delta"]
            said += delta.get("content") or ""
            thought += delta.get("reasoning_content") or delta.get("reasoning") or ""
            finish = choice.get("finish_reason") or finish
            for call in delta.get("tool_calls") or ():
                parts = calls.setdefault(call["index"], ["", ""])
                parts[0] += call["function"].get("name") or ""
                parts[1] += call["function"].get("arguments") or ""
    return {
        "text": said,
        "thinking": thought,
        "calls": [*calls.values()],
        "finish": None if error else finish,
        "error": error,
        "usage": None if error else usage,
    }
