"""Three ways from a client to the same server, and what each costs in CPU time."""

from dataclasses import dataclass
import json
import os
from pathlib import Path
from time import monotonic, process_time
from typing import Protocol

import aiohttp

from custom_components.fair_share.admission.model import Workload
from custom_components.fair_share.engines.base import Content, GenerationRequest
from custom_components.fair_share.household.generation import Ask

from ..live.home import MEMBERS, Home

_MESSAGES = [
    {"role": "system", "content": "You look after a house. " * 40},
    {"role": "user", "content": "Is a window open, and what is the time?"},
]
_DATA = b"data: "


class WayFailedError(Exception):
    """An answer did not come whole."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """One answer as its client saw it."""

    ttft_s: float
    tokens: int


class Way(Protocol):
    """A way to the server."""

    async def stream(self, model: str, tokens: int) -> Streamed:
        """Have an answer of so many tokens streamed."""
        ...

    def cpu_s(self) -> float:
        """Return the CPU time so far, in seconds, of the process that is looked at."""
        ...


class HttpWay:
    """A small client that asks a server, or a proxy.

    ``pid`` is the process whose CPU time counts; by default that of this client.
    ``keep``: over connections that it keeps, otherwise each time over a new one.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        pid: int | None = None,
        *,
        keep: bool = True,
        key: str | None = None,
    ) -> None:
        """Use a session without a limit of connections, and ask with ``key``."""
        self._session = session
        self._url = f"{url}/v1/chat/completions"
        self._pid = pid
        self._headers = {} if keep else {"Connection": "close"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"

    async def stream(self, model: str, tokens: int) -> Streamed:
        """Have an answer streamed; every chunk with text is a token."""
        body = {
            "model": model,
            "messages": _MESSAGES,
            "max_tokens": tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        asked_s = monotonic()
        first_s: float | None = None
        seen = 0
        async with self._session.post(
            self._url, json=body, headers=self._headers
        ) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                if not line.startswith(_DATA) or line.startswith(b"data: [DONE]"):
                    continue
                event = json.loads(line[len(_DATA) :])
                if "error" in event:
                    raise WayFailedError(str(event["error"]))
                choices = event["choices"]
                if choices and choices[0]["delta"].get("content"):
                    first_s = first_s or monotonic()
                    seen += 1
        return Streamed((first_s or monotonic()) - asked_s, seen)

    def cpu_s(self) -> float:
        """Return the CPU time of this client, or of the proxy with its children."""
        return process_time() if self._pid is None else cpu_of(self._pid)


class OurWay:
    """The household's queue and engine client, in this process."""

    def __init__(self, home: Home) -> None:
        """Ask as the members, by turns."""
        self._home = home
        self._asked = 0

    async def stream(self, model: str, tokens: int) -> Streamed:
        """Have an answer streamed."""
        self._asked += 1
        asker = self._home.member(MEMBERS[self._asked % len(MEMBERS)])
        request = GenerationRequest(_MESSAGES, tokens, model=model)
        asked_s = monotonic()
        first_s: float | None = None
        seen = 0
        ask = Ask(asker, Workload.CHAT, request)
        async with self._home.household.generate(ask) as deltas:
            async for delta in deltas:
                if isinstance(delta, Content):
                    first_s = first_s or monotonic()
                    seen += delta.tokens
        return Streamed((first_s or monotonic()) - asked_s, seen)

    def cpu_s(self) -> float:
        """Return the CPU time of this process, which is client and queue in one."""
        return process_time()


def cpu_of(pid: int) -> float:
    """Return the CPU time of a process and its children, ended or not, in seconds.

    Reads Linux's ``/proc``. Raises ``OSError`` elsewhere.
    """
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    total, pids = 0.0, [pid]
    while pids:
        process = Path(f"/proc/{pids.pop()}")
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        total += sum(int(each) for each in fields[11:15]) * tick_s
        for task in (process / "task").iterdir():
            pids += [int(child) for child in (task / "children").read_text().split()]
    return total
