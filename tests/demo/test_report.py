from demo.records import Record, Tokens
from demo.report import LoadReport
from demo.tally import Tally


def _tally(name: str, charge: float, *, greedy: bool = False) -> Tally:
    record = Record(wait_s=0.5, ttft_s=1.5, tokens=Tokens(10, 0, 20), charge=charge)
    return Tally(
        name, name, greedy=greedy, submitted=1, charge=charge, records=[record]
    )


def test_a_report_compares_what_each_class_got_with_what_it_was_entitled_to() -> None:
    tallies = [_tally("chat", 25.0), _tally("background", 75.0, greedy=True)]

    report = LoadReport(tallies, 12.34, 500.0, deferred_in_engine=0).as_json()

    assert report == {
        "classes": {
            "chat": {
                "requests": 1,
                "tokens": 30,
                "charge": 25.0,
                "share": 0.25,
                "entitled": 0.25,
                "wait_p50_s": 0.5,
                "ttft_p50_s": 1.5,
                "ttft_p95_s": 1.5,
                "failed": 0,
            },
            "background": {
                "requests": 1,
                "tokens": 30,
                "charge": 75.0,
                "share": 0.75,
                "entitled": 0.75,
                "wait_p50_s": 0.5,
                "ttft_p50_s": 1.5,
                "ttft_p95_s": 1.5,
                "failed": 0,
            },
        },
        "fairness_gap": 12.3,
        "bound": 500.0,
        "deferred_in_engine": 0,
    }


def test_a_report_of_nothing_divides_by_nothing() -> None:
    report = LoadReport([Tally("chat", "child")], 0.0, 0.0, None)

    assert report.as_json()["classes"]["chat"]["share"] == 0.0
