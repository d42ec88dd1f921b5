"""A request of a workload, and its state inside an engine."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """One request: who asks when for how much.

    ``output_tokens`` is how long the answer turns out to be. Engines of the published
    measurements know it in advance; a queue in front of an engine does not.
    """

    job_id: str
    client: int
    arrival_s: float
    prompt_tokens: int
    output_tokens: int

    @property
    def charge(self) -> int:
        """The service in weighted tokens: prompt tokens and twice the output."""
        return self.prompt_tokens + 2 * self.output_tokens


class Sequence:
    """A job inside an engine.

    ``prompt_tokens`` is what the engine makes of the prompt.
    ``computed`` tokens are in its KV cache now, ``once_computed`` were there at most,
    ``produced`` tokens of the answer exist. A step that computes all that remains
    yields one more token, so a decoding sequence has one token remaining.
    """

    __slots__ = (
        "computed",
        "first_token_s",
        "job",
        "last_token_s",
        "longest_pause_s",
        "once_computed",
        "predicted_output",
        "produced",
        "prompt_tokens",
    )

    def __init__(self, job: Job) -> None:
        """Start with nothing computed."""
        self.job = job
        self.prompt_tokens = job.prompt_tokens
        self.computed = 0
        self.once_computed = 0
        self.produced = 0
        self.predicted_output = 0.0
        self.first_token_s: float | None = None
        self.last_token_s = 0.0
        self.longest_pause_s = 0.0

    @property
    def remaining(self) -> int:
        """Tokens to compute before the next token of the answer."""
        return self.prompt_tokens + self.produced - self.computed

    @property
    def ended(self) -> bool:
        """Whether the answer is complete."""
        return self.produced >= self.job.output_tokens

    def compute(self, tokens: int) -> bool:
        """Compute tokens; return whether that yielded a token of the answer."""
        self.computed += tokens
        self.once_computed = max(self.once_computed, self.computed)
        if self.remaining:
            return False
        self.produced += 1
        return True

    def note_token(self, now: float) -> None:
        """Note that a token of the answer reached its reader."""
        if self.first_token_s is None:
            self.first_token_s = now
        else:
            self.longest_pause_s = max(self.longest_pause_s, now - self.last_token_s)
        self.last_token_s = now
