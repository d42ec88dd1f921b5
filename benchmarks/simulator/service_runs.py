"""The runs of a published workload that the plots of service over time show."""

from custom_components.fair_share.admission.model import ServerCapacity

from .artifact import ArtifactEngine, ArtifactLimits
from .chunked import ChunkedEngine, ChunkedLimits
from .front import Front, PassThrough
from .memory import PagedPool
from .prefix_cache import PrefixCache
from .profile import StepTimes
from .queue_front import QueueFront
from .rows import POOL_TOKENS
from .run import Run, run
from .schedulers import LeastCounterFirst, NothingInAdvance
from .suites import Suite

_MANY_SLOTS = 1000


def service_runs(suite: Suite, times: StepTimes) -> dict[str, Run]:
    """Return a workload without a queue, under VTC in the engine, and under ours."""
    counter = LeastCounterFirst(
        lift=True, predictor=NothingInAdvance(), weights=suite.weights
    )
    engine = ArtifactEngine(times, ArtifactLimits(pool=POOL_TOKENS), counter)
    capacity = ServerCapacity(
        "server", _MANY_SLOTS, POOL_TOKENS, POOL_TOKENS, survives_exhaustion=True
    )
    return {
        "pass-through": _before_an_engine(PassThrough(), suite, times),
        "VTC in the engine": run(suite.jobs, engine, PassThrough()),
        "Fair Share, equal tokens": _before_an_engine(
            QueueFront(suite.weights, capacity), suite, times
        ),
    }


def _before_an_engine(front: Front, suite: Suite, times: StepTimes) -> Run:
    engine = ChunkedEngine(
        times, PagedPool(POOL_TOKENS), ChunkedLimits(), PrefixCache(0)
    )
    return run(suite.jobs, engine, front)
