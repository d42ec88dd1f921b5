from itertools import pairwise
from math import inf, isclose

from hypothesis import given, strategies as st
import pytest

from demo.shares import Claim, entitled_shares

_CLAIMS = st.dictionaries(
    st.text(max_size=3),
    st.builds(Claim, demand=st.floats(0, 1e6), weight=st.floats(0.01, 100)),
    max_size=6,
)


@pytest.mark.parametrize(
    ("capacity", "claims", "expected"),
    [
        pytest.param(90, {}, {}, id="nobody wants anything"),
        pytest.param(
            90,
            {"a": Claim(40), "b": Claim(50)},
            {"a": 40, "b": 50},
            id="enough for all",
        ),
        pytest.param(
            90,
            {"a": Claim(inf), "b": Claim(inf)},
            {"a": 45, "b": 45},
            id="greedy ones share alike",
        ),
        pytest.param(
            90,
            {"a": Claim(inf, weight=2), "b": Claim(inf)},
            {"a": 60, "b": 30},
            id="greedy ones share by weight",
        ),
        pytest.param(
            90,
            {"a": Claim(10), "b": Claim(inf), "c": Claim(inf)},
            {"a": 10, "b": 40, "c": 40},
            id="what the modest one leaves goes to the others",
        ),
        pytest.param(
            100,
            {"a": Claim(10), "b": Claim(42), "c": Claim(inf)},
            {"a": 10, "b": 42, "c": 48},
            id="what is left over makes another one modest",
        ),
        pytest.param(
            90,
            {"a": Claim(50, weight=0), "b": Claim(inf)},
            {"a": 0, "b": 90},
            id="no weight",
        ),
        pytest.param(
            0, {"a": Claim(0), "b": Claim(5)}, {"a": 0, "b": 0}, id="nothing to give"
        ),
    ],
)
def test_the_entitled_share_is_the_weighted_max_min_share(
    capacity: float, claims: dict[str, Claim], expected: dict[str, float]
) -> None:
    assert entitled_shares(capacity, claims) == pytest.approx(expected)


@given(st.floats(0, 1e6), _CLAIMS)
def test_nothing_is_lost_and_nobody_gets_more_than_they_want(
    capacity: float, claims: dict[str, Claim]
) -> None:
    shares = entitled_shares(capacity, claims)
    total_demand = sum(claim.demand for claim in claims.values())
    assert isclose(
        sum(shares.values()), min(capacity, total_demand), rel_tol=1e-6, abs_tol=1e-6
    )
    assert all(
        shares[name] <= claim.demand * (1 + 1e-9) + 1e-9
        for name, claim in claims.items()
    )


@given(st.floats(0, 1e6), _CLAIMS)
def test_those_who_got_less_than_they_want_got_the_same_per_weight(
    capacity: float, claims: dict[str, Claim]
) -> None:
    shares = entitled_shares(capacity, claims)
    levels = [
        shares[name] / claim.weight
        for name, claim in claims.items()
        if shares[name] < claim.demand * (1 - 1e-6) - 1e-6
    ]
    assert all(
        isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)
        for one, other in pairwise(levels)
    )
