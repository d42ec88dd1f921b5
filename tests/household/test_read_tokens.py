"""What a prompt costs that is read in parts, some of them twice."""

from hypothesis import given, strategies as st
import pytest

from custom_components.fair_share.household.read_tokens import ReadTokens

type Part = tuple[int, int]
"""A beginning that was read, and how much of it was in the cache."""


@pytest.mark.parametrize(
    ("parts", "read"),
    [
        pytest.param([(100, 0)], ReadTokens(100, 0, 0), id="in one go"),
        pytest.param([(100, 40)], ReadTokens(60, 40, 0), id="partly cached"),
        pytest.param([(64, 0), (100, 64)], ReadTokens(100, 0, 0), id="in two slices"),
        pytest.param([(64, 40), (100, 64)], ReadTokens(60, 40, 0), id="cached, sliced"),
        pytest.param([(64, 0), (100, 0)], ReadTokens(100, 0, 64), id="lost"),
        pytest.param([(64, 0), (100, 50)], ReadTokens(100, 0, 14), id="partly lost"),
        pytest.param([(64, 0), (100, 80)], ReadTokens(84, 16, 0), id="found later"),
        pytest.param([(64, 0), (32, 31)], ReadTokens(64, 0, 1), id="less than before"),
        pytest.param([(64, 40), (30, 0)], ReadTokens(24, 40, 30), id="begun anew"),
        pytest.param([(10, 99)], ReadTokens(0, 10, 0), id="more than there was"),
    ],
)
def test_everything_is_paid_once(parts: list[Part], read: ReadTokens) -> None:
    whole = ReadTokens()
    for upto, cached in parts:
        whole = whole.then(upto, cached=cached)
    assert whole == read


@given(
    st.lists(
        st.integers(1, 500).flatmap(
            lambda upto: st.tuples(st.just(upto), st.integers(0, upto))
        ),
        min_size=1,
    )
)
def test_what_is_paid_and_what_is_read_again_is_all_that_was_computed(
    parts: list[Part],
) -> None:
    whole, computed = ReadTokens(), 0
    for upto, cached in parts:
        whole = whole.then(upto, cached=cached)
        computed += upto - cached
    assert whole.uncached + whole.again == computed
    assert whole.paid == max(upto for upto, _ in parts)
