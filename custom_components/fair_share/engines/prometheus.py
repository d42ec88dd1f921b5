"""The few things needed from a metrics page in Prometheus' text format."""

from collections.abc import Iterator, Mapping
import math
import re

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_SAMPLE = re.compile(r"^(?P<name>[\w:]+)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)")


def total(page: str, *names: str) -> float | None:
    """Return the sum over all labels of the first of these metrics that is there.

    A metric that is no number (``NaN``, ``+Inf``) is not there.
    """
    for name in names:
        values = [value for _, value in _samples(page, name)]
        if values:
            return sum(values)
    return None


def labels(page: str, name: str) -> Mapping[str, str]:
    """Return the labels of the first sample of a metric, empty if there is none."""
    return next((found for found, _ in _samples(page, name)), {})


def _samples(page: str, name: str) -> Iterator[tuple[Mapping[str, str], float]]:
    for line in page.splitlines():
        match = _SAMPLE.match(line)
        if match is None or match["name"] != name:
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        if not math.isfinite(value):
            continue
        yield dict(_LABEL.findall(match["labels"] or "")), value
