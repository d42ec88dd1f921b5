"""What every test shares."""

from collections.abc import Generator
import os

import pytest

# Imported before Home Assistant's loader looks for it: otherwise the loader finds the
# folder of the same name that the pytest plugin ships.
import custom_components  # noqa: F401


@pytest.fixture(autouse=True)
def _integrations_of_this_checkout(request: pytest.FixtureRequest) -> None:
    """Let Home Assistant load fair_share in the tests that have a Home Assistant."""
    if "hass" in request.fixturenames:
        request.getfixturevalue("enable_custom_integrations")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a live test that would be skipped where an engine has to be there.

    What was captured is made fit to be passed on.
    """
    report = yield
    must_run = item.get_closest_marker("live") and os.environ.get(
        "FAIR_SHARE_REQUIRE_LIVE"
    )
    if report.skipped and must_run:
        report.outcome = "failed"
        report.longrepr = f"a live test was skipped: {report.longrepr}"
    # Some tests have half characters logged, which no other process can be told.
    report.sections = [
        (name, text.encode("utf-8", "replace").decode())
        for name, text in report.sections
    ]
    return report
