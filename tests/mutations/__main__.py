"""Tries all faults, prints which test noticed which, and fails if any was missed."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import sys
from tempfile import TemporaryDirectory
from time import monotonic

from .faults import FAULTS, Fault
from .trial import Result, occurrences, try_fault

_WORKERS = 2


def _try(fault: Fault) -> tuple[Fault, Result]:
    with TemporaryDirectory() as folder:
        return fault, try_fault(fault, Path(folder))


def say(line: str) -> None:
    """Tell the person at the terminal, at once."""
    print(line, flush=True)  # noqa: T201 - that is what it is for


def main() -> int:
    """Return how many faults no test noticed."""
    began = monotonic()
    gone = [fault for fault in FAULTS if occurrences(fault) != 1]
    for fault in gone:
        say(f"| {fault.meaning} | {fault.file}: text not there just once |")
    missed = 0
    say("| fault | test that fails |\n|---|---|")
    with ThreadPoolExecutor(_WORKERS) as pool:
        for fault, result in pool.map(
            _try, (each for each in FAULTS if each not in gone)
        ):
            missed += result.test is None
            say(f"| {fault.meaning} | {result.test or 'NONE'} |")
    caught = len(FAULTS) - len(gone) - missed
    seconds = monotonic() - began
    say(f"\n{caught} of {len(FAULTS)} faults noticed, in {seconds:.0f} s")
    return missed + len(gone)


sys.exit(main())
