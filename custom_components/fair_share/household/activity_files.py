"""The files of the activity log. All of this blocks: not for the event loop."""

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from datetime import date, timedelta
import os
from pathlib import Path
import re

KEPT_DAYS = 7
KEPT_BYTES = 20_000_000
FILE_BYTES = 2_000_000

_NAME = re.compile(r"activity-(\d{4}-\d{2}-\d{2})(?:\.(\d+))?\.jsonl")
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700


class ActivityFiles:
    """One file for each day, and further parts of it when it gets long.

    All together they never hold more than ``KEPT_BYTES``, and none is kept for longer
    than ``KEPT_DAYS`` days, today included. Nobody but Home Assistant's own user may
    read them.
    """

    def __init__(self, folder: Path) -> None:
        """Name the folder; nothing is read or written yet."""
        self._folder = folder
        self._header: tuple[Path, str] | None = None

    def append(
        self, header: str, lines: Iterable[str], today: date, *, create: bool = True
    ) -> None:
        """Write lines to the file of today.

        Each file begins with the header, and it comes again whenever it is another
        one. Without ``create`` nothing is written if there is no file of today.
        Raises ``OSError``.
        """
        parts = [part for day, part, _ in self._files() if day == today]
        if not (parts or create):
            return
        part = max(parts, default=1)
        left = deque(line.encode() + b"\n" for line in lines)
        while left:
            self._fill(self._path(today, part), header, left, today)
            part += 1

    def prune(self, today: date, *, room: int = 0) -> None:
        """Delete what is too old, and the oldest until so many bytes have room.

        Raises ``OSError``.
        """
        oldest_day = today - timedelta(days=KEPT_DAYS - 1)
        sizes = [(day, path, path.stat().st_size) for day, _, path in self._files()]
        total = sum(size for _, _, size in sizes)
        for day, path, size in sizes:
            if day < oldest_day or total + room > KEPT_BYTES:
                path.unlink()
                total -= size

    def remove(self) -> None:
        """Delete all files, and the folder if nothing else is in it.

        Raises ``OSError``.
        """
        for _, _, path in self._files():
            path.unlink()
        with suppress(OSError):
            self._folder.rmdir()

    def _fill(self, path: Path, header: str, left: deque[bytes], today: date) -> None:
        """Move as many lines into a file as it has room for."""
        new = not path.exists()
        size = 0 if new else _without_torn_line(path)
        batch: list[bytes] = []
        if new or self._header != (path, header):
            batch.append(header.encode() + b"\n")
            size += len(batch[0])
        before = len(left)
        while left and (size + len(left[0]) <= FILE_BYTES or (new and not batch[1:])):
            size += len(left[0])
            batch.append(left.popleft())
        if len(left) == before:
            return
        if new:
            self.prune(today, room=FILE_BYTES)
            self._folder.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)
        _write(path, b"".join(batch))
        self._header = path, header

    def _files(self) -> list[tuple[date, int, Path]]:
        """Return day, number and path of every file, the oldest first."""
        files = []
        for path in self._folder.glob("activity-*.jsonl"):
            if (found := _NAME.fullmatch(path.name)) and path.is_file():
                with suppress(ValueError):
                    day = date.fromisoformat(found[1])
                    files.append((day, int(found[2] or 1), path))
        return sorted(files)

    def _path(self, day: date, part: int) -> Path:
        number = "" if part == 1 else f".{part}"
        return self._folder / f"activity-{day.isoformat()}{number}.jsonl"


def _without_torn_line(path: Path) -> int:
    """Cut off a line that a killed process did not finish; return the size."""
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        if not size:
            return 0
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.seek(0)
            size = file.read().rfind(b"\n") + 1
            file.truncate(size)
        return size


def _write(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    with open(os.open(path, flags, _PRIVATE_FILE), "ab") as file:  # noqa: PTH123 - a mode
        file.write(data)
