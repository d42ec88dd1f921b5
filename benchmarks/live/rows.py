"""What a household got of a server: one row for each way to it."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from custom_components.fair_share.admission.model import (
    CostWeights,
    TokenCount,
    Workload,
)

from ..simulator.metrics import percentile
from ..tables import Column
from .home import MEMBERS
from .mixed_load import Observed
from .observing import Ran

COLUMNS = (
    Column("voice p50 s", "voice_ttft_p50_s", 2),
    Column("p95 s", "voice_ttft_p95_s", 2),
    Column("waiting", "voice_still_waiting", 0),
    Column("chat p95 s", "chat_ttft_p95_s", 2),
    Column("background tok/s", "background_tokens_per_s", 1),
    Column("all tok/s", "all_tokens_per_s", 1),
    Column("done", "summaries_done", 0),
    Column("interrupted", "preemptions", 0),
    Column("recomputed", "recomputed_tokens", 0),
    Column("failed", "failed", 0),
)


@dataclass(frozen=True, slots=True)
class Side:
    """One way to the server: medians over the runs, ``failed`` of all together.

    TTFT counts from the moment at which a command was given; one that still waits at
    the end counts with its wait until then (``voice_still_waiting``).
    ``background_tokens_per_s`` are the uncached prompt tokens and output tokens of
    summaries that were computed in the window, also of unfinished ones, each once;
    ``all_tokens_per_s`` those of voice and chat as well.
    """

    voice_ttft_p50_s: float
    voice_ttft_p95_s: float
    background_tokens_per_s: float
    all_tokens_per_s: float
    failed: int
    voice_commands: int
    voice_still_waiting: int
    chat_ttft_p50_s: float | None
    chat_ttft_p95_s: float | None
    summaries_done: int
    preemptions: int | None = None
    recomputed_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """What part of all service a member got, and what part was theirs by weight."""

    share: float
    entitled: float


def side_of(runs: Iterable[Ran]) -> Side:
    """Return the medians of several runs of one way."""
    runs = list(runs)
    seen = [ran.observed for ran in runs]

    def wait(workload: Workload, share: float) -> float | None:
        waits = (percentile(each.waits_s(workload), share) for each in seen)
        known = [each for each in waits if each is not None]
        return median(known) if known else None

    counted = [ran for ran in runs if ran.preemptions is not None]
    return Side(
        voice_ttft_p50_s=wait(Workload.VOICE, 0.5) or 0.0,
        voice_ttft_p95_s=wait(Workload.VOICE, 0.95) or 0.0,
        background_tokens_per_s=median(map(background_tokens_per_s, seen)),
        all_tokens_per_s=median(map(all_tokens_per_s, seen)),
        failed=sum(each.failed() for each in seen),
        voice_commands=sum(len(each.waits_s(Workload.VOICE)) for each in seen),
        voice_still_waiting=sum(each.still_waiting(Workload.VOICE) for each in seen),
        chat_ttft_p50_s=wait(Workload.CHAT, 0.5),
        chat_ttft_p95_s=wait(Workload.CHAT, 0.95),
        summaries_done=int(median(e.finished(Workload.BACKGROUND) for e in seen)),
        preemptions=int(median(r.preemptions or 0 for r in counted))
        if counted
        else None,
        recomputed_tokens=(
            int(median(r.recomputed or 0 for r in counted)) if counted else None
        ),
    )


def background_tokens_per_s(observed: Observed) -> float:
    """Return what was computed for background work, in tokens per second."""
    return _per_s(observed, observed.done(workload=Workload.BACKGROUND))


def all_tokens_per_s(observed: Observed) -> float:
    """Return what was computed for everybody, in tokens per second."""
    return _per_s(observed, observed.done())


def _per_s(observed: Observed, done: TokenCount) -> float:
    return (done.uncached + done.output) / (observed.to_s - observed.from_s)


def shares_of(windows: Iterable[Observed]) -> dict[str, Share]:
    """Return each member's share of all that was done, in weighted tokens.

    Both always have work waiting and the same weight, so half of it is theirs.
    """
    costs = CostWeights()
    served = dict.fromkeys(MEMBERS, 0.0)
    for observed in windows:
        for member in MEMBERS:
            done = observed.done(member=member)
            served[member] += costs.charge(done.uncached, done.cached, done.output)
    total = sum(served.values())
    return {
        name: Share(ratio(charge, total), 1 / len(MEMBERS))
        for name, charge in served.items()
    }


def ratio(part: float, whole: float) -> float:
    """Return a part of a whole, 0 of nothing."""
    return part / whole if whole else 0.0
