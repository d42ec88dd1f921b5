"""Percentiles of the latest requests."""

from dataclasses import replace

import pytest

from custom_components.fair_share.admission.metrics import (
    LATEST,
    SPAN_S,
    ByNode,
    ByServer,
    ByWorkload,
    Measure,
    Metrics,
)
from custom_components.fair_share.admission.model import (
    Outcome,
    RequestRecord,
    Rule,
    TokenCount,
    Workload,
)

RECORD = RequestRecord(
    request_id="r",
    class_id="parent/direct/chat",
    workload=Workload.CHAT,
    outcome=Outcome.FINISHED,
    rule=Rule.POLICY,
    server_id="server",
    wait_s=2.0,
    ttft_s=3.0,
    duration_s=9.0,
    tokens=TokenCount(10, 0, 5),
    charge=20.0,
    paused_s=2.0,
)
PARENT = ByNode("parent")


def noted(*records: RequestRecord, now: float = 0.0) -> Metrics:
    """Return metrics that have seen these requests of Parent end."""
    metrics = Metrics()
    for record in records:
        metrics.note(("household", "parent"), record, now)
    return metrics


@pytest.mark.parametrize(
    ("measure", "seconds"),
    [
        (Measure.WAIT, 2.0),
        (Measure.TTFT, 3.0),
        (Measure.LATENCY, 1.0),
        (Measure.COMPLETION, 9.0),
        (Measure.ITL, 1.0),  # (9 - 3 - 2 of pause) / 4 gaps
    ],
)
def test_what_is_measured_of_a_request(measure: Measure, seconds: float) -> None:
    assert noted(RECORD).percentile(PARENT, measure, 95, 0.0) == seconds


@pytest.mark.parametrize(
    "group",
    [PARENT, ByNode("household"), ByWorkload(Workload.CHAT), ByServer("server")],
)
def test_a_request_counts_for_who_asked_for_its_kind_and_for_its_server(
    group: ByNode | ByWorkload | ByServer,
) -> None:
    assert noted(RECORD).percentile(group, Measure.WAIT, 50, 0.0) == 2.0


def test_percentiles_are_by_nearest_rank() -> None:
    metrics = noted(*(replace(RECORD, wait_s=float(n)) for n in range(1, 21)))
    assert metrics.percentile(PARENT, Measure.WAIT, 50, 0.0) == 10.0
    assert metrics.percentile(PARENT, Measure.WAIT, 95, 0.0) == 19.0
    assert metrics.percentile(PARENT, Measure.WAIT, 100, 0.0) == 20.0


def test_what_nobody_asked_for_has_no_percentiles() -> None:
    assert Metrics().percentile(PARENT, Measure.WAIT, 95, 0.0) is None


def test_a_request_that_never_started_does_not_count() -> None:
    metrics = noted(replace(RECORD, server_id=None))
    assert metrics.percentile(PARENT, Measure.WAIT, 95, 0.0) is None


@pytest.mark.parametrize(
    ("record", "measure"),
    [
        (replace(RECORD, outcome=Outcome.CANCELLED), Measure.COMPLETION),
        (replace(RECORD, ttft_s=None), Measure.TTFT),
        (replace(RECORD, ttft_s=None), Measure.LATENCY),
        (replace(RECORD, tokens=TokenCount(10, 0, 1)), Measure.ITL),
    ],
)
def test_what_did_not_happen_is_not_measured(
    record: RequestRecord, measure: Measure
) -> None:
    assert noted(record).percentile(PARENT, measure, 95, 0.0) is None


def test_requests_older_than_a_day_are_forgotten() -> None:
    metrics = noted(RECORD)
    assert metrics.percentile(PARENT, Measure.WAIT, 95, SPAN_S) == 2.0
    assert metrics.percentile(PARENT, Measure.WAIT, 95, SPAN_S + 1) is None


def test_only_the_latest_requests_count() -> None:
    slow = replace(RECORD, wait_s=100.0)
    metrics = noted(slow, *[RECORD] * LATEST)
    assert metrics.percentile(PARENT, Measure.WAIT, 100, 0.0) == 2.0
