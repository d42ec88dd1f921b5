"""The rows of the table that the simulator makes: which engine, behind which front."""

from collections.abc import Callable, Mapping
from random import Random

from custom_components.fair_share.admission.model import (
    DEFAULT_PROFILES,
    PreemptionRules,
    ServerCapacity,
    Workload,
    WorkloadProfile,
)
from custom_components.fair_share.admission.policies import POLICIES

from .artifact import ArtifactEngine, ArtifactLimits
from .chunked import ChunkedEngine, ChunkedLimits
from .front import Front, PassThrough
from .memory import PagedPool
from .metrics import Row, measure
from .prefix_cache import PrefixCache
from .profile import StepTimes
from .queue_front import POLICY_ALONE, QueueFront
from .run import run
from .schedulers import (
    EngineScheduler,
    FirstComeFirstServed,
    LeastCounterFirst,
    MovingAverage,
    NothingInAdvance,
    Oracle,
    Predictor,
    RequestsPerMinute,
)
from .suites import REAL, Suite

POOL_TOKENS = 10_000
_SLOTS = 1000
_THRESHOLDS = (500.0, 1000.0)
_RPM_LIMITS = (5, 10, 15, 20, 30)

type MakeRow = Callable[[Suite, StepTimes], Row]


def rows_of(suite: Suite) -> dict[str, MakeRow]:
    """Return what can be simulated for a suite, by the name of the row."""
    rows: dict[str, MakeRow] = {
        "engine_fcfs": in_engine(lambda _: FirstComeFirstServed()),
        "engine_lcf": in_engine(_least_counter(NothingInAdvance, lift=False)),
        "engine_vtc": in_engine(_least_counter(NothingInAdvance)),
        "engine_vtc_predict": in_engine(_least_counter(MovingAverage)),
        "engine_vtc_oracle_50": in_engine(_least_counter(lambda: _oracle(0.5))),
        "engine_vtc_oracle": in_engine(_least_counter(lambda: _oracle(0.0))),
    }
    if suite.weighted:
        rows["engine_vtc_weighted"] = in_engine(
            _least_counter(NothingInAdvance, weighted=True)
        )
    if suite.name == REAL:
        for limit in _RPM_LIMITS:
            rows[f"engine_rpm{limit}"] = in_engine(_per_minute(limit))
    rows["engine_pass_through"] = in_front(lambda _: PassThrough())
    for policy in POLICIES:
        rows[f"ours_{policy}"] = in_front(_queue(policy))
    for threshold in _THRESHOLDS:
        rules = PreemptionRules(threshold=threshold)
        rows[f"ours_equal_tokens_preempt{threshold:.0f}"] = in_front(
            _queue("equal_tokens", preemption=rules)
        )
    rows["ours_equal_tokens_urgent"] = in_front(
        _queue("equal_tokens", profile=DEFAULT_PROFILES[Workload.CHAT])
    )
    return rows


def in_engine(scheduler: Callable[[Suite], EngineScheduler]) -> MakeRow:
    """Simulate a scheduler inside the engine of the published measurements."""

    def make(suite: Suite, times: StepTimes) -> Row:
        limits = ArtifactLimits(pool=POOL_TOKENS)
        engine = ArtifactEngine(times, limits, scheduler(suite))
        done = run(suite.jobs, engine, PassThrough())
        return measure(done, suite.jobs, suite.weights)

    return make


def in_front(front: Callable[[Suite], Front]) -> MakeRow:
    """Simulate a front before an engine as it comes, on the same machine."""

    def make(suite: Suite, times: StepTimes) -> Row:
        engine = ChunkedEngine(
            times, PagedPool(POOL_TOKENS), ChunkedLimits(), PrefixCache(0)
        )
        done = run(suite.jobs, engine, front(suite))
        return measure(done, suite.jobs, suite.weights)

    return make


def _queue(
    policy: str,
    *,
    profile: WorkloadProfile = POLICY_ALONE,
    preemption: PreemptionRules | None = None,
) -> Callable[[Suite], Front]:
    return lambda suite: QueueFront(
        suite.weights,
        _capacity(),
        policy=policy,
        profile=profile,
        preemption=preemption,
    )


def _least_counter(
    predictor: Callable[[], Predictor], *, lift: bool = True, weighted: bool = False
) -> Callable[[Suite], EngineScheduler]:
    def make(suite: Suite) -> EngineScheduler:
        weights: Mapping[int, float] = suite.weights if weighted else {}
        return LeastCounterFirst(lift=lift, predictor=predictor(), weights=weights)

    return make


def _per_minute(limit: int) -> Callable[[Suite], EngineScheduler]:
    return lambda _: RequestsPerMinute(limit)


def _oracle(error: float) -> Oracle:
    return Oracle(error, Random(42).uniform)


def _capacity() -> ServerCapacity:
    return ServerCapacity(
        server_id="server",
        slots=_SLOTS,
        context_tokens=POOL_TOKENS,
        kv_tokens=POOL_TOKENS,
        survives_exhaustion=True,
    )
