"""How many histories are tried: by default always the same few.

With ``FAIR_SHARE_EXAMPLES`` so many of each kind, other ones each time; pytest's
``--hypothesis-seed`` brings them back.
"""

import os

from hypothesis import HealthCheck, settings

_EXAMPLES = os.environ.get("FAIR_SHARE_EXAMPLES")

TRACES = settings(
    max_examples=int(_EXAMPLES or 40),
    derandomize=_EXAMPLES is None,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
HISTORIES = settings(TRACES, stateful_step_count=60)
