"""A pytest plugin: the run fails where coverage has fallen below a floor.

Loaded by ``scripts/test`` with ``-p``. pytest-cov knows one floor for everything; the
admission core has its own. What it says comes before pytest's closing line.
"""

from io import StringIO
from pathlib import Path

from coverage import Coverage
from coverage.exceptions import NoDataError
import pytest

_ROOT = Path(__file__).parent.parent
_PACKAGE = "custom_components/fair_share"
_FLOORS = {_PACKAGE: 95.0, f"{_PACKAGE}/admission": 100.0}

_findings = pytest.StashKey[list[str]]()


def _covered(folder: str) -> float:
    """Return how many percent of a folder's lines and branches the run covered."""
    coverage = Coverage()
    coverage.load()
    try:
        return coverage.report(include=[f"{_ROOT / folder}/*"], file=StringIO())
    except NoDataError:
        return 0.0


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Compare coverage with the floors, once pytest-cov has written its data."""
    findings = session.config.stash[_findings] = []
    for folder, floor in _FLOORS.items():
        covered = _covered(folder)
        if covered < floor:
            findings.append(f"{folder}: {covered:.2f} % covered, {floor:g} % needed")
    if findings and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what is below its floor."""
    if findings := terminalreporter.config.stash[_findings]:
        terminalreporter.section("coverage below its floor", red=True)
        for finding in findings:
            terminalreporter.line(finding)
