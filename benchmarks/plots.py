"""The plots of the benchmarks, as PNG files.

Drawn with Matplotlib's figures alone, without its global state and without a display.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from custom_components.fair_share.admission.model import Workload

from .simulator.household_run import Played
from .simulator.metrics import service_rates
from .simulator.run import Run

_DPI = 80
_WINDOW_S = 60.0
_TICK_S = 10.0
_MOST_NAMED = 6
_GREY = "0.75"
_KINDS = (Workload.VOICE, Workload.CHAT, Workload.BACKGROUND)


def waits_of_queues(runs: Mapping[str, Sequence[Played]], path: Path) -> None:
    """Draw the waiting times of each kind of request under every queue."""
    figure = Figure(figsize=(9, 0.9 + 0.3 * len(runs)), layout="constrained")
    axes = figure.subplots(1, len(_KINDS), sharey=True)
    names = list(runs)[::-1]
    for axis, kind in zip(axes, _KINDS, strict=True):
        _boxes(axis, [_waits_s(runs[name], kind) for name in names], names)
        axis.set_title(kind.value)
        axis.set_xlabel("seconds until work began")
    figure.suptitle("Waiting: the middle half, 5 to 95 %, and the median")
    _save(figure, path)


def waits_of_members(runs: Mapping[str, Sequence[Played]], path: Path) -> None:
    """Draw the mean waits of each member under every policy."""
    members = sorted(
        {
            client.member
            for each in runs.values()
            for client in each[0].scenario.clients.values()
        }
    )
    figure = Figure(figsize=(7, 3), layout="constrained")
    axis = figure.subplots()
    width = 0.8 / len(members)
    for number, member in enumerate(members):
        axis.bar(
            [place + width * number for place in range(len(runs))],
            [_mean_wait_s(each, member) for each in runs.values()],
            width,
            label=member,
        )
    middle = width * (len(members) - 1) / 2
    axis.set_xticks([place + middle for place in range(len(runs))], list(runs))
    axis.set_ylabel("mean wait, s")
    axis.legend()
    _save(figure, path)


def service_over_time(runs: Mapping[str, Run], title: str, path: Path) -> None:
    """Draw what every client was served, side by side for each queue.

    The clients that asked for most have colours and names, all others are grey.
    """
    figure = Figure(figsize=(9, 3), layout="constrained")
    axes = figure.subplots(1, len(runs), sharey=True, squeeze=False)[0]
    for axis, (name, done) in zip(axes, runs.items(), strict=True):
        _services(axis, done)
        axis.set_title(name)
        axis.set_xlabel("s")
    axes[0].set_ylabel("weighted tokens per s")
    handles, labels = axes[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", title="client")
    figure.suptitle(title)
    _save(figure, path)


def _services(axis: Axes, done: Run) -> None:
    asked: dict[int, int] = {}
    for served in done.served:
        client = served.job.client
        asked[client] = asked.get(client, 0) + served.job.charge
    # Until the last arrival: what comes after it is only the rest being worked off.
    last_s = max(served.job.arrival_s for served in done.served)
    ticks = [
        _WINDOW_S / 2 + _TICK_S * number
        for number in range(int((last_s - _WINDOW_S) / _TICK_S) + 1)
    ]
    rates = [
        service_rates(done.served, list(asked), tick, window_s=_WINDOW_S)
        for tick in ticks
    ]
    named = sorted(asked, key=lambda client: -asked[client])[:_MOST_NAMED]
    for client in [*(set(asked) - set(named)), *named]:
        values = [each[client] for each in rates]
        if client in named:
            colour, label = f"C{named.index(client)}", f"{client}"
        else:
            colour, label = _GREY, None
        axis.plot(
            ticks,
            values,
            color=colour,
            label=label,
            linewidth=1,
            antialiased=client in named,  # many grey shades make a large file
        )


def _boxes(axis: Axes, values: Sequence[Sequence[float]], names: Sequence[str]) -> None:
    axis.boxplot(
        values, orientation="horizontal", whis=(5, 95), showfliers=False, widths=0.6
    )
    axis.set_yticks(range(1, len(names) + 1), names)
    # Nothing and next to nothing must have a place as well as minutes.
    axis.set_xscale("symlog", linthresh=1.0)
    axis.set_xlim(left=0)
    axis.grid(visible=True, axis="x", color=_GREY, linewidth=0.5)


def _waits_s(runs: Iterable[Played], kind: Workload) -> list[float]:
    return [
        each.waits_s[served.job.job_id] for each in runs for served in each.of(kind)
    ]


def _mean_wait_s(runs: Iterable[Played], member: str) -> float:
    return fmean(
        each.waits_s[served.job.job_id]
        for each in runs
        for served in each.run.served
        if each.client(served).member == member
    )


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the library's version in it, the same numbers give the same file.
    figure.savefig(
        path, dpi=_DPI, metadata={"Software": None}, pil_kwargs={"optimize": True}
    )
