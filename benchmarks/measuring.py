"""Measuring a real server: how long prompts take, and tokens side by side."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from secrets import token_hex
from time import monotonic

from custom_components.fair_share.engines.base import (
    Capabilities,
    Content,
    Engine,
    EngineError,
    EngineKind,
    GenerationRequest,
    PromptProgress,
    Thinking,
    Usage,
)

from .simulator.fit import DecodeSample, PrefillSample

_WORD = "tide "
_MARGIN_TOKENS = 96
"""What a chat template adds at most, and room for an answer."""

_LEAST_PROMPT = 48
_LONGEST_PROMPT = 8192
_PROMPT_LENGTHS = 6
_REPEATS = 2
_STEPS = 32
_LEAST_STEPS = 6
_PREFILL_SHARE = 0.4
_LONG_PROMPTS_SHARE = 0.05
_USUAL_CONTEXT = 4096
_IDLE_LIMIT_S = 5.0


@dataclass(slots=True)
class Measured:
    """What was measured of a server. ``batch_tokens``: read in one step at most."""

    prefill: list[PrefillSample] = field(default_factory=list)
    decode: list[DecodeSample] = field(default_factory=list)
    batch_tokens: int | None = None
    out_of_time: bool = False


class _Window:
    """The time in which all streams are written, seen by the one that began last.

    A server writes one token of each in every step, so one of them shows the pace.
    """

    def __init__(self, streams: int) -> None:
        self.over = asyncio.Event()
        self._streams = streams
        self._begun: set[int] = set()
        self._before = 0
        self._leader: int | None = None
        self._tokens = 0
        self._from_s = self._to_s = 0.0

    def note(self, number: int, tokens: int, now: float) -> None:
        """Note tokens of a stream; the window may begin or be over with them."""
        if self._leader is None:
            self._before += tokens
            self._begun.add(number)
            if len(self._begun) == self._streams:
                self._leader, self._from_s = number, now
        elif number == self._leader:
            self._tokens += tokens
            self._to_s = now
            if self._tokens >= _STEPS:
                self.over.set()

    def step_s(self) -> float | None:
        """Return the seconds from token to token, ``None`` if there were too few."""
        if self._tokens < _LEAST_STEPS:
            return None
        return (self._to_s - self._from_s) / self._tokens

    def mean_output(self) -> float:
        """Return how many tokens were written by the middle of it, of all streams."""
        return self._before + self._streams * self._tokens / 2


class Measurement:
    """A bounded run against one server, which nobody else should use meanwhile."""

    def __init__(
        self,
        engine: Engine,
        capabilities: Capabilities,
        *,
        streams: int,
        limit_s: float,
        tell: Callable[[str], None],
    ) -> None:
        """Measure up to so many streams for at most ``limit_s``; ``tell`` progress."""
        self._engine = engine
        self._streams = streams
        self._limit_s = limit_s
        self._tell = tell
        self._context = capabilities.context_tokens or _USUAL_CONTEXT
        self._pool = capabilities.kv_tokens
        takes_it = capabilities.kind in (EngineKind.LLAMA_CPP, EngineKind.VLLM)
        self._parameters = {"ignore_eos": True} if takes_it else {}
        self._measured = Measured()
        self._started_s = monotonic()

    async def run(self) -> Measured:
        """Measure what the time allows, the most telling first.

        Raises ``EngineError``.
        """
        self._started_s = monotonic()
        try:
            async with asyncio.timeout(self._limit_s):
                await self._read(_LEAST_PROMPT)  # whatever the first request sets up
                self._measured.prefill.clear()
                await self._measure_prefill()
                await self._measure_decode()
        except TimeoutError:
            self._measured.out_of_time = True
        return self._measured

    async def _measure_prefill(self) -> None:
        """Read prompts of growing length, as long as their part of the time lasts."""
        longest = min(self._context - _MARGIN_TOKENS, _LONGEST_PROMPT)
        lengths = [
            length
            for halvings in reversed(range(_PROMPT_LENGTHS))
            if (length := longest >> halvings) >= _LEAST_PROMPT
        ]
        slowest_s = 0.0
        for length in lengths or [max(longest, 1)]:
            for _ in range(_REPEATS):
                # Twice as long takes about twice as long.
                if self._used + 2 * slowest_s > _PREFILL_SHARE * self._limit_s:
                    return
                self._tell(f"a prompt of about {length} tokens")
                slowest_s = max(slowest_s, await self._read(length))

    async def _measure_decode(self) -> None:
        """Write answers side by side, after short prompts and after long ones.

        All of it twice, there and back: what slows the machine down for a while then
        does not look like the cost of what was measured last.
        """
        points = [
            (streams, words)
            for streams in self._counts()
            for words in (_LEAST_PROMPT, self._long_prompt(streams))
        ]
        for streams, words in (*points, *reversed(points)):
            self._tell(f"{streams} answers at once, prompts of {words} tokens")
            await self._write(streams, words)

    def _counts(self) -> list[int]:
        """Return how many streams to measure: doubled each time, up to the most."""
        doubled = {1 << n for n in range(self._streams.bit_length())}
        return sorted({*doubled, self._streams})

    def _long_prompt(self, streams: int) -> int:
        """Return how long prompts may be.

        They stay in the context while all answers are written, and are read soon.
        """
        pool = self._pool // streams if self._pool else self._context
        last = self._measured.prefill[-1]
        soon_s = _LONG_PROMPTS_SHARE * self._limit_s / streams
        readable = int(soon_s * last.tokens / last.seconds)
        longest = min(pool, self._context, _LONGEST_PROMPT) // 2
        return max(_LEAST_PROMPT, min(longest, readable))

    async def _read(self, words: int) -> float:
        """Measure a prompt that no cache has; return the seconds it took."""
        reported = [0]
        first_s: float | None = None
        started_s = monotonic()
        async with self._engine.stream(self._request(words, 1)) as deltas:
            async for delta in deltas:
                match delta:
                    case Content() | Thinking() if first_s is None:
                        first_s = monotonic() - started_s
                    case PromptProgress():
                        reported.append(delta.processed)
                    case Usage() if delta.prompt_tokens:
                        tokens = delta.prompt_tokens - delta.cached_tokens
                        took_s = first_s or monotonic() - started_s
                        self._measured.prefill.append(PrefillSample(tokens, took_s))
        self._note_batches(reported)
        return monotonic() - started_s

    def _note_batches(self, reported: Sequence[int]) -> None:
        """Learn from the reports on the way how much is read in one step."""
        steps = [after - before for before, after in pairwise(reported)]
        if len(steps) > 1:
            self._measured.batch_tokens = max(steps)

    async def _write(self, streams: int, words: int) -> None:
        """Measure answers from the moment on at which all of them are written."""
        requests = [self._request(words, self._room(words)) for _ in range(streams)]
        prompts = [await self._engine.count_tokens(each) or words for each in requests]
        window = _Window(streams)
        readers = [
            asyncio.create_task(self._follow(request, window, number))
            for number, request in enumerate(requests)
        ]
        try:
            await window.over.wait()
        finally:
            for reader in readers:
                reader.cancel()
            ends = await asyncio.gather(*readers, return_exceptions=True)
        for end in ends:
            if isinstance(end, EngineError):
                raise end
        await self._wait_idle()
        if (seconds := window.step_s()) is not None:
            context = sum(prompts) + window.mean_output()
            self._measured.decode.append(DecodeSample(streams, context, seconds))

    async def _follow(
        self, request: GenerationRequest, window: _Window, number: int
    ) -> None:
        try:
            async with self._engine.stream(request) as deltas:
                async for delta in deltas:
                    if isinstance(delta, Content | Thinking):
                        window.note(number, delta.tokens, monotonic())
        finally:
            window.over.set()

    async def _wait_idle(self) -> None:
        """Wait until the server has noticed that its clients left."""
        with suppress(TimeoutError, EngineError):
            async with asyncio.timeout(_IDLE_LIMIT_S):
                while (await self._engine.load()).running:  # noqa: ASYNC110 - a server
                    await asyncio.sleep(0.02)

    def _request(self, words: int, output_tokens: int) -> GenerationRequest:
        # Random at the front: no cache has more of it than the template.
        text = f"{token_hex(8)} {_WORD * words}"
        return GenerationRequest(
            [{"role": "user", "content": text}],
            output_tokens,
            parameters=self._parameters,
        )

    def _room(self, words: int) -> int:
        pool = self._pool // self._streams if self._pool else self._context
        return max(min(self._context, pool) - words - _MARGIN_TOKENS // 2, _STEPS)

    @property
    def _used(self) -> float:
        return monotonic() - self._started_s
