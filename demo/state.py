"""The folder in which a demo keeps everything it has."""

from collections.abc import Iterator
from contextlib import contextmanager
import fcntl
from pathlib import Path
import shutil
import tempfile

from .errors import DemoError
from .household import forget_household

DEFAULT_FOLDER = Path(__file__).resolve().parent.parent / ".demo"


@contextmanager
def kept_folder(folder: Path, *, fresh: bool) -> Iterator[Path]:
    """Use a folder that stays, alone. Raises ``DemoError`` if another demo has it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            # The kernel releases it however this process ends.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DemoError(
                f"Another demo is running in {folder}. Stop it, or name another folder "
                "with --state."
            ) from None
        if fresh:
            forget_household(folder)
        yield folder


@contextmanager
def passing_folder() -> Iterator[Path]:
    """Use a folder that is deleted in the end, unless an error names a log in it."""
    folder = Path(tempfile.mkdtemp(prefix="fair-share-demo-"))
    keep = False
    try:
        yield folder
    except DemoError as error:
        keep = error.log is not None
        raise
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
