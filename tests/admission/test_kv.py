"""The peak of memory that running sequences will need together."""

from hypothesis import given, strategies as st
import pytest

from custom_components.fair_share.admission.kv import Growth, peak_tokens

GROWTHS = st.lists(
    st.builds(Growth, st.integers(1, 500), st.integers(0, 500)), min_size=1, max_size=6
)


@pytest.mark.parametrize(
    ("sequences", "peak"),
    [
        ([], 0),
        ([Growth(100, 50)], 150),
        ([Growth(100, 0), Growth(100, 0)], 200 + 32),
        ([Growth(100, 10), Growth(100, 100)], 220 + 32),
    ],
)
def test_the_peak_is_where_the_shorter_ones_have_not_yet_ended(
    sequences: list[Growth], peak: int
) -> None:
    assert peak_tokens(sequences) == peak


def test_memory_is_taken_in_whole_blocks() -> None:
    assert peak_tokens([Growth(33, 0)], block_tokens=32) == 64 + 31


@given(GROWTHS)
def test_the_peak_covers_every_moment_of_a_run_in_step(sequences: list[Growth]) -> None:
    longest = max(sequence.left_tokens for sequence in sequences)
    at_each_step = (
        sum(
            sequence.held_tokens + step
            for sequence in sequences
            if step <= sequence.left_tokens
        )
        for step in range(longest + 1)
    )
    assert peak_tokens(sequences) >= max(at_each_step)


@given(GROWTHS, st.builds(Growth, st.integers(1, 500), st.integers(0, 500)))
def test_one_more_sequence_never_needs_less(
    sequences: list[Growth], another: Growth
) -> None:
    assert peak_tokens([*sequences, another]) >= peak_tokens(sequences)
