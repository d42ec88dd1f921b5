"""How near the last hour came to what the policy aims at."""

from dataclasses import replace

import pytest

from custom_components.fair_share.admission.model import (
    DEFAULT_PROFILES,
    Outcome,
    RequestRecord,
    Workload,
)
from custom_components.fair_share.admission.policies import POLICIES
from custom_components.fair_share.admission.policy_match import (
    LEAST_TOGETHER_S,
    SPAN_S,
    PolicyMeter,
    Standing,
)
from tests.admission.test_metrics import RECORD

WEIGHTS = {"parent": 1.0, "child": 1.0, "teen": 2.0}


def stand(
    charges: dict[str, float], waiting: str = "parent child teen"
) -> dict[str, Standing]:
    """Return how members with these charges stand; those named wait."""
    return {
        member_id: Standing(WEIGHTS[member_id], member_id in waiting.split(), charge)
        for member_id, charge in charges.items()
    }


def served(
    *moments: dict[str, float], waiting: str = "parent child teen"
) -> PolicyMeter:
    """Return a meter that looked at these charges, a minute apart."""
    meter = PolicyMeter()
    for minute, charges in enumerate(moments):
        meter.look(stand(charges, waiting), minute * LEAST_TOGETHER_S)
    return meter


def asked(*requests: tuple[str, RequestRecord]) -> PolicyMeter:
    """Return a meter that saw these requests end."""
    meter = PolicyMeter()
    for member_id, record in requests:
        profile = DEFAULT_PROFILES[record.workload]
        path = ("household", member_id, f"{member_id}/direct", record.class_id)
        meter.note(path, record, profile, 0.0)
    return meter


VOICE = replace(RECORD, workload=Workload.VOICE, ttft_s=1.0)
LATE_VOICE = replace(VOICE, ttft_s=2.0)
LATE = replace(RECORD, duration_s=61.0)
CANCELLED = replace(RECORD, outcome=Outcome.CANCELLED)
WAITED_4 = replace(RECORD, wait_s=4.0)
AT_ONCE = replace(RECORD, wait_s=0.0)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_hour_in_which_nothing_happened_tells_nothing(policy: str) -> None:
    assert PolicyMeter().match(policy, WEIGHTS, 0.0) is None


# ---- equal tokens ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("got", "percent"),
    [
        ({"parent": 100.0, "child": 100.0, "teen": 200.0}, 100.0),
        ({"parent": 100.0, "child": 100.0}, 100.0),
        ({"parent": 150.0, "child": 50.0}, 75.0),
        ({"parent": 200.0, "child": 0.0}, 50.0),
        ({"parent": 100.0, "teen": 100.0}, 100 * (1 - 1 / 6)),
    ],
)
def test_equal_work_is_what_everybody_got_against_their_weights(
    got: dict[str, float], percent: float
) -> None:
    meter = served(dict.fromkeys(got, 0.0), got)
    assert meter.match("equal_tokens", WEIGHTS, 60.0) == pytest.approx(percent)


def test_work_evens_out_over_the_hour() -> None:
    meter = served(
        {"parent": 0.0, "child": 0.0},
        {"parent": 50.0, "child": 0.0},
        {"parent": 50.0, "child": 50.0},
    )
    assert meter.match("equal_tokens", WEIGHTS, 120.0) == pytest.approx(100.0)


@pytest.mark.parametrize("waiting", ["parent", "", "teen"])
def test_who_did_not_wait_at_the_same_time_is_not_compared(waiting: str) -> None:
    meter = served(
        {"parent": 0.0, "child": 0.0}, {"parent": 500.0, "child": 1.0}, waiting=waiting
    )
    assert meter.match("equal_tokens", WEIGHTS, 60.0) is None


def test_who_is_new_is_compared_from_the_next_look_on() -> None:
    meter = PolicyMeter()
    meter.look(stand({"parent": 0.0}), 0.0)
    meter.look(stand({"parent": 90.0, "child": 0.0}), 60.0)
    assert meter.match("equal_tokens", WEIGHTS, 60.0) is None
    meter.look(stand({"parent": 100.0, "child": 10.0}), 120.0)
    assert meter.match("equal_tokens", WEIGHTS, 120.0) == pytest.approx(100.0)


def test_less_than_a_minute_together_tells_nothing() -> None:
    meter = PolicyMeter()
    meter.look(stand({"parent": 0.0, "child": 0.0}), 0.0)
    meter.look(stand({"parent": 90.0, "child": 0.0}), 59.0)
    assert meter.match("equal_tokens", WEIGHTS, 59.0) is None


def test_waiting_together_without_any_service_tells_nothing() -> None:
    meter = served({"parent": 5.0, "child": 5.0}, {"parent": 5.0, "child": 4.0})
    assert meter.match("equal_tokens", WEIGHTS, 60.0) is None


def test_what_is_older_than_an_hour_does_not_count() -> None:
    meter = served({"parent": 0.0, "child": 0.0}, {"parent": 10.0, "child": 0.0})
    assert meter.match("equal_tokens", WEIGHTS, 60.0 + SPAN_S) == pytest.approx(50.0)
    assert meter.match("equal_tokens", WEIGHTS, 61.0 + SPAN_S) is None


# ---- the other policies ------------------------------------------------------------


@pytest.mark.parametrize(
    ("requests", "percent"),
    [
        ([("parent", RECORD), ("child", RECORD)], 100.0),
        ([("parent", RECORD), ("child", WAITED_4)], 90.0),  # (2 + 4)^2 / (2 (4 + 16))
        ([("teen", RECORD), ("child", WAITED_4)], 100.0),  # twice the weight
        ([("parent", RECORD), ("child", AT_ONCE)], None),
        ([("parent", RECORD), ("stranger", RECORD)], None),
    ],
)
def test_equal_waiting_is_jains_index_of_weighted_mean_waits(
    requests: list[tuple[str, RequestRecord]], percent: float | None
) -> None:
    match = asked(*requests).match("equal_waiting", WEIGHTS, 0.0)
    assert match == (percent if percent is None else pytest.approx(percent))


@pytest.mark.parametrize(
    ("requests", "percent"),
    [
        ([("parent", RECORD), ("child", RECORD)], 100.0),
        ([("parent", RECORD), ("child", RECORD), ("child", LATE)], 50.0),
        ([("parent", RECORD), ("child", LATE)], 0.0),
        ([("parent", LATE), ("child", LATE)], 100.0),
        ([("parent", RECORD), ("child", CANCELLED)], None),
    ],
)
def test_equal_completion_is_the_worst_by_the_best_rate_in_time(
    requests: list[tuple[str, RequestRecord]], percent: float | None
) -> None:
    assert asked(*requests).match("equal_completion", WEIGHTS, 0.0) == percent


@pytest.mark.parametrize(
    ("requests", "percent"),
    [
        ([("parent", VOICE), ("child", LATE_VOICE)], 50.0),
        ([("parent", VOICE), ("child", replace(VOICE, ttft_s=None))], 50.0),
        ([("parent", RECORD)], None),
    ],
)
def test_quick_first_words_are_the_part_of_spoken_requests_in_time(
    requests: list[tuple[str, RequestRecord]], percent: float | None
) -> None:
    assert asked(*requests).match("latency_first", WEIGHTS, 0.0) == percent


def test_shares_are_of_the_last_hour() -> None:
    meter = asked(("parent", RECORD), ("child", RECORD), ("child", RECORD))
    assert meter.shares(0.0) == {
        "parent": 20.0,
        "parent/direct": 20.0,
        "child": 40.0,
        "child/direct": 40.0,
    }
    assert meter.shares(SPAN_S + 1) == {}
