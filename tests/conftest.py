"""What every test shares."""

import pytest

# Imported before Home Assistant's loader looks for it: otherwise the loader finds the
# folder of the same name that the pytest plugin ships.
import custom_components  # noqa: F401


@pytest.fixture(autouse=True)
def _integrations_of_this_checkout(request: pytest.FixtureRequest) -> None:
    """Let Home Assistant load fair_share in the tests that have a Home Assistant."""
    if "hass" in request.fixturenames:
        request.getfixturevalue("enable_custom_integrations")
