"""The engine of the published measurements: S-LoRA's loop as in the VTC artifact."""

from dataclasses import dataclass

from .engine import EngineTotals, Step
from .job import Sequence
from .profile import StepTimes
from .schedulers import INPUT_PRICE, OUTPUT_PRICE, EngineScheduler


@dataclass(frozen=True, slots=True)
class ArtifactLimits:
    """What the artifact's server is started with, in tokens unless said otherwise.

    ``client_tokens`` of the pool are set aside for every client in the batch (its
    adapter). New sequences are admitted after ``quiet_steps`` decode steps, and then
    tried at each step until one is. A prompt of n words "Hello " has n tokens and
    ``prompt_extra`` more, its begin and its last space. ``cold_start_s`` is by how much
    the first step takes longer: the first answer in nearly all result files began
    after 1.2 s, which decides who owes whom when the overload begins.
    """

    pool: int = 10_000
    client_tokens: int = 32
    prefill: int = 3072
    running: int = 1000
    quiet_steps: int = 10
    prompt_extra: int = 2
    cold_start_s: float = 1.1


class ArtifactEngine:
    """Iteration-level batching: a step is the prefill of a new batch, or a decode.

    The engine knows how long every answer gets, so memory never runs short: a
    sequence is admitted when the batch fits with it at its worst moment.
    """

    def __init__(
        self, times: StepTimes, limits: ArtifactLimits, scheduler: EngineScheduler
    ) -> None:
        """Start with nothing to do."""
        self.totals = EngineTotals()
        self._times = times
        self._limits = limits
        self._scheduler = scheduler
        self._batch: list[Sequence] = []
        self._decoded_steps = 0
        self._longest_prompt = 0
        self._cold_start_s = limits.cold_start_s

    @property
    def busy(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self._batch) or self._scheduler.head() is not None

    def submit(self, sequence: Sequence, now: float) -> bool:
        """Take a sequence in; ``False`` when the scheduler refuses it.

        Raises ``ValueError`` when it could never be held.
        """
        sequence.prompt_tokens += self._limits.prompt_extra
        if not self._fits([], sequence, 0):
            raise ValueError(f"more than the engine takes: {sequence.job.job_id}")
        self._longest_prompt = max(self._longest_prompt, sequence.prompt_tokens)
        return self._scheduler.append(sequence, now)

    def abort(self, job_id: str) -> None:
        """Not offered. Raises ``KeyError`` always."""
        raise KeyError(job_id)

    def step(self) -> Step:
        """Work for one iteration."""
        if not self._batch or self._decoded_steps >= self._limits.quiet_steps:
            admitted = self._admit()
            if admitted:
                self._decoded_steps = 0
                return self._prefill(admitted)
        else:
            self._decoded_steps += 1
        return self._decode()

    def _admit(self) -> list[Sequence]:
        admitted: list[Sequence] = []
        prompts = 0
        while (sequence := self._scheduler.head()) is not None:
            if not self._fits([*self._batch, *admitted], sequence, prompts):
                break
            self._scheduler.admitted()
            self._watch()
            admitted.append(sequence)
            prompts += sequence.prompt_tokens
        return admitted

    def _fits(
        self, batch: list[Sequence], newcomer: Sequence, prompt_tokens: int
    ) -> bool:
        """Whether the batch fits at its worst moment: S-LoRA's peak formula."""
        if len(batch) >= self._limits.running:
            return False
        if prompt_tokens + newcomer.prompt_tokens > self._limits.prefill:
            return False
        growths = [
            (
                each.job.output_tokens - each.produced - 1,
                each.prompt_tokens + max(each.produced, 1),
            )
            for each in (*batch, newcomer)
        ]
        growths.sort(reverse=True)
        held = peak = 0
        for count, (left, holds) in enumerate(growths, start=1):
            held += holds
            peak = max(peak, left * count + held)
        clients = {each.job.client for each in (*batch, newcomer)}
        return peak < self._limits.pool - self._limits.client_tokens * len(clients)

    def _prefill(self, admitted: list[Sequence]) -> Step:
        tokens = sum(sequence.prompt_tokens for sequence in admitted)
        for sequence in admitted:
            sequence.compute(sequence.remaining)
        self._charge_at_end(admitted)
        self._batch += [sequence for sequence in admitted if not sequence.ended]
        duration_s = self._cold_start_s + self._times.step_s(
            prefill_tokens=tokens, decoding=0, context_tokens=0
        )
        self._cold_start_s = 0.0
        return Step(duration_s, tuple(admitted), tuple(admitted))

    def _decode(self) -> Step:
        batch = self._batch
        self._scheduler.charge(batch)
        context_tokens = sum(sequence.computed for sequence in batch)
        for sequence in batch:
            sequence.compute(1)
        self._charge_at_end(batch)
        self._watch()
        self._batch = [sequence for sequence in batch if not sequence.ended]
        duration_s = self._times.step_s(
            prefill_tokens=0, decoding=len(batch), context_tokens=context_tokens
        )
        return Step(duration_s, (), tuple(batch))

    def _charge_at_end(self, batch: list[Sequence]) -> None:
        if any(sequence.ended for sequence in batch):
            self._scheduler.charge(batch)

    def _watch(self) -> None:
        """Note how far the counters are apart, and by how much they may (Lemma 4.3)."""
        gap = self._scheduler.counter_gap()
        if gap is None:
            return
        totals = self.totals
        totals.counter_gap = max(totals.counter_gap or 0.0, gap)
        totals.bound = max(
            INPUT_PRICE * self._longest_prompt, OUTPUT_PRICE * self._limits.pool
        )
