"""The rules of the queue as the household's options set them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..admission.model import (
    BACKGROUND_BAND,
    DEFAULT_PROFILES,
    CostWeights,
    Limits,
    PreemptionRules,
    Settings,
    Workload,
    WorkloadProfile,
)
from ..admission.policies import OFFERED
from ..const import (
    CONF_AGE_STEP,
    CONF_BACKGROUND_SHARE,
    CONF_BAND,
    CONF_BYPASS,
    CONF_COMPLETION_TARGET,
    CONF_COST_CACHED,
    CONF_COST_OUTPUT,
    CONF_COST_UNCACHED,
    CONF_MAX_PAUSE,
    CONF_MAX_WAIT,
    CONF_PATIENCE,
    CONF_PAUSED,
    CONF_PAUSED_WORKLOADS,
    CONF_POLICY,
    CONF_PREEMPTIBLE,
    CONF_PREEMPTION,
    CONF_PREEMPTION_THRESHOLD,
    CONF_QUEUE_LIMIT,
    CONF_QUEUE_LIMIT_CLASS,
    CONF_TTFT_TARGET,
    CONF_WORKLOADS,
    MAX_BACKGROUND_SHARE,
)
from .stored import Stored

_INTERRUPTING = PreemptionRules(while_reading=True)
"""What a household does not set. A prompt that was left is mostly still in the server's
cache when it is read again, and what is spoken need not wait until it is read."""

USUAL = Settings()
"""The rules of a household that changed none."""


def settings_from(options: Mapping[str, Any]) -> Settings:
    """Return the rules that these options set; the usual ones where they don't."""
    stored = Stored(options, "options")
    workloads = stored.part(CONF_WORKLOADS)
    costs, limits = USUAL.costs, USUAL.limits
    share = stored.number(
        CONF_BACKGROUND_SHARE,
        percent(USUAL.background_share),
        most=MAX_BACKGROUND_SHARE,
    )
    return Settings(
        policy=stored.one_of(CONF_POLICY, OFFERED, USUAL.policy),
        costs=CostWeights(
            stored.number(CONF_COST_UNCACHED, costs.uncached_prompt),
            stored.number(CONF_COST_CACHED, costs.cached_prompt),
            stored.number(CONF_COST_OUTPUT, costs.output),
        ),
        limits=Limits(
            stored.whole(CONF_QUEUE_LIMIT, limits.queued, least=1),
            stored.whole(CONF_QUEUE_LIMIT_CLASS, limits.queued_per_class, least=1),
        ),
        profiles={
            workload: _profile(workloads.part(workload), usual)
            for workload, usual in DEFAULT_PROFILES.items()
        },
        background_share=share / 100,
        bypass=stored.number(CONF_BYPASS, USUAL.bypass),
        preemption=_preemption(stored),
        paused_nodes=stored.names(CONF_PAUSED),
        paused_workloads=frozenset(
            Workload(name) for name in stored.names(CONF_PAUSED_WORKLOADS, Workload)
        ),
    )


def percent(part: float) -> float:
    """Return a part of 1 in percent, without the noise of binary fractions."""
    return round(100 * part, 6)


def changed_profile(workload: Workload, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return which of the values of a kind of requests differ from the usual ones."""
    usual = profile_values(DEFAULT_PROFILES[workload])
    return {key: value for key, value in values.items() if value != usual[key]}


def profile_values(profile: WorkloadProfile) -> dict[str, Any]:
    """Return what can be changed about a kind of requests, as it is stored."""
    return {
        CONF_BAND: profile.band,
        CONF_TTFT_TARGET: profile.ttft_target_s,
        CONF_AGE_STEP: profile.age_step_s,
        CONF_MAX_WAIT: profile.max_wait_s,
        CONF_PREEMPTIBLE: profile.preemptible,
        CONF_COMPLETION_TARGET: profile.completion_target_s,
        CONF_MAX_PAUSE: profile.max_pause_s,
        CONF_PATIENCE: profile.patience_s,
    }


def _profile(stored: Stored, usual: WorkloadProfile) -> WorkloadProfile:
    return replace(
        usual,
        band=stored.whole(CONF_BAND, usual.band, most=BACKGROUND_BAND),
        ttft_target_s=stored.above_zero(CONF_TTFT_TARGET, usual.ttft_target_s),
        age_step_s=stored.above_zero(CONF_AGE_STEP, usual.age_step_s),
        max_wait_s=stored.above_zero(CONF_MAX_WAIT, usual.max_wait_s),
        preemptible=stored.flag(CONF_PREEMPTIBLE, usual=usual.preemptible),
        completion_target_s=stored.above_zero(
            CONF_COMPLETION_TARGET, usual.completion_target_s
        ),
        max_pause_s=stored.number(CONF_MAX_PAUSE, usual.max_pause_s),
        patience_s=stored.number(CONF_PATIENCE, usual.patience_s),
    )


def _preemption(stored: Stored) -> PreemptionRules | None:
    threshold = stored.number(CONF_PREEMPTION_THRESHOLD, _INTERRUPTING.threshold)
    wanted = stored.flag(CONF_PREEMPTION, usual=True)
    return replace(_INTERRUPTING, threshold=threshold) if wanted else None
