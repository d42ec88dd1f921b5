"""Fitting a profile to measured times."""

from itertools import product

import pytest

from benchmarks.simulator.fit import (
    DecodeSample,
    Fitted,
    PrefillSample,
    fit_profile,
    largest_error,
    mean_error,
    non_negative_least_squares,
)
from benchmarks.simulator.profile import EngineProfile

TRUE = EngineProfile(0.03, 0.0008, 0.02, 0.002, 1.5e-6, 0.0)


def samples(
    profile: EngineProfile, batch: int = 512, streams: tuple[int, ...] = (1, 2, 4)
) -> tuple[list[PrefillSample], list[DecodeSample]]:
    """Measure an engine that keeps exactly to a profile."""
    prefill = []
    for tokens in (60, 200, 512, 900, 3000):
        whole, rest = divmod(tokens, batch)
        steps = [batch] * whole + [rest] * (rest > 0)
        seconds = sum(
            profile.step_s(prefill_tokens=step, decoding=0, context_tokens=0)
            for step in steps
        )
        prefill.append(PrefillSample(tokens, seconds))
    decode = [
        DecodeSample(
            count,
            context,
            profile.step_s(prefill_tokens=0, decoding=count, context_tokens=context),
        )
        for count, context in product(streams, (100, 4000))
    ]
    return prefill, decode


def test_the_times_of_an_engine_are_found_again() -> None:
    fit = fit_profile(*samples(TRUE), batch_tokens=512)
    for name in (
        "prefill_s",
        "prefill_token_s",
        "decode_s",
        "decode_sequence_s",
        "decode_context_token_s",
    ):
        assert getattr(fit.profile, name) == pytest.approx(
            getattr(TRUE, name), rel=1e-4
        )
    assert fit.profile.iteration_s == 0
    assert largest_error((*fit.prefill, *fit.decode)) < 1e-6


def test_what_every_step_costs_goes_into_its_parts() -> None:
    slow = EngineProfile(0.03, 0.0008, 0.02, 0.002, 1.5e-6, iteration_s=0.01)
    profile = fit_profile(*samples(slow), batch_tokens=512).profile
    assert profile.prefill_s == pytest.approx(0.04, rel=1e-4)
    assert profile.decode_s == pytest.approx(0.03, rel=1e-4)


def test_no_time_is_negative_where_a_line_through_the_samples_would_be() -> None:
    prefill = [PrefillSample(100, 0.01), PrefillSample(1000, 1.0)]
    decode = [DecodeSample(1, 100, 0.05), DecodeSample(4, 100, 0.04)]
    profile = fit_profile(prefill, decode).profile
    assert profile.prefill_s == 0
    assert profile.prefill_token_s > 0
    assert min(profile.decode_s, profile.decode_sequence_s) == 0


def test_samples_that_tell_nothing_apart_are_said_by_one_of_the_parts() -> None:
    prefill = [PrefillSample(100, 0.2), PrefillSample(100, 0.2)]
    decode = [DecodeSample(1, 100, 0.05)]
    fit = fit_profile(prefill, decode)
    assert largest_error((*fit.prefill, *fit.decode)) == pytest.approx(0)


def test_the_error_is_relative_to_what_was_measured() -> None:
    fitted = (Fitted(2.0, 1.0), Fitted(1.0, 1.1))
    assert largest_error(fitted) == 0.5
    assert mean_error(fitted) == pytest.approx(0.3)


def test_short_steps_count_as_much_as_long_ones() -> None:
    (slope,) = non_negative_least_squares([(1.0,), (100.0,)], [2.0, 100.0])
    # Least absolute squares would find 1.0001.
    assert slope == pytest.approx(1.2)


@pytest.mark.parametrize("missing", [0, 1])
def test_both_kinds_of_samples_are_needed(missing: int) -> None:
    given = list(samples(TRUE))
    given[missing] = []
    with pytest.raises(ValueError, match="both"):
        fit_profile(*given)
