"""Trying a fault: a copy of the queue and its tests, changed, and the tests run."""

from dataclasses import dataclass
import os
from pathlib import Path
import re
import shutil
import subprocess
import sys

from .faults import Fault

_ROOT = Path(__file__).parents[2]
_PACKAGE = Path("custom_components", "fair_share", "admission")
_TESTS = Path("tests", "admission")
_FAILED = re.compile(r"^FAILED (\S+?)::(.+?)(?: - .*)?$", re.MULTILINE)
_TESTS_FAILED = 1
_TIMEOUT_S = 120
_PLUGINS = ("pytest_asyncio", "pytest_timeout", "_hypothesis_pytestplugin")

_ONE_FAILURE_IS_ENOUGH = """
from hypothesis import Phase, settings

settings.register_profile(
    "trial", phases=[Phase.explicit, Phase.generate], derandomize=True, database=None
)
settings.load_profile("trial")
"""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a trial: the test that failed, if one did; what was printed."""

    test: str | None
    output: str


def occurrences(fault: Fault) -> int:
    """Return how often the text that the fault changes is there."""
    return (_ROOT / _PACKAGE / fault.file).read_text().count(fault.old)


def try_fault(fault: Fault, folder: Path) -> Result:
    """Run the tests of a fault in an empty folder with a queue that has it."""
    _copy(folder)
    changed = folder / _PACKAGE / fault.file
    changed.write_text(changed.read_text().replace(fault.old, fault.new))
    return _run(fault.tests, folder)


def try_without_fault(tests: tuple[str, ...], folder: Path) -> Result:
    """Run tests in an empty folder with the queue as it is."""
    _copy(folder)
    return _run(tests, folder)


def _copy(folder: Path) -> None:
    ignore = shutil.ignore_patterns("__pycache__")
    for part in (_PACKAGE, _TESTS):
        shutil.copytree(_ROOT / part, folder / part, ignore=ignore)
    # Without Home Assistant, which the queue does not need, tests start at once.
    for package in (_PACKAGE.parent.parent, _PACKAGE.parent, _TESTS.parent):
        (folder / package / "__init__.py").touch()
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    (folder / "conftest.py").write_text(_ONE_FAILURE_IS_ENOUGH)


def _run(tests: tuple[str, ...], folder: Path) -> Result:
    plugins = [word for name in _PLUGINS for word in ("-p", name)]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", *plugins]
    done = subprocess.run(  # noqa: S603 - our own tests
        [*command, "-p", "no:cacheprovider", *(str(_TESTS / name) for name in tests)],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        check=False,
        text=True,
        timeout=_TIMEOUT_S,
    )
    failed = _FAILED.search(done.stdout)
    # Anything but a failed test, as a file that can't be imported, proves nothing.
    if done.returncode != _TESTS_FAILED or failed is None:
        return Result(None, done.stdout + done.stderr)
    file, test = failed.groups()
    return Result(f"{Path(file).relative_to(_TESTS)}::{test}", done.stdout)
