"""Running the demo as its user does, and looking at what it leaves behind."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
import json
import os
from pathlib import Path
import subprocess
import sys
from typing import Any
import uuid

import psutil
import pytest

from demo.embedded_engine import EngineMissingError, find_model

_ROOT = Path(__file__).resolve().parent.parent.parent
_LIMIT_S = 220.0
_MARK = "FAIR_SHARE_TEST_RUN"


@dataclass(frozen=True, slots=True)
class DemoRun:
    """How a run of the demo ended, and which of its processes are still there."""

    code: int
    stdout: str
    stderr: str
    left_over: list[str]

    @property
    def result(self) -> Any:
        """Return what was printed with ``--json``."""
        return json.loads(self.stdout)


def require_engine() -> None:
    """Skip the test, and say why, where no engine can be had."""
    try:
        find_model()
    except EngineMissingError as error:
        pytest.skip(f"no engine: {error}")


def run_demo(*arguments: str) -> DemoRun:
    """Run ``python -m demo`` with these arguments until it ends."""
    mark = uuid.uuid4().hex
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "demo", *arguments],
        cwd=_ROOT,
        env=os.environ | {_MARK: mark},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    left_over = list(_processes_with(mark))
    return DemoRun(done.returncode, done.stdout, done.stderr, left_over)


def _processes_with(mark: str) -> Iterator[str]:
    """Find processes by the environment that they inherited."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(_MARK) == mark:
                yield " ".join(process.cmdline())
