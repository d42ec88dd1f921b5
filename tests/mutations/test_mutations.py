"""No fault of the table goes unnoticed."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from .faults import FAULTS, Fault
from .trial import Result, occurrences, try_fault, try_without_fault

pytestmark = pytest.mark.timeout(900)

WORKERS = 2


@pytest.fixture(scope="module")
def trials(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[Fault, Future[Result]]]:
    """All trials, which are under way."""
    with ThreadPoolExecutor(WORKERS) as pool:
        yield {
            fault: pool.submit(try_fault, fault, tmp_path_factory.mktemp("fault"))
            for fault in FAULTS
        }


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.meaning)
def test_the_place_of_a_fault_is_there_just_once(fault: Fault) -> None:
    assert occurrences(fault) == 1


def test_without_a_fault_nothing_is_noticed(tmp_path: Path) -> None:
    tests = tuple(sorted({name for fault in FAULTS for name in fault.tests}))
    result = try_without_fault(tests, tmp_path)
    assert result.test is None
    assert " passed" in result.output
    assert " error" not in result.output


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.meaning)
def test_a_fault_is_noticed_by_a_test(
    fault: Fault, trials: dict[Fault, Future[Result]]
) -> None:
    result = trials[fault].result()
    assert result.test, f"no test fails if {fault.meaning}:\n{result.output[-2000:]}"
