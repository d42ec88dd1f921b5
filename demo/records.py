"""What a request cost."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one or several requests: prompt computed, prompt cached, output."""

    uncached: int = 0
    cached: int = 0
    output: int = 0

    def __sub__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.uncached - other.uncached,
            self.cached - other.cached,
            self.output - other.output,
        )

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.uncached + self.cached

    @property
    def all(self) -> int:
        """Prompt and output."""
        return self.prompt + self.output


@dataclass(frozen=True, slots=True)
class Record:
    """One request that ended, as Fair Share accounted for it.

    ``ttft_s`` counts from the arrival to the first token of the answer.
    """

    wait_s: float
    ttft_s: float | None
    tokens: Tokens
    charge: float
