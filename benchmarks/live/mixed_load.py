"""What a household asks of its server all at once, and what is seen of it in a while.

Six long summaries are outstanding at any time, three of each member; the first
member's satellite gives a voice command every five seconds, whether the one before was
answered or not, and begins to listen 1.5 s before; the second member chats, and asks on
when the answer has been read (100 tokens, about 6 a second) and the next question
written.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from custom_components.fair_share.admission.model import TokenCount, Workload

from .home import MEMBERS, until
from .prompts import Prompts
from .served import Served, follow
from .sides import Open

_AFTER_A_FAILURE_S = 0.5
_HEAR_OF_ALL_S = 15.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How long everything is, in tokens, and how often it comes, in seconds.

    ``voice_prompt`` has ``voice_prefix`` in common with all other voice commands. A
    conversation begins anew when ``chat_longest`` is reached.
    """

    summaries: int = 6
    summary_prompt: int = 1500
    summary_output: int = 200
    voice_every_s: float = 5.0
    voice_listens_s: float = 1.5
    voice_prefix: int = 250
    voice_prompt: int = 289
    voice_output: int = 20
    chat_prompt: int = 400
    chat_question: int = 30
    chat_output: int = 100
    chat_longest: int = 1500
    chat_pause_s: float = 25.0


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen in a window: all requests that had come by its end."""

    from_s: float
    to_s: float
    requests: tuple[Served, ...]

    def done(
        self, *, member: str | None = None, workload: Workload | None = None
    ) -> TokenCount:
        """Return what was computed in the window, of finished requests or not."""
        uncached = cached = output = 0
        for served in self.requests:
            if member in (None, served.member) and workload in (None, served.workload):
                before = served.done_by(self.from_s)
                after = served.done_by(self.to_s)
                uncached += after.uncached - before.uncached
                cached += after.cached - before.cached
                output += after.output - before.output
        return TokenCount(uncached, cached, output)

    def waits_s(self, workload: Workload) -> list[float]:
        """Return the time to the first token of each request that came.

        What still waits at the end has waited until then, and counts with that.
        """
        return [
            min(served.first_s or self.to_s, self.to_s) - served.asked_s
            for served in self._came(workload)
            if served.error is None
        ]

    def still_waiting(self, workload: Workload) -> int:
        """Return how many of those that came had no first token by the end."""
        return sum(
            served.first_s is None or served.first_s > self.to_s
            for served in self._came(workload)
        )

    def failed(self) -> int:
        """Return how many requests ended with a failure in the window."""
        return sum(
            served.error is not None
            and self.from_s <= (served.ended_s or 0) <= self.to_s
            for served in self.requests
        )

    def finished(self, workload: Workload) -> int:
        """Return how many were answered to the end in the window."""
        return sum(
            served.workload is workload
            and served.whole
            and self.from_s <= (served.ended_s or 0) <= self.to_s
            for served in self.requests
        )

    def _came(self, workload: Workload) -> list[Served]:
        return [
            served
            for served in self.requests
            if served.workload is workload and self.from_s <= served.asked_s < self.to_s
        ]


class MixedLoad:
    """Keeps a server busy by one way, and watches."""

    def __init__(
        self,
        way: Open,
        prompts: Prompts,
        sizes: Sizes,
        *,
        listens: Callable[[], None] = lambda: None,
    ) -> None:
        """Ask by ``way``; ``listens`` is called when the satellite begins to listen."""
        self._open = way
        self._listens = listens
        self._prompts = prompts
        self._sizes = sizes
        self._requests: list[Served] = []
        self._voice_prefix = prompts.words(sizes.voice_prefix - prompts.overhead)

    async def run(
        self, *, warm_up_s: float, window_s: float, voice_only: bool = False
    ) -> Observed:
        """Ask for as long as both together last; what is left then is left."""
        tasks = [asyncio.create_task(self._speak())]
        if not voice_only:
            members = [MEMBERS[n % len(MEMBERS)] for n in range(self._sizes.summaries)]
            tasks += [asyncio.create_task(self._summarise(name)) for name in members]
            tasks.append(asyncio.create_task(self._chat()))
        try:
            await _unless_one_ends(tasks, warm_up_s)
            from_s = monotonic()
            await _unless_one_ends(tasks, window_s)
            to_s = monotonic()
            requests = tuple(self._requests)
            await self._hear_of_all(to_s)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return Observed(from_s, to_s, requests)

    async def _hear_of_all(self, moment_s: float) -> None:
        """Go on until it is known how far everything was at a moment."""
        started = tuple(self._requests)
        with suppress(TimeoutError):
            async with asyncio.timeout(_HEAR_OF_ALL_S):
                await until(lambda: all(r.heard_of_after(moment_s) for r in started))

    async def _speak(self) -> None:
        sizes, prompts = self._sizes, self._prompts
        async with asyncio.TaskGroup() as commands:
            while True:
                self._listens()
                await asyncio.sleep(sizes.voice_listens_s)
                words = sizes.voice_prompt - sizes.voice_prefix - prompts.per_message
                request = prompts.request(
                    [
                        {"role": "system", "content": self._voice_prefix},
                        {"role": "user", "content": prompts.words(words)},
                    ],
                    sizes.voice_output,
                )
                served = self._came(Workload.VOICE, MEMBERS[0], sizes.voice_prompt)
                opened = self._open(Workload.VOICE, MEMBERS[0], request, None)
                commands.create_task(follow(opened, served))
                await asyncio.sleep(sizes.voice_every_s - sizes.voice_listens_s)

    async def _summarise(self, member: str) -> None:
        length = self._sizes.summary_prompt
        while True:
            request = self._prompts.fresh(length, self._sizes.summary_output)
            served = self._came(Workload.BACKGROUND, member, length, fresh=True)
            await follow(self._open(Workload.BACKGROUND, member, request, None), served)
            if served.error:
                await asyncio.sleep(_AFTER_A_FAILURE_S)

    async def _chat(self) -> None:
        sizes, member, number = self._sizes, MEMBERS[1], 0
        while True:
            number += 1
            length = sizes.chat_prompt
            question = self._prompts.words(length - self._prompts.overhead)
            messages = [{"role": "user", "content": question}]
            while length <= sizes.chat_longest:
                request = self._prompts.request([*messages], sizes.chat_output)
                served = self._came(Workload.CHAT, member, length)
                opened = self._open(Workload.CHAT, member, request, f"chat {number}")
                await follow(opened, served)
                await asyncio.sleep(sizes.chat_pause_s)
                if served.usage is None:
                    break
                length = (served.usage.prompt_tokens or length) + sizes.chat_output
                length += sizes.chat_question
                question = self._prompts.words(
                    sizes.chat_question - 2 * self._prompts.per_message
                )
                messages += [
                    {"role": "assistant", "content": served.text},
                    {"role": "user", "content": question},
                ]

    def _came(
        self,
        workload: Workload,
        member: str,
        prompt_tokens: int,
        *,
        fresh: bool = False,
    ) -> Served:
        served = Served(workload, member, prompt_tokens, fresh=fresh)
        self._requests.append(served)
        return served


async def _unless_one_ends(tasks: list[asyncio.Task[None]], seconds: float) -> None:
    """Wait; raise at once what a task fails with, none of them ends by itself."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
