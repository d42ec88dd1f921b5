"""Tables for the terminal."""

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from .tally import Tally, percentile

_HEADINGS = (
    "asked",
    "done",
    "failed",
    "tokens",
    "charge",
    "share",
    "entitled",
    "wait p50",
    "TTFT p50",
    "p95",
)


def console(*, to_stderr: bool = False) -> Console:
    """Return where tables are shown: wide, where there is no terminal to fit into."""
    console = Console(stderr=to_stderr)
    return console if console.is_terminal else Console(stderr=to_stderr, width=120)


def answer_table(cells: Mapping[str, str]) -> Table:
    """Return one row with these headings and values."""
    table = Table(box=SIMPLE_HEAD)
    for heading in cells:
        table.add_column(heading, justify="right")
    table.add_row(*cells.values())
    return table


def load_table(
    tallies: Sequence[Tally], title: str, entitled: Mapping[str, float] | None = None
) -> Table:
    """Return what each class got, beside what it was entitled to if that is known."""
    table = Table(
        title=title, box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold"
    )
    table.add_column("class")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right")
    total = sum(tally.charge for tally in tallies)
    for tally in tallies:
        share = tally.charge / total if total else 0.0
        table.add_row(
            tally.name,
            str(tally.submitted),
            str(len(tally.records)),
            str(tally.failed),
            f"{tally.tokens:,}",
            f"{tally.charge:,.0f}",
            f"{share:.0%}",
            "-" if entitled is None else f"{entitled[tally.name]:.0%}",
            seconds(percentile(tally.waits_s, 50)),
            seconds(percentile(tally.ttfts_s, 50)),
            seconds(percentile(tally.ttfts_s, 95)),
        )
    return table


def seconds(value: float | None) -> str:
    """Return a time for people."""
    return "-" if value is None else f"{value:.1f}s"
