"""How long a step takes."""

import json
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pytest

from benchmarks.simulator.profile import EngineProfile, Jittered

SIMPLE = EngineProfile(
    prefill_s=10,
    prefill_token_s=1,
    decode_s=4,
    decode_sequence_s=2,
    decode_context_token_s=0.5,
    iteration_s=100,
)


@pytest.mark.parametrize(
    ("prefill", "decoding", "context", "seconds"),
    [
        (0, 0, 0, 100),
        (5, 0, 0, 100 + 10 + 5),
        (0, 3, 8, 100 + 4 + 6 + 4),
        # One pass over the weights: the larger fixed part only.
        (5, 3, 8, 100 + 10 + 5 + 6 + 4),
    ],
)
def test_a_step_takes_as_long_as_what_it_computes(
    prefill: int, decoding: int, context: int, seconds: float
) -> None:
    taken = SIMPLE.step_s(
        prefill_tokens=prefill, decoding=decoding, context_tokens=context
    )
    assert taken == seconds


def test_a_profile_from_a_file_keeps_what_the_file_does_not_name(
    tmp_path: Path,
) -> None:
    path = tmp_path / "profile.json"
    path.write_text('{"decode_s": 1, "iteration_s": 0.25}')
    assert EngineProfile.load(path) == EngineProfile(decode_s=1, iteration_s=0.25)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ([1], TypeError),
        ({"decode_s": "1"}, TypeError),
        ({"decode_s": True}, TypeError),
        ({"decode_s": -1}, ValueError),
        ({"speed": 1}, ValueError),
    ],
)
def test_a_file_of_another_form_is_refused(
    tmp_path: Path, content: Any, error: type[Exception]
) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(content))
    with pytest.raises(error):
        EngineProfile.load(path)


def test_jitter_varies_step_times_around_those_of_the_profile() -> None:
    def draw(seed: int) -> list[float]:
        times = Jittered(SIMPLE, seed, 0.03)
        return [
            times.step_s(prefill_tokens=0, decoding=0, context_tokens=0)
            for _ in range(1000)
        ]

    taken = draw(1)
    assert fmean(taken) == pytest.approx(100, abs=0.5)
    assert pstdev(taken) == pytest.approx(3, abs=0.3)
    assert taken == draw(1)
    assert taken != draw(2)
