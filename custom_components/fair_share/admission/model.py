"""Value types of the admission queue.

Everything that crosses a border of this package is one of these frozen values.
Units are part of the field names: ``_tokens``, ``_s`` (seconds). A *charge* is in
weighted tokens, see ``CostWeights``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

ROOT_ID = "household"
"""Id of the root of the share tree."""

OUTSIDE_ID = "outside"
"""Stands in the place of a server for work that takes no slot of any."""


class Workload(StrEnum):
    """What kind of work a request is; decides how urgent it is."""

    VOICE = "voice"
    ACCESSIBILITY = "accessibility"
    CHAT = "chat"
    TASK = "task"
    BACKGROUND = "background"


@dataclass(frozen=True, slots=True)
class WorkloadProfile:
    """How urgent a workload is.

    ``band`` runs from 0 (most urgent) to 3 (background). A waiting request gains
    one band for every ``age_step_s`` it has waited and is overdue after
    ``max_wait_s``. ``ttft_target_s`` and ``completion_target_s`` count from its
    arrival: when the first token and the whole answer are wanted. While no server can
    be reached at all it is kept for at most ``patience_s``. An interrupted answer is
    overdue after ``max_pause_s``. Its listener takes in ``consumed_tokens_per_s``:
    about 4 when spoken, 6 when read, as fast as it comes when nobody waits for it.
    For at most ``stall_s`` at a time may others' long prompts keep its start, or the
    next word of its answers, waiting.
    """

    band: int
    ttft_target_s: float
    age_step_s: float
    max_wait_s: float
    patience_s: float
    completion_target_s: float
    max_pause_s: float
    consumed_tokens_per_s: float
    preemptible: bool = True
    stall_s: float = inf


PATIENT_BAND = 2
"""From this band on nobody waits for the first word."""

BACKGROUND_BAND = 3
"""The most patient band; also where a used-up quota may demote a request to."""

_SPEECH, _READING, _NOBODY = 4.0, 6.0, 0.0
_SPOKEN = WorkloadProfile(0, 1.5, 10.0, 15.0, 60.0, 15.0, 2.0, _SPEECH, stall_s=0.25)

DEFAULT_PROFILES: dict[Workload, WorkloadProfile] = {
    Workload.VOICE: _SPOKEN,
    Workload.ACCESSIBILITY: _SPOKEN,
    Workload.CHAT: WorkloadProfile(
        1, 5.0, 30.0, 60.0, 120.0, 60.0, 5.0, _READING, stall_s=0.5
    ),
    Workload.TASK: WorkloadProfile(
        2, 30.0, 60.0, 300.0, 600.0, 300.0, 30.0, _NOBODY, stall_s=2.0
    ),
    Workload.BACKGROUND: WorkloadProfile(
        3, 300.0, 300.0, 1800.0, 3600.0, 1800.0, 300.0, _NOBODY
    ),
}


@dataclass(frozen=True, slots=True)
class CostWeights:
    """Price of one token of each kind.

    The defaults for prompt and output are those of the virtual token counter
    (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024); a
    prompt token that the server still had in its prefix cache costs a tenth.
    """

    uncached_prompt: float = 1.0
    cached_prompt: float = 0.1
    output: float = 2.0

    def charge(self, uncached: float, cached: float, output: float) -> float:
        """Return the charge, in weighted tokens, of so many tokens of each kind."""
        return (
            self.uncached_prompt * uncached
            + self.cached_prompt * cached
            + self.output * output
        )


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens of one or many requests: prompt computed, prompt cached, output."""

    uncached: int = 0
    cached: int = 0
    output: int = 0

    @property
    def prompt(self) -> int:
        """All prompt tokens, cached or not."""
        return self.uncached + self.cached


@dataclass(frozen=True, slots=True)
class Caps:
    """Upper limits of a node or class; ``None`` means no limit of its own."""

    context_tokens: int | None = None
    output_tokens: int | None = None
    in_flight: int | None = None
    queued: int | None = None


class QuotaWindow(StrEnum):
    """Calendar period, in the household's local time, after which a quota resets."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class QuotaEnd(StrEnum):
    """What happens when a quota is used up.

    ``FINISH``: running answers may end, nothing new starts. ``DEMOTE``: everything
    goes on, but only as background work. ``STOP``: running answers are stopped too.
    """

    FINISH = "finish"
    DEMOTE = "demote"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class QuotaSpec:
    """So many tokens per calendar window, or refilled at a steady rate.

    A quota counts what the server works on: uncached prompt tokens and output
    tokens. Cached prompt tokens are free. With ``refill_per_s``, in tokens per
    second, ``tokens`` is the most that can be saved up and ``window`` only says over
    which period use is shown.
    """

    tokens: int
    window: QuotaWindow = QuotaWindow.DAY
    at_end: QuotaEnd = QuotaEnd.STOP
    refill_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """An inner node of the share tree: the member or the device of a member."""

    node_id: str
    parent_id: str = ROOT_ID
    weight: float = 1.0
    quota: QuotaSpec | None = None
    caps: Caps = Caps()


@dataclass(frozen=True, slots=True)
class RequestClass:
    """A leaf of the share tree: one workload of one member, device or client."""

    class_id: str
    parent_id: str
    workload: Workload
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ServerCapacity:
    """What a server can hold.

    ``slots``: sequences it can run at once. ``context_tokens``: the most one
    sequence may hold (prompt and output). ``kv_tokens``: the pool that all
    sequences share, ``None`` when every slot has memory of its own.
    ``survives_exhaustion``: whether the engine itself makes room when the pool is
    used up (vLLM preempts a request) or loses its streams (llama.cpp).
    ``patient_slots``: work that is not urgent is started only while fewer requests than
    that are in flight; ``None``: while one more pays, as far as it was learnt
    (``learns``), else in every slot.
    """

    server_id: str
    slots: int
    context_tokens: int
    kv_tokens: int | None = None
    block_tokens: int = 1
    survives_exhaustion: bool = False
    patient_slots: int | None = None
    learns: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One generation that wants to be admitted.

    ``cached_tokens`` is an estimate of how much of the prompt the server still has
    in its cache. ``servers`` limits where it may run (``None``: anywhere).
    ``preferred_server`` has its prefix; ``cached`` tells for each server, by its id,
    how many tokens of it, where more is known. ``continues_turn`` marks a later request
    of an agent's turn (a tool loop), which keeps its place at the front of its class.
    ``preemptible`` is false for what can't go on after an interruption. ``outside``
    marks work that is done elsewhere: all rules but those of servers hold for it.
    """

    request_id: str
    class_id: str
    prompt_tokens: int
    max_output_tokens: int
    cached_tokens: int = 0
    servers: frozenset[str] | None = None
    preferred_server: str | None = None
    continues_turn: bool = False
    preemptible: bool = True
    outside: bool = False
    cached: Mapping[str, int] = field(default_factory=dict, hash=False)

    def cached_on(self, server_id: str) -> int:
        """Return how many tokens of the prompt a server is counted on to have."""
        if not self.cached:
            return self.cached_tokens
        return min(self.cached.get(server_id, 0), self.prompt_tokens - 1)


@dataclass(frozen=True, slots=True)
class Limits:
    """How many requests may wait: in all, and in one class."""

    queued: int = 200
    queued_per_class: int = 50


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    """When a running answer is interrupted for a waiting request.

    Between equally urgent requests only if the victim's side is ahead by more than
    ``threshold`` (weighted tokens per weight); between bands at once. An answer is
    left alone before ``min_run_tokens`` of output since it started, when it probably
    has no more than ``nearly_done_tokens`` to go, and after ``most_per_request``
    interruptions, of which equals may use up ``most_among_equals``: what is more urgent
    must find somebody to interrupt. ``while_reading``: more urgent requests interrupt
    also a prompt that is being read. That pays where a server computes small batches,
    as it can be left only when a batch ends.
    """

    threshold: float = 1000.0
    min_run_tokens: int = 8
    nearly_done_tokens: int = 16
    most_per_request: int = 3
    most_among_equals: int = 1
    while_reading: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """All rules of a household that can change while its queue runs.

    ``background_share`` is the part of all service that background work gets while
    it waits, however busy the rest is; at most ``background_debt`` weighted tokens of
    it are owed. ``bypass`` is how far, in weighted tokens per weight, others may get
    ahead of a request that waits for memory by overtaking it. Without ``preemption``
    no running answer is interrupted. Nothing starts below ``paused_nodes`` or of
    ``paused_workloads``; it waits until they go on.
    """

    policy: str = "equal_tokens"
    costs: CostWeights = CostWeights()
    limits: Limits = Limits()
    profiles: Mapping[Workload, WorkloadProfile] = field(
        default_factory=lambda: DEFAULT_PROFILES
    )
    background_share: float = 0.05
    background_debt: float = 4000.0
    bypass: float = 1000.0
    preemption: PreemptionRules | None = None
    paused_nodes: frozenset[str] = frozenset()
    paused_workloads: frozenset[Workload] = frozenset()


class Rule(StrEnum):
    """The rule by which a request was chosen, or because of which it waits."""

    RESERVED_SHARE = "reserved_share"
    OVERDUE = "overdue"
    BAND = "band"
    POLICY = "policy"
    BYPASS = "bypass"
    BEHIND_OTHERS = "behind_others"
    IN_FLIGHT_CAP = "in_flight_cap"
    NO_SLOT = "no_slot"
    NOT_PAYING = "not_paying"
    BETTER_SERVER = "better_server"
    NO_KV = "no_kv"
    NO_SERVER = "no_server"
    PAUSED = "paused"
    QUOTA = "quota"
    BEHIND_BLOCKED = "behind_blocked"


class RejectReason(StrEnum):
    """Why a request was refused."""

    TOO_LONG = "too_long"
    QUOTA = "quota"
    QUEUE_FULL = "queue_full"
    NO_SERVER = "no_server"
    NO_MODEL = "no_model"
    NO_VISION = "no_vision"
    NO_AUDIO = "no_audio"
    CLASS_REMOVED = "class_removed"
    CANCELLED = "cancelled"
    CLOSED = "closed"


class Rejected(Exception):  # noqa: N818 - the queue's answer, not a failure of it
    """A request was refused.

    ``retry_after_s`` is how long to wait before asking again could help, ``None``
    when it never will. ``limit_tokens`` is the limit that a too long prompt broke.
    """

    def __init__(
        self,
        reason: RejectReason,
        *,
        retry_after_s: float | None = None,
        limit_tokens: int | None = None,
    ) -> None:
        """Keep the reason and what a caller needs to explain it."""
        super().__init__(reason.value)
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.limit_tokens = limit_tokens


class Outcome(StrEnum):
    """How an admitted or waiting request ended."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"
    STOPPED = "stopped"


class Verdict(StrEnum):
    """What a running request has to do after it reported its progress."""

    CONTINUE = "continue"
    STOP_QUOTA = "stop_quota"
    STOP_CANCELLED = "stop_cancelled"
    STOP_CLOSED = "stop_closed"


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A request may start now, on this server, for this reason.

    ``band`` is how urgent it is by now, after ageing.
    """

    request_id: str
    server_id: str
    band: int
    max_output_tokens: int
    rule: Rule
    waited_s: float


@dataclass(frozen=True, slots=True)
class Preemption:
    """A running request has to stop and wait again, for the sake of another.

    Or for its own (``for_request_id`` is ``None``): to go on at the server
    ``moves_to``, where it will be done sooner.
    """

    request_id: str
    for_request_id: str | None
    moves_to: str | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """A waiting request is refused after all; with its account if it had run before."""

    request_id: str
    error: Rejected
    record: RequestRecord | None = None


@dataclass(frozen=True, slots=True)
class Decisions:
    """What has to happen now.

    The quotas of ``reset_nodes`` have more left: a new window began, or they were
    refilled.
    """

    dispatches: tuple[Dispatch, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    reset_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """The account of one request after it ended.

    ``ttft_s`` counts from arrival to the first output token, ``None`` when there
    was none. ``rule`` is ``None`` when the request never started. ``preemptions``
    counts how often it was interrupted for others, ``caused`` how often others were
    for it; ``recomputed`` is what had to be read once more to go on, not part of
    ``tokens``.
    """

    request_id: str
    class_id: str
    workload: Workload
    outcome: Outcome
    rule: Rule | None
    server_id: str | None
    wait_s: float
    ttft_s: float | None
    duration_s: float
    tokens: TokenCount
    charge: float
    estimated: bool = False
    preemptions: int = 0
    paused_s: float = 0.0
    longest_pause_s: float = 0.0
    caused: int = 0
    recomputed: TokenCount = TokenCount()


@dataclass(frozen=True, slots=True)
class Ending:
    """How a request left the queue, by whatever way.

    ``path`` are the ids of its accounts, from the household down to its class.
    ``duration_s`` counts from arrival. ``record`` is its account; without one it was
    refused, for the reason ``refusal``, or its client left in that very moment.
    """

    request: Request
    path: tuple[str, ...]
    duration_s: float
    record: RequestRecord | None = None
    refusal: RejectReason | None = None
