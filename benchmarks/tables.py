"""Tables of rows that are dataclasses, for a terminal or for the docs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import sys


@dataclass(frozen=True, slots=True)
class Column:
    """A title, the field of a row that stands below, and its digits after the point."""

    title: str
    field: str
    digits: int

    def cell(self, row: object) -> str:
        """Return what stands in a row, a dash where nobody knows."""
        value = getattr(row, self.field)
        return "-" if value is None else f"{value:.{self.digits}f}"


def print_table(
    name: str,
    rows: Mapping[str, object],
    columns: Sequence[Column],
    *,
    markdown: bool = False,
) -> None:
    """Print rows under a heading; ``name`` says what they are."""
    if markdown:
        print("|".join(["", name, *(each.title for each in columns), ""]))
        print("|".join(["", "---", *("---:" for _ in columns), ""]))
        for row, values in rows.items():
            print("|".join(["", row, *(each.cell(values) for each in columns), ""]))
        return
    lines = [[name, *(each.title for each in columns)]]
    for row, values in rows.items():
        lines.append([row, *(each.cell(values) for each in columns)])
    widths = [max(map(len, cells)) + 2 for cells in zip(*lines, strict=True)]
    for first, *rest in lines:
        cells = zip(rest, widths[1:], strict=True)
        print(f"{first:{widths[0]}}" + "".join(f"{c:>{w}}" for c, w in cells))
    sys.stdout.flush()
