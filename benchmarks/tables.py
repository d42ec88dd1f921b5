"""Tables of rows that are dataclasses, for a terminal or for the docs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_NAME_WIDTH = 28


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
    widths = [len(each.title) + 2 for each in columns]
    titles = zip(columns, widths, strict=True)
    print(f"{name:{_NAME_WIDTH}}" + "".join(f"{c.title:>{w}}" for c, w in titles))
    for row, values in rows.items():
        cells = [
            f"{each.cell(values):>{width}}"
            for each, width in zip(columns, widths, strict=True)
        ]
        print(f"{row:{_NAME_WIDTH}}" + "".join(cells), flush=True)
