"""Fitting step times to what was measured: least squares, no time below zero."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, inf
from statistics import fmean

from .profile import EngineProfile

_SINGULAR = 1e-9


@dataclass(frozen=True, slots=True)
class PrefillSample:
    """Seconds until the first token of an answer to so many uncached prompt tokens."""

    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DecodeSample:
    """Seconds from token to token of ``streams`` answers that run side by side.

    All together hold ``context_tokens``.
    """

    streams: int
    context_tokens: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """A measured time and what the profile says instead, in seconds."""

    measured_s: float
    fitted_s: float

    @property
    def error(self) -> float:
        """How far it is off, as a part of what was measured."""
        return abs(self.fitted_s - self.measured_s) / self.measured_s


@dataclass(frozen=True, slots=True)
class Fit:
    """A profile, and how well it says each of the samples."""

    profile: EngineProfile
    prefill: tuple[Fitted, ...]
    decode: tuple[Fitted, ...]


def fit_profile(
    prefill: Sequence[PrefillSample],
    decode: Sequence[DecodeSample],
    batch_tokens: int | None = None,
) -> Fit:
    """Return the step times that come closest to the samples.

    Relative errors are made small, so that short steps count as much as long ones.
    A prompt is read in steps of at most ``batch_tokens``, in one if ``None``. From
    outside, what every step costs can't be told from what a step that reads, or one
    that writes, costs at least: ``iteration_s`` is 0 and the others contain it.

    Raises ``ValueError`` without a sample of each kind.
    """
    if not prefill or not decode:
        raise ValueError("prompts and answers have to be measured, both")
    prefill_s, prefill_token_s = non_negative_least_squares(
        [(_steps(each.tokens, batch_tokens), each.tokens) for each in prefill],
        [each.seconds for each in prefill],
    )
    decode_s, sequence_s, context_token_s = non_negative_least_squares(
        [(1.0, each.streams, each.context_tokens) for each in decode],
        [each.seconds for each in decode],
    )
    profile = EngineProfile(
        prefill_s=prefill_s,
        prefill_token_s=prefill_token_s,
        decode_s=decode_s,
        decode_sequence_s=sequence_s,
        decode_context_token_s=context_token_s,
        iteration_s=0.0,
    )
    return Fit(
        profile,
        tuple(
            Fitted(
                each.seconds,
                prefill_s * _steps(each.tokens, batch_tokens)
                + prefill_token_s * each.tokens,
            )
            for each in prefill
        ),
        tuple(
            Fitted(
                each.seconds,
                decode_s
                + sequence_s * each.streams
                + context_token_s * each.context_tokens,
            )
            for each in decode
        ),
    )


def mean_error(fitted: Sequence[Fitted]) -> float:
    """Return the average relative error."""
    return fmean(each.error for each in fitted)


def largest_error(fitted: Sequence[Fitted]) -> float:
    """Return the largest relative error."""
    return max(each.error for each in fitted)


def non_negative_least_squares(
    rows: Sequence[Sequence[float]], measured: Sequence[float]
) -> list[float]:
    """Return the coefficients, none below 0, with the least squared relative error.

    The best of all solutions in which some coefficients are 0 and the others are free:
    with two or three of them that is exact and short. Coefficients that the rows can't
    tell apart are not tried together.
    """
    scaled = [
        [value / time for value in row]
        for row, time in zip(rows, measured, strict=True)
    ]
    width = len(rows[0])
    best, least = [0.0] * width, inf
    for used in _subsets(width):
        chosen = [[row[column] for column in used] for row in scaled]
        solution = _least_squares(chosen)
        if solution is None or min(solution) < 0:
            continue
        error = sum(_error(row, solution) ** 2 for row in chosen)
        if error < least - _SINGULAR:
            least = error
            best = [0.0] * width
            for column, value in zip(used, solution, strict=True):
                best[column] = value
    return best


def _subsets(width: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, width + 1):
        yield from combinations(range(width), size)


def _error(row: Sequence[float], solution: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(row, solution, strict=True)) - 1.0


def _least_squares(rows: Sequence[Sequence[float]]) -> list[float] | None:
    """Solve rows * x = 1 in the least squares sense; ``None``: no single solution."""
    width = len(rows[0])
    # Normal equations of columns that are scaled to 1, to be as exact for tokens by
    # the thousand as for the constant.
    sizes = [max(abs(row[column]) for row in rows) or 1.0 for column in range(width)]
    unit = [
        [value / size for value, size in zip(row, sizes, strict=True)] for row in rows
    ]
    table = [
        [sum(row[i] * row[j] for row in unit) for j in range(width)]
        + [sum(row[i] for row in unit)]
        for i in range(width)
    ]
    for i in range(width):
        pivot = max(range(i, width), key=lambda row: abs(table[row][i]))
        table[i], table[pivot] = table[pivot], table[i]
        if abs(table[i][i]) < _SINGULAR:
            return None
        for j in range(width):
            if j != i:
                factor = table[j][i] / table[i][i]
                table[j] = [
                    a - factor * b for a, b in zip(table[j], table[i], strict=True)
                ]
    return [table[i][width] / table[i][i] / sizes[i] for i in range(width)]


def _steps(tokens: int, batch_tokens: int | None) -> int:
    return 1 if batch_tokens is None else ceil(tokens / batch_tokens)
