"""What the demo says when something fails."""

from pathlib import Path

_TAIL_LINES = 15


class DemoError(Exception):
    """A failure in one clear sentence, with the log that tells more."""

    exit_code = 1

    def __init__(self, message: str, *, log: Path | None = None) -> None:
        """Keep the sentence and where the log is."""
        super().__init__(message)
        self.log = log

    def explain(self) -> str:
        """Return the sentence, the end of the log and where it is."""
        if self.log is None:
            return f"error: {self}"
        tail = "".join(f"    | {line}\n" for line in tail_of(self.log))
        return f"error: {self}\n{tail}The whole log: {self.log}"


class UnknownMemberError(DemoError):
    """Somebody asked as a member that the demo's household does not have."""

    exit_code = 2


def tail_of(log: Path) -> list[str]:
    """Return the last lines of a log; none when there is no log."""
    if not log.exists():
        return []
    return log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
