"""An engine as it comes: first come, first served, prompts in chunks (vLLM's way)."""

from collections import deque
from dataclasses import dataclass
import sys

from .engine import EngineTotals, Step
from .job import Sequence
from .memory import Memory
from .prefix_cache import PrefixCache
from .profile import StepTimes


@dataclass(frozen=True, slots=True)
class ChunkedLimits:
    """``step_tokens``: computed in one step at most, ``None`` for whole prompts."""

    step_tokens: int | None = 2048
    running: int = 1000


class ChunkedEngine:
    """Continuous batching with chunked prefill and preemption by recompute.

    Every step first serves what runs, in order of admission, then admits from the
    head of the queue as long as budget and memory last. When memory runs short the
    last admitted sequence is thrown out to the front of the queue and starts over;
    nothing is admitted in such a step.
    """

    def __init__(
        self,
        times: StepTimes,
        memory: Memory,
        limits: ChunkedLimits,
        cache: PrefixCache,
    ) -> None:
        """Start with nothing to do."""
        self.totals = EngineTotals()
        self._times = times
        self._memory = memory
        self._limits = limits
        self._cache = cache
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []

    @property
    def busy(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self._waiting or self._running)

    def submit(self, sequence: Sequence, now: float) -> bool:  # noqa: ARG002 - Engine
        """Take a sequence in. Raises ``ValueError`` when it could never be held."""
        job = sequence.job
        if job.prompt_tokens + job.output_tokens > self._memory.longest_tokens:
            raise ValueError(f"more than the memory of the engine: {job.job_id}")
        self._waiting.append(sequence)
        return True

    def abort(self, job_id: str) -> None:
        """Drop a sequence; its prefix goes to the cache. Raises ``KeyError``."""
        for queue in (self._running, self._waiting):
            for sequence in queue:
                if sequence.job.job_id == job_id:
                    queue.remove(sequence)
                    self._cache.keep(job_id, self._evict(sequence))
                    return
        raise KeyError(job_id)

    def step(self) -> Step:
        """Work for one iteration."""
        prefill_tokens = decoding = context_tokens = 0
        evicted_before = self.totals.preemptions
        prompts: list[Sequence] = []
        outputs: list[Sequence] = []
        for sequence, tokens in self._plan():
            if sequence.produced and sequence.remaining == 1:
                decoding += 1
                context_tokens += sequence.computed
            else:
                prefill_tokens += tokens
            known = sequence.once_computed
            again = min(tokens, known - sequence.computed)
            self.totals.recomputed_tokens += again
            if sequence.compute(tokens):
                outputs.append(sequence)
            if known < min(sequence.once_computed, sequence.prompt_tokens):
                prompts.append(sequence)
        for sequence in outputs:
            if sequence.ended:
                self._running.remove(sequence)
                self._memory.free(sequence.job.job_id)
        duration_s = self._times.step_s(
            prefill_tokens=prefill_tokens,
            decoding=decoding,
            context_tokens=context_tokens,
        )
        evicted = self.totals.preemptions - evicted_before
        return Step(duration_s, tuple(prompts), tuple(outputs), evicted)

    def _plan(self) -> list[tuple[Sequence, int]]:
        """Choose what the next step computes: sequences with their tokens."""
        preempted_before = self.totals.preemptions
        plan = self._plan_running()
        if self.totals.preemptions == preempted_before:
            self._admit(plan)
        return plan

    def _plan_running(self) -> list[tuple[Sequence, int]]:
        plan: list[tuple[Sequence, int]] = []
        left = self._budget()
        for sequence in list(self._running):
            tokens = min(sequence.remaining, left)
            if (
                sequence in self._running
                and tokens
                and self._make_room(sequence, tokens)
            ):
                plan.append((sequence, tokens))
                left -= tokens
        return plan

    def _make_room(self, sequence: Sequence, tokens: int) -> bool:
        """Reserve memory for a running sequence, which may be thrown out itself."""
        needed = sequence.computed + tokens
        while not self._memory.reserve(sequence.job.job_id, needed):
            victim = self._running.pop()
            self._evict(victim)
            self._waiting.appendleft(victim)
            self.totals.preemptions += 1
            if victim is sequence:
                return False
        return True

    def _admit(self, plan: list[tuple[Sequence, int]]) -> None:
        left = self._budget() - sum(tokens for _, tokens in plan)
        while self._waiting and left > 0 and len(self._running) < self._limits.running:
            sequence = self._waiting[0]
            job_id = sequence.job.job_id
            cached = self._cache.peek(job_id)
            tokens = min(sequence.remaining - cached, left)
            if not self._memory.reserve(job_id, cached + tokens):
                return
            sequence.computed = self._cache.take(job_id)
            self._running.append(self._waiting.popleft())
            plan.append((sequence, tokens))
            left -= tokens

    def _budget(self) -> int:
        return self._limits.step_tokens or sys.maxsize

    def _evict(self, sequence: Sequence) -> int:
        """Free the memory of a sequence; return the tokens it held."""
        held = sequence.computed
        sequence.computed = 0
        self._memory.free(sequence.job.job_id)
        return held
