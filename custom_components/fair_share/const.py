"""Names that several modules of the integration share."""

from typing import Final

DOMAIN: Final = "fair_share"

SUBENTRY_SERVER: Final = "server"
SUBENTRY_MEMBER: Final = "member"
SUBENTRY_DEVICE: Final = "device"
SUBENTRY_AGENT: Final = "agent"

# Keys of subentry data. All values are stored flat, whatever sections a form has.
CONF_KIND: Final = "kind"
CONF_SLOTS: Final = "slots"
CONF_MEMORY: Final = "memory"
CONF_PERSON_ID: Final = "person_id"
CONF_PERSONS: Final = "persons"
CONF_USER_IDS: Final = "user_ids"
CONF_MEMBER: Final = "member"
CONF_WORKLOAD: Final = "workload"
CONF_WEIGHT: Final = "weight"
CONF_QUOTA_TOKENS: Final = "quota_tokens"
CONF_QUOTA_WINDOW: Final = "quota_window"
CONF_CONTEXT_TOKENS: Final = "context_tokens"
CONF_OUTPUT_TOKENS: Final = "output_tokens"
CONF_IN_FLIGHT: Final = "in_flight"
CONF_TEMPERATURE: Final = "temperature"

# Keys of the entry's options.
CONF_POLICY: Final = "policy"
CONF_GUEST_WEIGHT: Final = "guest_weight"
CONF_GUEST_QUOTA_TOKENS: Final = "guest_quota_tokens"
CONF_QUEUE_LIMIT: Final = "queue_limit"
CONF_QUEUE_LIMIT_CLASS: Final = "queue_limit_class"
CONF_COST_UNCACHED: Final = "cost_uncached_prompt"
CONF_COST_CACHED: Final = "cost_cached_prompt"
CONF_COST_OUTPUT: Final = "cost_output"

# Values of CONF_MEMORY: what the slots of a server have that does not tell.
MEMORY_SHARED: Final = "shared"
MEMORY_SEPARATE: Final = "separate"

# Built-in members of every household.
GUEST_ID: Final = "guest"
SHARED_ID: Final = "shared"

DEFAULT_POLICY: Final = "equal_tokens"
DEFAULT_QUEUE_LIMIT: Final = 200
DEFAULT_QUEUE_LIMIT_CLASS: Final = 50
DEFAULT_OUTPUT_TOKENS: Final = 1024
