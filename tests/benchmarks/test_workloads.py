"""The published workloads, number for number."""

import json
from pathlib import Path

import pytest

from benchmarks.simulator.numpy_stream import exponential, numpy_stream
from benchmarks.simulator.suites import SUITES, load_suite

HEADER = "arrival_s,client,input_tokens,output_tokens\n"

# From the result files of the VTC artifact: how many requests there are, and arrival
# (rounded), client, prompt and output tokens of the first four.
FIRST = {
    "overload": (1620, [(0.65, 1), (0.92, 0), (0.98, 1), (1.32, 1)]),
    "overload-multi": (1512, [(1.76, 6), (1.93, 5), (1.93, 4), (2.66, 3)]),
    "overload-weighted": (1584, [(1.0, 3), (1.44, 2), (1.62, 3), (1.72, 0)]),
    "proportional": (1350, [(1.15, 2), (1.82, 2), (2.49, 2), (3.15, 2)]),
    "on_off_less": (1350, [(0.98, 1), (1.48, 1), (1.98, 1), (2.48, 1)]),
    "on_off_overload": (2400, [(0.65, 1), (0.69, 0), (0.98, 1), (1.19, 0)]),
    "poisson_short_long": (5700, [(0.04, 0), (0.08, 1), (0.17, 0), (0.2, 0)]),
    "poisson_short_long_2": (5700, [(0.04, 0), (0.08, 1), (0.17, 0), (0.2, 0)]),
    "increase": (960, [(2.0, 0), (4.0, 0), (5.0, 1), (6.0, 0)]),
    "dist_shift": (1889, [(0.98, 1), (1.48, 1), (1.98, 1), (2.48, 1)]),
}


@pytest.mark.parametrize("name", FIRST)
def test_a_workload_is_the_list_of_requests_that_was_measured(name: str) -> None:
    jobs = load_suite(name).jobs
    first = [(round(each.arrival_s, 2), each.client) for each in jobs[:4]]
    assert (len(jobs), first) == FIRST[name]
    assert len({each.job_id for each in jobs}) == len(jobs)
    assert list(jobs) == sorted(jobs, key=lambda each: each.arrival_s)


@pytest.mark.parametrize(
    ("name", "lengths"),
    [
        ("overload", {(0, 256, 256), (1, 256, 256)}),
        ("poisson_short_long", {(0, 64, 64), (1, 256, 256)}),
        ("poisson_short_long_2", {(0, 512, 32), (1, 32, 512)}),
    ],
)
def test_requests_are_as_long_as_described(
    name: str, lengths: set[tuple[int, int, int]]
) -> None:
    found = {
        (each.client, each.prompt_tokens, each.output_tokens)
        for each in load_suite(name).jobs
    }
    assert found == lengths


def test_client_0_is_silent_in_every_second_minute() -> None:
    minutes = {
        int(each.arrival_s // 60)
        for each in load_suite("on_off_less").jobs
        if each.client == 0
    }
    # The last arrivals come a moment after the ten minutes.
    assert minutes == {0, 2, 4, 6, 8, 10}


def test_the_stream_is_that_of_numpy_seeded_with_42() -> None:
    # The first numbers of rand() after seed(42), as NumPy prints them.
    stream = numpy_stream(42)
    drawn = [stream.random() for _ in range(3)]
    assert drawn == pytest.approx([0.37454012, 0.95071431, 0.73199394], abs=1e-8)
    # The first of gamma(1, 2).
    assert exponential(numpy_stream(42), 2) == pytest.approx(0.93853618, abs=1e-8)


def test_a_trace_is_read_in_order_of_arrival(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"# where it is from\n{HEADER}2.5,7,30,40\n0.5,9,10,20\n")
    suite = load_suite("real", path)
    assert [
        (each.arrival_s, each.client, each.prompt_tokens, each.output_tokens)
        for each in suite.jobs
    ] == [(0.5, 0, 10, 20), (2.5, 1, 30, 40)]
    assert suite.weights == {0: 1.0, 1: 1.0}
    assert not suite.weighted


def test_a_published_result_file_is_a_trace_too(tmp_path: Path) -> None:
    answers = [
        {"req_time": at, "adapter_dir": who, "prompt_len": 5, "output_len": 6}
        for at, who in ((3.0, "x-7"), (1.0, "x-9"), (2.0, "x-7"))
    ]
    path = tmp_path / "all_results_real.jsonl"
    path.write_text(json.dumps({"config": {}, "result": {"responses": answers}}))
    jobs = load_suite("real", path).jobs
    assert [(each.arrival_s, each.client) for each in jobs] == [
        (1.0, 0),
        (2.0, 1),
        (3.0, 1),
    ]


def test_a_file_with_other_columns_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("time,who\n1,2\n")
    with pytest.raises(ValueError, match="a trace has the columns"):
        load_suite("real", path)


def test_the_trace_does_not_come_with_the_benchmark() -> None:
    assert "real" in SUITES
    with pytest.raises(KeyError):
        load_suite("real")
