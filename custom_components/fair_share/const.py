"""Names that several modules of the integration share."""

from typing import Final

DOMAIN: Final = "fair_share"

SUBENTRY_SERVER: Final = "server"
SUBENTRY_MEMBER: Final = "member"
SUBENTRY_DEVICE: Final = "device"
SUBENTRY_CLIENT: Final = "client"
SUBENTRY_AGENT: Final = "agent"
SUBENTRY_AI_TASK: Final = "ai_task"
SUBENTRY_WRAPPED_AGENT: Final = "wrapped_agent"

# Keys of subentry data. All values are stored flat, whatever sections a form has.
CONF_KIND: Final = "kind"
CONF_SLOTS: Final = "slots"
CONF_MEMORY: Final = "memory"
CONF_PATIENT_SLOTS: Final = "patient_slots"
CONF_SCHEDULING: Final = "scheduling"
CONF_PERSON_ID: Final = "person_id"
CONF_PERSONS: Final = "persons"
CONF_USER_IDS: Final = "user_ids"
CONF_MEMBER: Final = "member"
CONF_WORKLOAD: Final = "workload"
CONF_WEB_PAGES: Final = "web_pages"
CONF_WEIGHT: Final = "weight"
CONF_QUOTA_TOKENS: Final = "quota_tokens"
CONF_QUOTA_WINDOW: Final = "quota_window"
CONF_QUOTA_REFILL: Final = "quota_refill"
CONF_QUOTA_END: Final = "quota_end"
CONF_CONTEXT_TOKENS: Final = "context_tokens"
CONF_OUTPUT_TOKENS: Final = "output_tokens"
CONF_IN_FLIGHT: Final = "in_flight"
CONF_QUEUED: Final = "queued"
CONF_KEY_HASH: Final = "key_hash"
CONF_KEY_HINT: Final = "key_hint"
CONF_REQUESTS_PER_MINUTE: Final = "requests_per_minute"
CONF_FROM_OUTSIDE: Final = "from_outside"
CONF_TEMPERATURE: Final = "temperature"
CONF_AGENT: Final = "agent"
CONF_SERVER: Final = "server"

# Keys of the entry's options. What is not there has its usual value.
CONF_POLICY: Final = "policy"
CONF_BACKGROUND_SHARE: Final = "background_share_percent"
CONF_WORKLOADS: Final = "workloads"
CONF_PREEMPTION: Final = "preemption"
CONF_PREEMPTION_THRESHOLD: Final = "preemption_threshold"
CONF_QUEUE_LIMIT: Final = "queue_limit"
CONF_QUEUE_LIMIT_CLASS: Final = "queue_limit_class"
CONF_BYPASS: Final = "bypass"
CONF_COST_UNCACHED: Final = "cost_uncached_prompt"
CONF_COST_CACHED: Final = "cost_cached_prompt"
CONF_COST_OUTPUT: Final = "cost_output"
CONF_ACTIVITY_LOG: Final = "activity_log"
CONF_PAUSED: Final = "paused"
CONF_PAUSED_WORKLOADS: Final = "paused_workloads"

GUEST_PREFIX: Final = "guest_"
"""Stands before the keys of a member's weight and quota: those of the guests."""

# Keys of each kind of requests in CONF_WORKLOADS; there too, only what is different
# from usual is stored.
CONF_BAND: Final = "band"
CONF_TTFT_TARGET: Final = "ttft_target_s"
CONF_AGE_STEP: Final = "age_step_s"
CONF_MAX_WAIT: Final = "max_wait_s"
CONF_PREEMPTIBLE: Final = "preemptible"
CONF_COMPLETION_TARGET: Final = "completion_target_s"
CONF_MAX_PAUSE: Final = "max_pause_s"
CONF_PATIENCE: Final = "patience_s"

# A value of CONF_QUOTA_WINDOW beside the calendar's: refilled by the hour.
QUOTA_STEADY: Final = "steady"

# Values of CONF_MEMORY: what the slots of a server have that does not tell.
MEMORY_SHARED: Final = "shared"
MEMORY_SEPARATE: Final = "separate"

# Values of CONF_SCHEDULING: what a server does with the urgency of a request. Nothing;
# serves by vLLM's field ``priority``; or it is the front of a cluster that does so.
SCHEDULING_NONE: Final = "none"
SCHEDULING_PRIORITY: Final = "priority"
SCHEDULING_CLUSTER: Final = "cluster"

# A value of CONF_SERVER: none of the household's.
OUTSIDE_SERVER: Final = "outside"

GATEWAY_PATH: Final = "/api/fair_share/v1"

# Built-in members of every household.
GUEST_ID: Final = "guest"
SHARED_ID: Final = "shared"

MAX_BACKGROUND_SHARE: Final = 90.0
"""In percent; with more hardly anything would be left for those who wait in person."""

DEFAULT_OUTPUT_TOKENS: Final = 1024
